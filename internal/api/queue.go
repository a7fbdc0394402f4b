package api

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Fairness says whether the groups of a queue take turns. Weights are how many jobs in a row a group is given in its
// turn; one if it is not named. The empty name stands for the jobs without a group.
type Fairness struct {
	On      bool              `json:"on"`
	Weights map[string]uint32 `json:"weights,omitempty"`
}

// NewHook is what happens when a job of a queue dies: one of both.
type NewHook struct {
	Push string `json:"push,omitempty"` // a queue of the same namespace, to which a job is pushed
	URL  string `json:"url,omitempty"`  // which is called
}

// Hook is the hook of a queue.
type Hook struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	NewHook
	Origin string `json:"origin"` // file or api
}

// Hooks are all hooks.
type Hooks struct {
	Hooks []Hook `json:"hooks"`
}

// Limits say how many jobs of a queue may run at a time, and how fast they are given out. Zero, or an empty rate, is no
// limit.
type Limits struct {
	Concurrency uint32 `json:"concurrency"` // at a time
	Worker      uint32 `json:"worker"`      // at a time by one worker
	// SlotSeconds frees the slot of a job that long after it was given out, although it may still run.
	SlotSeconds float64 `json:"slot_seconds"`
	Rate        string  `json:"rate"`  // such as 100/s
	Burst       uint32  `json:"burst"` // of that rate, at once after a quiet time
	// The same for the jobs of each group. Without GroupConcurrency it is one at a time, and any number in a fair
	// queue.
	GroupConcurrency uint32 `json:"group_concurrency,omitempty"`
	GroupRate        string `json:"group_rate,omitempty"`
	GroupBurst       uint32 `json:"group_burst,omitempty"`
}

// LimitUse is the limits of a queue and how far they are used.
type LimitUse struct {
	Limits
	SlotsUsed uint64  `json:"slots_used"`
	SlotsFree *uint64 `json:"slots_free,omitempty"` // if Concurrency is limited
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
	Name   string            `json:"name"`
	Queues int               `json:"queues"`
	Counts map[string]uint64 `json:"counts"` // jobs by state
}

// Queue is what is known about a queue.
type Queue struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Counts    map[string]uint64 `json:"counts"` // jobs by state
	Jobs      uint64            `json:"jobs"`   // in any state
	Totals    map[string]uint64 `json:"totals"` // since the queue was made
	Rates     Rates             `json:"rates"`  // per second, lately
	Paused    bool              `json:"paused"`
	// PausedUntil is when the pause ends by itself.
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	// OldestReadySeconds is how long the ready job that is first in order has been ready.
	OldestReadySeconds *float64   `json:"oldest_ready_seconds,omitempty"`
	Capacity           uint64     `json:"capacity"` // zero is no limit
	Limits             *LimitUse  `json:"limits,omitempty"`
	Hook               *Hook      `json:"hook,omitempty"` // not in lists
	Fairness           *Fairness  `json:"fairness,omitempty"`
	Protocols          []string   `json:"protocols"`
	Created            *time.Time `json:"created,omitempty"`
	// Hidden tells that the queue was removed by a protocol that keeps its other jobs.
	Hidden bool `json:"hidden"`
}

// QueuePage is a part of the list of queues.
type QueuePage struct {
	Queues []Queue `json:"queues"`
	// Next continues the list; empty at its end. It may be there with few queues or none: a search for a part of a
	// name has stopped early, and goes on with it.
	Next string `json:"next,omitempty"`
}

// NamespacePage is a part of the list of namespaces.
type NamespacePage struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       string      `json:"next,omitempty"`
}

// QueueFilter says which queues are meant.
type QueueFilter struct {
	Namespace string `json:"namespace,omitempty"` // empty: every one
	Name      string `json:"name,omitempty"`      // a part of the name
}

// Count is how many jobs something has concerned.
type Count struct {
	Jobs int `json:"jobs"`
}

// RemoveOptions say how a queue is removed.
type RemoveOptions struct {
	IfIdle bool // refuse if callers wait or jobs are leased
	Keep   bool // keep the empty queue, its settings and counters
}

// RespawnOptions say how dead jobs come back.
type RespawnOptions struct {
	Limit    int           // at most so many, those that died first
	Attempts uint32        // how many attempts they have; zero is no bound
	TTL      time.Duration // how long they live; zero is for ever
}
