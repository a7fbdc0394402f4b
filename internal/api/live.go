package api

import (
	"time"
)

// Concern is something that an operator should look at, with the reason in words.
type Concern struct {
	Kind      ConcernKind `json:"kind"`
	Severe    bool        `json:"severe"` // work is refused or at a standstill
	About     string      `json:"about"`  // the reason in words
	Namespace string      `json:"namespace,omitempty"`
	Queue     string      `json:"queue,omitempty"` // that it is about, or the first of several
}

// ConcernKind is what a concern is about.
type ConcernKind string

// The kinds of concern.
const (
	ConcernWaiting ConcernKind = "waiting" // jobs wait unusually long
	ConcernPaused  ConcernKind = "paused"  // queues are paused
	ConcernDied    ConcernKind = "died"    // jobs have died lately
	ConcernSpace   ConcernKind = "space"   // the disk is nearly full
)

// Wait tells how long jobs waited, from when they were ready until they were fetched. Quantiles are as exact as
// the buckets that they are counted in: a fifth too long at most.
type Wait struct {
	Jobs uint64  `json:"jobs"` // that were fetched
	Mean float64 `json:"mean_seconds"`
	P50  float64 `json:"p50_seconds"`
	P95  float64 `json:"p95_seconds"`
}

// Point is what happened in one slot of the history, and how many jobs there were at its end.
type Point struct {
	At      time.Time `json:"at"` // when the slot began
	Pushed  uint64    `json:"pushed"`
	Fetched uint64    `json:"fetched"`
	Acked   uint64    `json:"acked"`
	Failed  uint64    `json:"failed"`
	Died    uint64    `json:"died"`
	Expired uint64    `json:"expired"`
	Wait    *Wait     `json:"wait,omitempty"`
	Run     *Wait     `json:"run,omitempty"`    // only of a type of jobs
	Counts  Counts    `json:"counts,omitempty"` // of all queues together
}

// History is what happened lately, in slots of one length, the oldest first. Slots in which the
// server did not run are not there.
type History struct {
	Resolution string  `json:"resolution" api:"enum=10s|1m|1h|hour|day|month"` // of one type it is the period
	Seconds    float64 `json:"seconds"`                                        // length of a slot
	Points     []Point `json:"points" api:"maxItems=1440"`
}

// Parts is what happened lately, by protocol and by queue, the busiest first.
type Parts struct {
	Period    string  `json:"period" api:"enum=hour|day|month"`
	Seconds   float64 `json:"seconds"` // that are told about, as far as the server ran
	Protocols []Part  `json:"protocols"`
	Queues    []Part  `json:"queues"` // each as far as it was among the busiest of a part of the period
}

// Part is what happened to a protocol or a queue. Through a protocol, a command that pushes several jobs at once counts
// as one.
type Part struct {
	Protocol  string `json:"protocol,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // of a queue
	Pushed    uint64 `json:"pushed"`
	Fetched   uint64 `json:"fetched"`
	Acked     uint64 `json:"acked"`
	Failed    uint64 `json:"failed"`
	Wait      *Wait  `json:"wait,omitempty"`
}

// Rates are how much happens in a second.
type Rates struct {
	Pushed  float64 `json:"pushed"`
	Fetched float64 `json:"fetched"`
	Acked   float64 `json:"acked"`
	Failed  float64 `json:"failed"`
}

// Sample is what happened in the last moments.
type Sample struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // that the rates are of
	Rates   Rates     `json:"rates"`
	Counts  Counts    `json:"counts"`
	Queues  int       `json:"queues"`  // how many there are
	Waiting int       `json:"waiting"` // callers that wait for something
	Wait    *Wait     `json:"wait,omitempty"`
	// Those through which something happened.
	Protocols []ProtocolSample `json:"protocols"`
	// The queues where most happened, the busiest first.
	Busiest []QueueSample `json:"busiest" api:"maxItems=100"`
	// What an operator should look at, the worst first.
	Concerns []Concern `json:"concerns"`
}

// QueueSample is what happened in a queue.
type QueueSample struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rates     Rates  `json:"rates"`
	Ready     uint64 `json:"ready"`
	Running   uint64 `json:"running"`
	Wait      *Wait  `json:"wait,omitempty"`
}

// ProtocolSample is what happened through a protocol. A command that pushes several jobs at once counts as one.
type ProtocolSample struct {
	Protocol string `json:"protocol"`
	Rates    Rates  `json:"rates"`
	Wait     *Wait  `json:"wait,omitempty"`
}

// Types are the figures of types of jobs: in a period, or without one since the server was started.
type Types struct {
	Period  string        `json:"period,omitempty" api:"enum=hour|day|month"`
	Seconds float64       `json:"seconds"` // that are told about, as far as the server ran
	Types   []TypeFigures `json:"types"`   // those that were fetched most first
}

// TypeFigures are the figures of a type of jobs.
type TypeFigures struct {
	Type    string `json:"type"`             // empty: jobs without one
	Others  bool   `json:"others,omitempty"` // all types together that have no figures of their own
	Fetched uint64 `json:"fetched"`
	Acked   uint64 `json:"acked"`
	Failed  uint64 `json:"failed"` // by workers; a lease that lapsed is not counted
	Wait    *Wait  `json:"wait,omitempty"`
	Run     *Wait  `json:"run,omitempty"` // how long jobs were in a worker's hands
}
