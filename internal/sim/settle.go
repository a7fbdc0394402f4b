package sim

import (
	"cmp"
	"slices"

	"millrace/internal/job"
)

func (m *Model) ack(c *job.Ack) settled {
	j, err := m.settle(c.Ref, c.By, c.Need, false, 0)
	if err != nil {
		return settled{err: err}
	}
	m.ackJob(j, c)
	return settled{job: j}
}

func (m *Model) ackJob(j *entry, c *job.Ack) {
	m.count(j, job.CountAcked)
	if j.LockUntil == job.LockUntilAck {
		m.unlock(j)
	}
	m.succeeded(j)
	m.outcome(j, job.Succeeded)
	switch {
	case j.Policy.Keep || c.Keep || j.Flags.Has(job.FlagEphemeral):
		if c.Keep && c.NewBody && !j.Flags.Has(job.FlagEphemeral) {
			j.Body, j.BodyKind = c.Body, c.BodyKind
		}
		m.finish(j, job.Done, c.Result)
	default:
		m.vacate(j)
	}
	m.strike(j.ID)
}

func (m *Model) applyFail(c *job.Fail) {
	j, err := m.settle(c.Ref, c.By, c.Need, false, 0)
	if err == nil {
		m.fail(j, c.Failure, c.Result)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyRelease(c *job.Release) {
	j, err := m.settle(c.Ref, c.By, c.Need, false, 0)
	if err == nil && j.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err == nil {
		m.count(j, job.CountReleased)
		j.Releases++
		j.Delay = c.Delay
		if c.SetPriority {
			j.Policy.Priority = c.Priority
		}
		if c.TTL > 0 {
			j.Policy.ExpireAt = m.now.Add(c.TTL + c.Delay)
		} else if c.StretchTTL && j.expires() {
			j.Policy.ExpireAt = j.Policy.ExpireAt.Add(c.Delay)
		}
		if c.Delay > 0 {
			j.RunAt = m.now.Add(c.Delay)
			m.toScheduled(j)
			j.toOld = true
		} else {
			m.toReady(j, c.Place)
		}
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (j *entry) expires() bool { return j.Policy.ExpireAt != 0 && j.Policy.ExpireAt != job.Never }

func (m *Model) applyReturn(c *job.Return) {
	for _, ref := range c.Refs {
		j, err := m.settle(ref, c.By, job.NeedHeld, true, 0)
		if err != nil {
			continue
		}
		m.count(j, job.CountReturned)
		j.Attempts--
		m.toReady(j, job.PlaceOld)
	}
	m.answer(job.Result{})
}

func (m *Model) applyBury(c *job.Bury) {
	j, err := m.settle(c.Ref, c.By, c.Need, true, c.In)
	switch {
	case err != nil:
	case j.State.Finished() || j.State == job.Dead:
		err = job.ErrBadState
	case j.State == job.Buried:
	default:
		m.count(j, job.CountBuried)
		j.Buries++
		if c.SetPriority {
			j.Policy.Priority = c.Priority
		}
		left := j.State == job.Leased
		m.enter(j, job.Buried)
		j.last = c.Last
		m.unleased(j, left)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyKick(c *job.Kick) {
	if !c.One {
		jobs := m.kickable(queueName{c.Namespace, c.Queue}, c.From)
		n := min(max(c.Count, 0), len(jobs), m.StepWork)
		for _, j := range jobs[:n] {
			m.kick(j)
		}
		m.answerCount(n)
		return
	}
	means := func(j *entry) bool {
		waits := j.State == job.Scheduled || j.State == job.Retrying
		return j.State == job.Buried && c.From != job.KickWaiting || waits && c.From != job.KickBuried
	}
	j := m.find(c.Ref, false, means)
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case !means(j):
		m.refuse(job.ErrBadState)
	default:
		m.kick(j)
		r := job.Result{Count: 1}
		if c.Want {
			r.Jobs = []job.Job{j.Job}
		}
		m.answer(r)
	}
}

// kickable returns the jobs of a queue that a kick means, in its order.
func (m *Model) kickable(name queueName, from job.KickFrom) []*entry {
	buried := m.list(name, job.Buried)
	if from == job.KickBuried || from == job.KickEither && len(buried) > 0 {
		return buried
	}
	waiting := append(m.list(name, job.Scheduled), m.list(name, job.Retrying)...)
	slices.SortFunc(waiting, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return waiting
}

func (m *Model) kick(j *entry) {
	m.count(j, job.CountKicked)
	j.Kicks++
	m.toReady(j, job.PlaceOld)
}

func (m *Model) delete(c *job.Delete) settled {
	j, err := m.settle(c.Ref, c.By, c.Need, true, c.In)
	if err != nil {
		return settled{err: err}
	}
	if c.AckHeld && j.State == job.Leased && j.Lease.Holder == c.By {
		m.ackJob(j, &job.Ack{})
	} else {
		m.deleteJob(j)
	}
	return settled{job: j}
}

func (m *Model) deleteJob(j *entry) {
	m.countDeleted(j)
	m.vacate(j)
	m.strike(j.ID)
}

// countDeleted counts a job that is deleted, and that it was still to be done, if it was.
func (m *Model) countDeleted(j *entry) {
	m.count(j, job.CountDeleted)
	switch j.State {
	case job.Done, job.Failed, job.Dead:
	case job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried:
		m.count(j, job.CountCancelled)
	}
}

// vacate removes a job; a dead one may leave its slot.
func (m *Model) vacate(j *entry) {
	if j.State == job.Dead && j.Policy.DeadSlots {
		j.Flags |= job.FlagTombstone
		m.unwait(j.ID)
	} else {
		m.drop(j)
	}
}

func (m *Model) applyTouch(c *job.Touch) {
	j, err := m.settle(c.Ref, c.By, c.Need, false, 0)
	if err == nil && j.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err == nil {
		m.count(j, job.CountTouched)
		l := &j.Lease
		until := l.Until
		switch {
		case c.Until != 0:
			until = c.Until
		case c.Restart && l.Length > 0:
			until = m.now.Add(l.Length)
		case c.Restart:
			until = 0
		case c.Add != 0:
			if l.Until != 0 {
				until = l.Until.Add(c.Add)
			}
			if l.Length > 0 { // none stays none
				l.Length += c.Add
			}
			if j.Policy.Lease > 0 {
				j.Policy.Lease += c.Add
			}
			if j.expires() {
				j.Policy.ExpireAt = j.Policy.ExpireAt.Add(c.Add)
			}
		}
		later := l.Until != 0 && (until == 0 || until > l.Until)
		if !c.NoEarlier || later {
			l.Until = until
		}
	}
	m.answerJob(settled{j, err}, c.Want)
}
