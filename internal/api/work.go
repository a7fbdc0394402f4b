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

// FetchRequest says which jobs a worker wants.
type FetchRequest struct {
	Queues []string `json:"queues" api:"minItems=1 maxItems=1000"`               // the first that has a job is taken from
	Max    int      `json:"max,omitempty" api:"minimum=1 maximum=100 default=1"` // jobs at most
	Wait   float64  `json:"wait_seconds,omitempty" api:"maximum=300"`            // how long to wait if there is none
	// How long the worker holds a job unless it extends that. Left out it is the job's own, or a minute.
	Lease  float64 `json:"lease_seconds,omitempty" api:"minimum=1 maximum=86400"`
	Holder string  `json:"holder,omitempty"` // what an earlier fetch of the same worker has answered
	Worker string  `json:"worker,omitempty"` // what people see of who holds the jobs
}

// Work are the jobs that a fetch has leased.
type Work struct {
	// Who holds the jobs: to be named again to settle them, and with the next fetch.
	Holder string    `json:"holder"`
	Jobs   []WorkJob `json:"jobs" api:"maxItems=100"`
}

// WorkJob is a job in a worker's hands, with the whole of its body.
type WorkJob struct {
	JobRow
	Body   *Content        `json:"body,omitempty"`                     // the whole of it
	Custom json.RawMessage `json:"custom,omitempty" api:"type=object"` // what was pushed along with it through this API
	Trace  string          `json:"traceparent,omitempty"`              // W3C trace context of who pushed it
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
	ID job.ID `json:"id"`
	// Gone if it is not kept.
	State string     `json:"state" api:"enum=gone|scheduled|blocked|ready|running|retrying|buried|done|failed|dead"`
	RunAt *time.Time `json:"run_at,omitempty"`
	Until *time.Time `json:"until,omitempty"` // the end of its lease
}

// Failed is what a worker tells about a failure.
type Failed struct {
	Type      string   `json:"type,omitempty"`
	Message   string   `json:"message,omitempty"`
	Backtrace []string `json:"backtrace,omitempty" api:"maxItems=1000"`
}

// HeldBy is how a request names a job in a worker's hands, whose id is in its path.
type HeldBy struct {
	Queue  string `json:"queue"`  // of the job
	Holder string `json:"holder"` // what the fetch has answered
}

// AckRequest ends a job with success.
type AckRequest struct {
	HeldBy
	// JSON. Of the three forms of a result at most one is named. It is kept if the job is.
	Result       json.RawMessage `json:"result,omitempty"`
	ResultText   *string         `json:"result_text,omitempty"`
	ResultBase64 []byte          `json:"result_base64,omitempty"`
}

// FailRequest ends an execution without success.
type FailRequest struct {
	HeldBy
	Failed
}

// ExtendRequest lets a lease go on.
type ExtendRequest struct {
	HeldBy
	Lease float64 `json:"lease_seconds" api:"optional minimum=1 maximum=86400 default=60"` // when it ends, from now on
}

// ReleaseRequest gives a job back.
type ReleaseRequest struct {
	HeldBy
	Delay float64 `json:"delay_seconds,omitempty"` // when it is ready again; 0 is at once
}
