package operator

import (
	"bytes"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/job"
)

// The times that a filter can bound.
const (
	timeCreated = "created"
	timeSince   = "since"
	timeRunAt   = "run_at"
)

// textMax bounds the texts of a filter.
const textMax = 1 << 10

// matcher is a filter that has been checked.
type matcher struct {
	api.Filter
	states        job.States
	after, before job.Time // zero: no bound
	errorText     []byte   // in lower case
	bodyText      []byte
}

// newMatcher checks the filter.
func newMatcher(f api.Filter) (*matcher, error) {
	m := &matcher{Filter: f}
	for _, part := range []struct{ name, text string }{
		{"namespace", f.Namespace},
		{"queue", f.Queue},
		{"type", f.Type},
		{"ref", f.Ref},
		{"error", f.Error},
		{"body", f.Body},
		{"holder", f.Holder},
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
func stateNames() string { return strings.Join(api.StateNames(), ", ") }

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
		return containsFold(f.Type, m.errorText) || containsFold(f.Message, m.errorText) ||
			api.FailureOf(&f).Kind == m.Error
	})
}

func containsFold(text string, lower []byte) bool {
	return bytes.Contains(bytes.ToLower([]byte(text)), lower)
}
