package engine

import (
	"sync"
	"time"

	"millrace/internal/job"
	"millrace/internal/timing"
)

// Outcome is how a command ended, as far as it is counted.
type Outcome uint8

// The outcomes.
const (
	OutcomeOK      Outcome = iota
	OutcomeEmpty           // nothing came within the time given
	OutcomeRefused         // it did not fit what there is
	OutcomeError           // the server could not: it is stopping, has no space, or its storage has failed

	// OutcomeCount is the number of outcomes.
	OutcomeCount = int(OutcomeError) + 1
)

var outcomeNames = [OutcomeCount]string{"ok", "empty", "refused", "error"}

// String returns the outcome's name.
func (o Outcome) String() string { return outcomeNames[o] }

func outcomeOf(err *job.Error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	switch err.Kind {
	case job.Timeout, job.Canceled, job.Lapsing:
		return OutcomeEmpty
	case job.NoSpace, job.Draining, job.Internal:
		return OutcomeError
	case job.Invalid, job.NotFound, job.Duplicate, job.Exists, job.NotLeased, job.NotOwner, job.Finished, job.BadState,
		job.Full, job.Busy, job.Waiting, job.TooLarge, job.Locked, job.Overloaded, job.ManyQueues:
	}
	return OutcomeRefused
}

// CommandFigures are the commands of one verb that came through one door since the engine was opened.
type CommandFigures struct {
	Door     job.Door
	Verb     job.Verb
	Outcomes [OutcomeCount]uint64
	// Times are from when a command was applied until its answer could leave. Commands that waited for a job, a
	// result or room are not in it, nor all of those that an engine that is not DurabilityFsync answers at once.
	Times timing.Histogram
}

// CommitFigures are about the batches that were committed since the engine was opened.
type CommitFigures struct {
	Times    timing.Histogram // how long the store took
	Commands timing.Sizes     // how many commands were in them
}

// commandTable counts commands by door and verb.
type commandTable [DoorCount][job.VerbCount]*CommandFigures

// note counts the commands of a request, and how long they took unless that is negative.
func (t *commandTable) note(r *Request, took time.Duration) {
	door := min(r.Door, DoorCount-1)
	for i, cmd := range r.Commands {
		f := t.at(door, job.VerbOf(cmd))
		f.Outcomes[outcomeOf(r.Results[i].Err)]++
		if took >= 0 {
			f.Times.Observe(took)
		}
	}
}

func (t *commandTable) at(door job.Door, v job.Verb) *CommandFigures {
	f := t[door][v]
	if f == nil {
		f = &CommandFigures{Door: door, Verb: v}
		t[door][v] = f
	}
	return f
}

// addTo adds what was counted to another table.
func (t *commandTable) addTo(sum *commandTable) {
	for door := range t {
		for _, f := range t[door] {
			if f == nil {
				continue
			}
			s := sum.at(f.Door, f.Verb)
			s.Times.Add(&f.Times)
			for i, n := range f.Outcomes {
				s.Outcomes[i] += n
			}
		}
	}
}

// untimed tells that nobody has looked at the clock, or that the time would be that of something else.
const untimed = -1

// meter is everything that the engine counts for metrics and for the operator: what was asked of it by door and verb,
// what happened to jobs by queue and door, and its commits. Readers copy it piece by piece.
type meter struct {
	// The engine's lock guards these.
	atOnce commandTable // requests that were answered without a commit
	queues queueTable

	// mu guards what follows. It is taken once for each commit, perhaps with the engine's lock held, but never the
	// other way round.
	mu        sync.Mutex
	commits   CommitFigures
	committed commandTable // requests that a commit has answered
}

// noteCommit counts a batch and the requests that it answers.
func (m *meter) noteCommit(c *flight, now job.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits.Times.Observe(now.Sub(c.begun))
	m.commits.Commands.Observe(c.commands)
	for _, r := range c.replies.reqs {
		m.committed.note(r, r.took(now))
	}
}

// took returns how long a request took that is answered at a time. One may come after the commit that it needs.
func (r *Request) took(answered job.Time) time.Duration {
	if r.waited {
		return untimed
	}
	return max(answered.Sub(r.applied), 0)
}

// noteAtOnce counts a request that is answered without a commit. A lazy engine times those after which it has
// looked at the clock anyway.
func (e *Engine) noteAtOnce(r *Request) {
	took := time.Duration(untimed)
	if e.lastNow < r.applied && !e.lazy {
		e.lastNow = e.Now()
	}
	if e.lastNow >= r.applied {
		took = e.lastNow.Sub(r.applied)
	}
	e.meter.atOnce.note(r, took)
}

// Commands returns what was asked of the engine, by door and verb, as far as there was any.
func (e *Engine) Commands() []CommandFigures {
	var sum commandTable
	e.mu.Lock()
	e.meter.atOnce.addTo(&sum)
	e.mu.Unlock()
	e.meter.mu.Lock()
	e.meter.committed.addTo(&sum)
	e.meter.mu.Unlock()
	var list []CommandFigures
	for door := range sum {
		for _, f := range sum[door] {
			if f != nil {
				list = append(list, *f)
			}
		}
	}
	return list
}

// CommitFigures returns the figures of the batches that were committed.
func (e *Engine) CommitFigures() CommitFigures {
	e.meter.mu.Lock()
	defer e.meter.mu.Unlock()
	return e.meter.commits
}
