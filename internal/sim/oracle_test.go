package sim

import (
	"millrace/internal/job"
)

// hints is the oracle: it looks at what the core answered and at its records.
type hints struct {
	got      []answer
	stored   func() stored
	sweeping bool
	behind   bool
	counting map[queueName]bool
	later    bool // nothing else has been done since the command
	busy     bool // steps are so small that they leave callers over
}

func (h hints) TimedOut(token uint64) bool {
	for _, a := range h.got {
		if a.Token == token && a.Result.Err != nil &&
			(a.Result.Err.Kind == job.Timeout || a.Result.Err.Kind == job.Lapsing) {
			return h.busy
		}
	}
	return false
}

func (h hints) Behind() bool { return h.behind }

func (h hints) Counting(ns, name string) bool { return h.counting[queueName{ns, name}] }

func (h hints) Ended(j *job.Job) bool {
	if !h.later {
		return false
	}
	_, there := h.stored().job(queueName{j.Namespace, j.Queue}, j.ID)
	return !there
}

func (h hints) Given() []uint64 {
	var tokens []uint64
	for _, a := range h.got {
		tokens = append(tokens, a.Token)
	}
	return tokens
}

func (h hints) Sweeping() bool { return h.sweeping }

func (h hints) Picked(token uint64, n int) (job.ID, bool) {
	for _, a := range h.got {
		if a.Token == token && a.Result.Err == nil && n < len(a.Result.Jobs) {
			return a.Result.Jobs[n].ID, true
		}
	}
	return 0, false
}

func (h hints) Pushed(token uint64) (job.ID, bool) {
	for _, a := range h.got {
		if a.Token == token && !endedWaiting(a.Result.Err) {
			return a.Result.ID, true
		}
	}
	return 0, false
}

// endedWaiting reports whether a push has ended without being let in.
func endedWaiting(err *job.Error) bool {
	return err != nil && (err.Kind == job.Timeout || err.Kind == job.Canceled)
}

// Callback looks for the job among what is stored, and among what was handed out and
// went at once.
func (h hints) Callback(id job.ID, of job.BatchID, flag job.Flags) bool {
	is := func(j *job.Job) bool { return j.ID == id && j.Batch == of && j.Flags.Has(flag) }
	s := h.stored()
	for name := range s.ids {
		if j, ok := s.job(name, id); ok {
			return is(&j)
		}
	}
	for _, a := range h.got {
		for i := range a.Result.Jobs {
			if is(&a.Result.Jobs[i]) {
				return true
			}
		}
	}
	return false
}

func (h hints) RunAt(id job.ID) (job.Time, bool) {
	if at, ok := h.stored().runAt(id); ok {
		return at, true
	}
	for _, a := range h.got { // it went at once, but was seen
		for i := range a.Result.Jobs {
			if j := &a.Result.Jobs[i]; j.ID == id {
				return j.RunAt, true
			}
		}
	}
	return 0, false
}
