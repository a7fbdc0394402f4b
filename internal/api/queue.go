package api

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Fairness says whether the groups of a queue take turns.
type Fairness struct {
	On bool `json:"on"` // groups take turns
	// How many jobs in a row a group is given in its turn; 1 if it is not named. The empty name stands for jobs without
	// a group.
	Weights map[string]uint32 `json:"weights,omitempty" api:"minimum=1 maximum=1000"`
}

// NewHook is what happens when a job of a queue dies: one of both.
type NewHook struct {
	// A queue of the same namespace, to which a job is pushed that tells of the death.
	Push string `json:"push,omitempty"`
	// An http or https URL that is called with a signed request. It needs hooks.secret.
	URL string `json:"url,omitempty"`
}

// Hook is the hook of a queue.
type Hook struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	NewHook
	Origin string `json:"origin" api:"enum=file|api"` // who has set it
}

// Hooks are all hooks.
type Hooks struct {
	Hooks []Hook `json:"hooks"`
}

// Limits say how many jobs of a queue may run at a time, and how fast they are given out. Zero, or an empty rate, is no
// limit.
type Limits struct {
	// How many jobs may run at a time; 0 is no limit.
	Concurrency uint32 `json:"concurrency" api:"optional"`
	// How many of them one worker may have at a time; 0 is no limit.
	Worker uint32 `json:"worker" api:"optional"`
	// When the slot of a job is free although it may still run, counted from when it was given out; 0 is never.
	SlotSeconds float64 `json:"slot_seconds" api:"optional"`
	// How many jobs are given out in a time, such as 100/s, 5/m or 1/90s; empty is no limit.
	Rate string `json:"rate" api:"optional"`
	// How many jobs of the rate may be given out at once after a quiet time; 0 stands for 1.
	Burst uint32 `json:"burst" api:"optional maximum=1000000"`
	// How many jobs of one group may run at a time; 0 is one, or no limit in a fair queue.
	GroupConcurrency uint32 `json:"group_concurrency,omitempty"`
	// How many jobs of one group are given out in a time; empty is no limit.
	GroupRate string `json:"group_rate,omitempty"`
	// How many of these may be given out at once after a quiet time; 0 stands for 1.
	GroupBurst uint32 `json:"group_burst,omitempty" api:"maximum=1000000"`
}

// LimitUse is the limits of a queue and how far they are used.
type LimitUse struct {
	Limits
	SlotsUsed uint64  `json:"slots_used"`           // jobs that run and count
	SlotsFree *uint64 `json:"slots_free,omitempty"` // how many more may run, if concurrency is limited
	Held      uint64  `json:"held"`                 // ready jobs that wait because of a limit
}

// rateUnits are the units of time that a rate is given in, the shortest first.
var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}

// ParseRate understands a rate such as 100/s, 5/m or 1/90s. An empty one, and 0, is none.
func ParseRate(text string) (n uint32, per time.Duration, err error) {
	if text == "" || text == "0" {
		return 0, 0, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	jobs, nerr := strconv.ParseUint(count, 10, 32)
	for _, u := range rateUnits {
		if u.name == unit {
			per = u.per
		}
	}
	if per == 0 {
		if per, err = time.ParseDuration(unit); err != nil {
			nerr = err
		}
	}
	if nerr != nil || per <= 0 || jobs > math.MaxUint32 {
		return 0, 0, Invalid("rate: %q is no rate: choose for example 100/s, 5/m, 1000/h or 1/90s", text)
	}
	return uint32(jobs), per, nil
}

// ShowRate is the inverse of ParseRate.
func ShowRate(n uint32, per time.Duration) string {
	if n == 0 {
		return ""
	}
	unit := per.String()
	for _, u := range rateUnits {
		if u.per == per {
			unit = u.name
		}
	}
	return strconv.FormatUint(uint64(n), 10) + "/" + unit
}

// Namespace is a namespace and what is in it.
type Namespace struct {
	Name   string `json:"name"`
	Queues int    `json:"queues"`
	Counts Counts `json:"counts"`
}

// Counts are jobs by state.
type Counts map[string]uint64

// Totals are what happened to the jobs of a queue since it was made.
type Totals map[string]uint64

// Queue is what is known about a queue.
type Queue struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Counts    Counts `json:"counts"`
	Jobs      uint64 `json:"jobs"` // in any state
	Totals    Totals `json:"totals"`
	Rates     Rates  `json:"rates"` // lately
	Paused    bool   `json:"paused"`
	// When the pause ends by itself.
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	// How long the ready job that is first in order has been ready.
	OldestReadySeconds *float64   `json:"oldest_ready_seconds,omitempty"`
	Capacity           uint64     `json:"capacity"` // zero is no limit
	Limits             *LimitUse  `json:"limits,omitempty"`
	Hook               *Hook      `json:"hook,omitempty"` // not in lists
	Fairness           *Fairness  `json:"fairness,omitempty"`
	Protocols          []string   `json:"protocols"`
	Created            *time.Time `json:"created,omitempty"`
	// The queue was removed by a protocol that keeps its other jobs.
	Hidden bool `json:"hidden"`
}

// QueuePage is a part of the list of queues.
type QueuePage struct {
	Queues []Queue `json:"queues"`
	// The cursor that continues the list; absent at its end. It may be there with few queues or none: a search for a
	// part of a name has stopped early, and goes on with it.
	Next string `json:"next,omitempty"`
}

// NamespacePage is a part of the list of namespaces.
type NamespacePage struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       string      `json:"next,omitempty"`
}

// QueueFilter says which queues are meant.
type QueueFilter struct {
	Namespace string `json:"namespace,omitempty"` // only this one
	Name      string `json:"name,omitempty"`      // a part of the name
}

// Count is how many jobs something has concerned.
type Count struct {
	Jobs int `json:"jobs"`
}

// RemoveOptions say how a queue is removed.
type RemoveOptions struct {
	IfIdle bool `query:"if_idle"` // refuse if jobs are running or callers wait
	Keep   bool `query:"keep"`    // keep the empty queue, its settings and counters
}

// PauseRequest says how long a queue is paused.
type PauseRequest struct {
	Seconds float64 `json:"for_seconds,omitempty"` // when the pause ends by itself; 0 is never
}

// PurgeRequest says which jobs of a queue are removed.
type PurgeRequest struct {
	State string `json:"state" api:"is=State"`
}

// RespawnRequest says how dead jobs come back.
type RespawnRequest struct {
	// The most that are brought back, those that died first.
	Limit    int     `json:"limit,omitempty" api:"minimum=1 maximum=1000 default=1000"`
	Attempts uint32  `json:"attempts,omitempty" api:"default=1"` // that they have from now on; 0 is no bound
	TTL      float64 `json:"ttl_seconds,omitempty"`              // how long they live; 0 is for ever
}

// RespawnOptions say how dead jobs come back.
type RespawnOptions struct {
	Limit    int           // the most that are brought back, those that died first
	Attempts uint32        // how many attempts they have; zero is no bound
	TTL      time.Duration // how long they live; zero is for ever
}
