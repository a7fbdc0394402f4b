package admin

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// Filter says which jobs are meant. Everything that is set must fit.
type Filter struct {
	Namespace string   `json:"namespace,omitempty"`
	Queue     string   `json:"queue,omitempty"`
	States    []string `json:"states,omitempty"` // any of these; none is all
	Type      string   `json:"type,omitempty"`
	// Ref is an id, in our own form or in that of a protocol, or a key. Of several jobs of a namespace
	// with one key it is the oldest.
	Ref string `json:"ref,omitempty"`
	// A part of the type or message of a failure, in upper or lower case, or how it failed.
	Error string `json:"error,omitempty"`
	Body  string `json:"body,omitempty"` // a part of the body, exactly
	Batch uint64 `json:"batch,omitempty"`
	// Holder is who has the job, as a lease and a worker show it. Only running jobs fit.
	Holder string `json:"holder,omitempty"`
	// After and Before bound a time of the job: when it was pushed ("created", the default), when it entered
	// its state ("since"), or when it is due ("run_at"). After is included, Before is not.
	After  *time.Time `json:"after,omitempty"`
	Before *time.Time `json:"before,omitempty"`
	Time   string     `json:"time,omitempty"`
}

// The times that a filter can bound.
const (
	timeCreated = "created"
	timeSince   = "since"
	timeRunAt   = "run_at"
)

// textMax bounds the texts of a filter.
const textMax = 1 << 10

// filterNames are the names of the parameters that make a filter in a URL.
var filterNames = []string{
	"namespace", "queue", "state", "type", "ref", "error", "body", "batch", "holder", "after", "before", "time",
}

// FilterOf reads a filter from the query of a URL. Other parameters are left alone.
func FilterOf(query url.Values) (Filter, error) {
	f := Filter{
		Namespace: query.Get("namespace"), Queue: query.Get("queue"), Type: query.Get("type"), Ref: query.Get("ref"),
		Error: query.Get("error"), Body: query.Get("body"), Holder: query.Get("holder"), Time: query.Get("time"),
	}
	for _, list := range query["state"] {
		for name := range strings.SplitSeq(list, ",") {
			if name != "" {
				f.States = append(f.States, name)
			}
		}
	}
	if text := query.Get("batch"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return f, api.Invalid("batch: %q is no number", text)
		}
		f.Batch = n
	}
	var err error
	if f.After, err = timeOf(query, "after"); err != nil {
		return f, err
	}
	if f.Before, err = timeOf(query, "before"); err != nil {
		return f, err
	}
	return f, nil
}

func timeOf(query url.Values, name string) (*time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, api.Invalid("%s: %q is no time: write it like 2006-01-02T15:04:05Z", name, text)
	}
	t = t.UTC()
	return &t, nil
}

// Query is the inverse of FilterOf.
func (f *Filter) Query() url.Values {
	q := url.Values{}
	set := func(name, text string) {
		if text != "" {
			q.Set(name, text)
		}
	}
	set("namespace", f.Namespace)
	set("queue", f.Queue)
	set("state", strings.Join(f.States, ","))
	set("type", f.Type)
	set("ref", f.Ref)
	set("error", f.Error)
	set("body", f.Body)
	set("holder", f.Holder)
	set("time", f.Time)
	if f.Batch != 0 {
		set("batch", strconv.FormatUint(f.Batch, 10))
	}
	if f.After != nil {
		set("after", f.After.Format(time.RFC3339Nano))
	}
	if f.Before != nil {
		set("before", f.Before.Format(time.RFC3339Nano))
	}
	return q
}

// matcher is a filter that has been checked.
type matcher struct {
	Filter
	states        job.States
	after, before job.Time // zero: no bound
	errorText     []byte   // in lower case
	bodyText      []byte
}

// matcher checks the filter.
func (f Filter) matcher() (*matcher, error) {
	m := &matcher{Filter: f}
	for _, part := range []struct{ name, text string }{
		{"namespace", f.Namespace}, {"queue", f.Queue}, {"type", f.Type}, {"ref", f.Ref}, {"error", f.Error}, {"body", f.Body}, {"holder", f.Holder},
	} {
		if len(part.text) > textMax {
			return nil, api.Invalid("%s is longer than %d bytes", part.name, textMax)
		}
	}
	for _, name := range f.States {
		s, ok := job.ParseState(name)
		if !ok {
			return nil, api.Invalid("state: %q is none of %s", name, stateNames())
		}
		m.states |= job.StatesOf(s)
	}
	if f.Holder != "" {
		if !m.states.Allow(job.Leased) {
			return nil, api.Invalid("holder: only running jobs have one")
		}
		m.states = job.StatesOf(job.Leased)
	}
	switch f.Time {
	case "", timeCreated, timeSince, timeRunAt:
	default:
		return nil, api.Invalid("time: %q is none of created, since and run_at", f.Time)
	}
	if f.After != nil {
		m.after = job.TimeOf(*f.After)
	}
	if f.Before != nil {
		m.before = job.TimeOf(*f.Before)
	}
	m.errorText = bytes.ToLower([]byte(f.Error))
	m.bodyText = []byte(f.Body)
	return m, nil
}

// stateNames lists the states, for messages.
func stateNames() string {
	names := make([]string, 0, job.StateCount)
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		names = append(names, s.Name())
	}
	return strings.Join(names, ", ")
}

// whole reports whether a job must be read whole to be judged.
func (m *matcher) whole() bool {
	return m.Type != "" || m.Error != "" || m.Body != "" || m.Holder != ""
}

// narrow reports whether few of the jobs in a list may fit, by what stands there.
func (m *matcher) narrow() bool { return m.Batch != 0 || m.after != 0 || m.before != 0 }

// inQueue reports whether jobs of a queue can fit.
func (m *matcher) inQueue(q *job.QueueInfo) bool {
	return (m.Namespace == "" || m.Namespace == q.Namespace) && (m.Queue == "" || m.Queue == q.Name)
}

// outside judges a job by what stands in its list.
func (m *matcher) outside(j *job.Job) bool {
	if j.Flags.Has(job.FlagTombstone) || (m.Batch != 0 && api.BatchOf(j) != m.Batch) || !m.states.Allow(j.State) {
		return false
	}
	if m.after == 0 && m.before == 0 {
		return true
	}
	at := j.Created
	switch m.Time {
	case timeSince:
		at = j.Since
	case timeRunAt:
		at = j.RunAt
	}
	return at != 0 && at >= m.after && (m.before == 0 || at < m.before)
}

// inside judges a job that has been read whole.
func (m *matcher) inside(j *job.Job) bool {
	if m.Type != "" && j.Type != m.Type || m.Holder != "" && api.HolderText(j.Lease.Holder) != m.Holder {
		return false
	}
	if len(m.bodyText) > 0 && !bytes.Contains(j.Body, m.bodyText) {
		return false
	}
	return len(m.errorText) == 0 || slices.ContainsFunc(j.Failures, func(f job.Failure) bool {
		return containsFold(f.Type, m.errorText) || containsFold(f.Message, m.errorText) || api.FailureOf(&f).Kind == m.Error
	})
}

func containsFold(text string, lower []byte) bool {
	return bytes.Contains(bytes.ToLower([]byte(text)), lower)
}

// String shows the filter in the log.
func (f *Filter) String() string {
	if text := f.Query().Encode(); text != "" {
		return text
	}
	return "everything"
}
