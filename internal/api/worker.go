package api

import (
	"time"

	"millrace/internal/job"
)

// Worker is a worker process.
type Worker struct {
	Namespace   string     `json:"namespace"`
	ID          string     `json:"id"`
	Hostname    string     `json:"hostname,omitempty"`
	PID         int64      `json:"pid,omitempty" api:"signed"`
	Labels      []string   `json:"labels"`
	State       string     `json:"state" api:"enum=running|quiet|terminate"`
	Started     *time.Time `json:"started,omitempty"`
	LastBeat    *time.Time `json:"last_beat,omitempty"`
	MemoryBytes int64      `json:"memory_bytes"`
	Connections int        `json:"connections"`
	Holder      string     `json:"holder"` // as jobs that are leased show it

	// Leases is whose leases are the worker's. Holder is made of it.
	Leases job.Holder `json:"-"`
}

// Signal is what a worker process is told.
type Signal string

// The signals.
const (
	SignalQuiet Signal = "quiet" // take no more jobs
	SignalStop  Signal = "stop"  // finish or fail what is held, and end
)

// SignalRequest says which workers are told what.
type SignalRequest struct {
	Signal    Signal `json:"signal"`
	Namespace string `json:"namespace,omitempty"` // only there
	ID        string `json:"id,omitempty"`        // only this one
}

// Signalled is how many workers were told.
type Signalled struct {
	Workers int `json:"workers"`
}

// WorkerPage is a part of the list of workers.
type WorkerPage struct {
	Workers []Worker `json:"workers"`
	Next    string   `json:"next,omitempty"`
}

// Connections are the connections of one protocol in one namespace.
type Connections struct {
	Protocol  string   `json:"protocol"`
	Namespace string   `json:"namespace,omitempty"` // absent: it is in the requests
	Addresses []string `json:"addresses"`
	TLS       bool     `json:"tls"`
	Open      int64    `json:"open"`
	Total     int64    `json:"total"`    // since the server started
	Rejected  int64    `json:"rejected"` // because there were too many
}

// ConnectionList are the connections by protocol.
type ConnectionList struct {
	Connections []Connections `json:"connections"`
}
