package machine

import (
	"bytes"

	"millrace/internal/job"
)

// checkPast says why a job cannot begin as its push says; nil if it can.
func checkPast(c *job.Push) *job.Error {
	p, s := c.Past, &c.Spec
	switch {
	case p == nil:
	case !begins.Allow(p.State):
		return &job.Error{Kind: job.Invalid, Text: "no job can begin in this state"}
	case s.Lock != "" || s.Batch != 0 || len(s.BlockedBy) > 0:
		return &job.Error{Kind: job.Invalid, Text: "a job with a past has no lock, no batch and waits for no other"}
	case len(p.Result) > 0 && !p.State.Finished():
		return &job.Error{Kind: job.Invalid, Text: "only a finished job has a result"}
	case p.BuriedLast && p.State != job.Buried:
		return &job.Error{Kind: job.Invalid, Text: "only a buried job is behind others that are buried"}
	case p.OldPlace && p.State != job.Scheduled:
		return &job.Error{Kind: job.Invalid, Text: "only a scheduled job has an old place to go to"}
	case p.Rank > job.PastRankMax || p.Rank < -job.PastRankMax:
		return &job.Error{Kind: job.Invalid, Text: "the rank is out of range"}
	}
	return nil
}

// begins are the states that a job with a past can begin in. A lease has a holder and a
// blocked job blockers, which are no part of a past.
var begins = job.StatesOf(job.Scheduled, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead)

// goOn writes a new job that has a past and lets it enter the state that it was in.
func (m *Machine) goOn(e *entry, p *job.Past) {
	e.Created = m.bygone(p.Created)
	e.Order.Rank, e.Order.At = p.Rank, p.At
	e.Attempts, e.Fails, e.Buries = p.Attempts, p.Fails, p.Buries
	e.Lapses, e.Releases, e.Kicks, e.Delay = p.Lapses, p.Releases, p.Kicks, p.Delay
	m.storeBody(e)
	if len(p.Failures) > 0 {
		for i := range p.Failures {
			e.Failures = keepFailure(e.Failures, p.Failures[i])
		}
		m.putFailures(e)
	}
	if len(p.Result) > 0 {
		e.Result = bytes.Clone(p.Result)
		m.putResult(e)
	}
	m.link(e)
	waits := p.State == job.Scheduled || p.State == job.Retrying
	switch {
	case waits && e.RunAt <= m.now && !p.OldPlace:
		m.makeReady(e, e.Policy.Due)
	case waits && e.RunAt <= m.now:
		m.makeReady(e, job.PlaceOld)
	case p.State == job.Ready:
		m.makeReadySince(e, job.PlaceOld, m.bygone(p.Since))
	default:
		if p.BuriedLast {
			e.Flags |= job.FlagBuriedLast
		}
		m.enter(e, p.State)
		e.Since = m.bygone(p.Since)
		if p.State == job.Dead {
			e.Policy.ExpireAt = 0
		}
		if p.OldPlace {
			e.Flags |= job.FlagOldPlace
		}
		m.save(e)
	}
	m.stillborn(e)
}

// bygone returns a time of the past; now if there is none.
func (m *Machine) bygone(t job.Time) job.Time {
	if t <= 0 || t > m.now {
		return m.now
	}
	return t
}
