package api

import (
	"time"
)

// Activity is something that an operator has done.
type Activity struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"` // the address it came from
	Via  string    `json:"via"` // with what
	What string    `json:"what"`
	Jobs uint64    `json:"jobs"` // that it concerned; zero: none, or a bulk action goes on with it
}

// FailureBuckets is how many parts the chart of a group has.
const FailureBuckets = 24

// Failures are the dead and retrying jobs, grouped by what they are and what went wrong. However many there are, a
// bounded number of them is looked at: the newest of each queue, of those queues with most first.
type Failures struct {
	Groups []FailureGroup `json:"groups"`        // those with most jobs first
	Looked uint64         `json:"looked"`        // jobs looked at
	Total  uint64         `json:"total"`         // jobs there are
	From   time.Time      `json:"from,omitzero"` // when the charts of all groups begin
	To     time.Time      `json:"to,omitzero"`   // when they end
}

// Complete reports whether every job was looked at.
func (f *Failures) Complete() bool { return f.Looked >= f.Total }

// FailureGroup is a kind of failure.
type FailureGroup struct {
	Type     string    `json:"type,omitempty"`  // of the jobs
	Error    string    `json:"error,omitempty"` // the beginning of it, as far as all have it in common
	Count    int       `json:"count"`           // jobs, among those looked at
	Dead     int       `json:"dead"`
	Retrying int       `json:"retrying"`
	First    time.Time `json:"first"`             // when the first of them failed
	Last     time.Time `json:"last"`              // when the last of them failed
	Sample   JobRow    `json:"sample"`            // the newest
	Message  string    `json:"message,omitempty"` // its whole error
	// How many failed, from the first time of all groups to the last, in parts of the same length.
	Chart [FailureBuckets]int `json:"chart"`
	// It fits the jobs of the group, also those that were not looked at.
	Filter Filter `json:"filter"`
}

// ActivityList is what operators have done, the newest first.
type ActivityList struct {
	Activity []Activity `json:"activity"`
}
