package api

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"millrace/internal/job"
)

// FetchOptions say which jobs a worker wants.
type FetchOptions struct {
	Namespace string
	Queues    []string // the first that has a job is taken from
	Max       int      // jobs at most; default 1
	Wait      time.Duration
	// Lease is how long the worker holds the jobs unless it extends that; zero is each job's own, or LeaseDefault.
	Lease time.Duration
	// Holder is what an earlier fetch of the same worker has answered; empty for its first.
	Holder string
	// Worker is what people see of who holds the jobs.
	Worker string
}

// LeaseDefault is how long a job is held if neither the job nor the fetch says.
const LeaseDefault = time.Minute

// Work are the jobs that a fetch has leased.
type Work struct {
	// Holder is who holds them. It is named again to settle them, and with the next fetch.
	Holder string    `json:"holder"`
	Jobs   []WorkJob `json:"jobs"`
}

// WorkJob is a job in a worker's hands, with the whole of its body.
type WorkJob struct {
	JobRow
	Body *Content `json:"body,omitempty"`
	// Custom is what was pushed along with it through this API, Trace the W3C traceparent of who pushed it.
	Custom json.RawMessage `json:"custom,omitempty"`
	Trace  string          `json:"traceparent,omitempty"`
}

// CustomOf returns the object that was pushed along with a job. What protocols keep with theirs is never an object, but
// for one whose jobs are told by their door.
func CustomOf(extra []byte) json.RawMessage {
	if len(extra) == 0 || extra[0] != '{' {
		return nil
	}
	return extra
}

// ParseHolder is the inverse of HolderText.
func ParseHolder(text string) (job.Holder, error) {
	node, num, ok := strings.Cut(text, "-")
	a, err := strconv.ParseUint(node, 36, 32)
	b, err2 := strconv.ParseUint(num, 36, 64)
	if !ok || err != nil || err2 != nil || b == 0 {
		return job.Holder{}, Invalid("holder: %q is none: name what the fetch has answered", text)
	}
	return job.Holder{Node: uint32(a), Num: b}, nil
}

// HolderText shows a holder.
func HolderText(h job.Holder) string {
	if h == (job.Holder{}) {
		return ""
	}
	return strconv.FormatUint(uint64(h.Node), 36) + "-" + strconv.FormatUint(h.Num, 36)
}

// Held names a job in a worker's hands.
type Held struct {
	Namespace string
	Queue     string
	ID        job.ID
	Holder    string
}

// Settled is where a job stands that its worker has let go of, or holds on to.
type Settled struct {
	ID    job.ID     `json:"id"`
	State string     `json:"state"` // gone if it is not kept
	RunAt *time.Time `json:"run_at,omitempty"`
	Until *time.Time `json:"until,omitempty"` // the end of its lease
}

// Failed is what a worker tells about a failure.
type Failed struct {
	Type      string   `json:"type,omitempty"`
	Message   string   `json:"message,omitempty"`
	Backtrace []string `json:"backtrace,omitempty"`
}
