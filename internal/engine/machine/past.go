package machine

import (
	"bytes"
	"math/bits"

	"millrace/internal/job"
)

// checkPast says why a job cannot begin as its push says; nil if it can. A past comes from outside,
// by an import or a migration, so that nothing may be believed that would break an invariant.
func checkPast(c *job.Push) *job.Error {
	p, s := c.Past, &c.Spec
	switch {
	case p == nil:
	case !pastStates.Allow(p.State):
		return &job.Error{Kind: job.Invalid, Text: "no job can begin in this state"}
	case len(s.BlockedBy) > 0 != (p.State == job.Blocked):
		return &job.Error{Kind: job.Invalid, Text: "a job waits for others if it is blocked, and only then"}
	case p.Role&^callbacks != 0 || bits.OnesCount32(uint32(p.Role)) > 1 || p.Role != 0 && (s.Batch == 0 || p.Tried):
		return &job.Error{Kind: job.Invalid, Text: "a job is one callback of a batch, or is pushed by a schedule"}
	case p.State == job.Done && s.Batch != 0 && p.Role == 0:
		return &job.Error{Kind: job.Invalid, Text: "a job that has succeeded is in no batch"}
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

// pastStates are the states that a job with a past can begin in. A lease has a holder, which is no part of a past.
var pastStates = job.StatesOf(
	job.Scheduled, job.Blocked, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead)

// importJob stores a new job that has a past, in the state that the past names (section 2). Earlier
// is as for create. It is the counterpart of storeNewJob: nothing is counted except for the push, and
// dying in the past trims no dead list.
func (m *Machine) importJob(e *entry, s *job.Spec, p *job.Past, earlier []*entry) {
	e.Created = m.clampPast(p.Created)
	e.Order.Rank, e.Order.At = p.Rank, p.At
	e.Attempts, e.Fails, e.Buries = p.Attempts, p.Fails, p.Buries
	e.Lapses, e.Releases, e.Kicks, e.Delay = p.Lapses, p.Releases, p.Kicks, p.Delay
	// Before the first record, which says that the job names a lock and a batch.
	m.reenlist(e, s, p)
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
	if p.State == job.Blocked {
		m.importBlocked(e, m.clampPast(p.Since), m.blockers(s, earlier))
		m.expireIfPast(e)
		return
	}
	m.link(e)
	waits := p.State == job.Scheduled || p.State == job.Retrying
	switch {
	// Its time has come on the way: it is ready at once, at the place its timer would have given
	// it.
	case waits && e.RunAt <= m.now && !p.OldPlace:
		m.makeReady(e, e.Policy.Due)
	case waits && e.RunAt <= m.now:
		m.makeReady(e, job.PlaceOld)
	case p.State == job.Ready:
		m.makeReadySince(e, job.PlaceOld, m.clampPast(p.Since))
	default:
		if p.BuriedLast {
			e.Flags |= job.FlagBuriedLast
		}
		m.enter(e, p.State)
		// enter has set Since to now. DeadFor counts from when the job died, wherever that was.
		e.Since = m.clampPast(p.Since)
		if p.State == job.Dead {
			e.Policy.ExpireAt = 0
		}
		if p.OldPlace {
			e.Flags |= job.FlagOldPlace
		}
		m.save(e)
	}
	m.expireIfPast(e)
}

// importBlocked has a job wait again for those of its blockers that are left. Without any it enters
// its queue as if the last one had just succeeded, as endDependant would do it.
func (m *Machine) importBlocked(e *entry, since job.Time, blockers []*entry) {
	switch {
	case len(blockers) > 0:
		m.enter(e, job.Blocked)
		e.Since = since
		m.block(e, blockers)
		m.link(e)
		m.save(e)
	case e.RunAt > m.now:
		m.enter(e, job.Scheduled)
		m.link(e)
		m.save(e)
	default:
		m.link(e)
		m.makeReady(e, job.PlaceTail)
	}
}

// reenlist gives a job with a past the lock that it had, if that is not over, and its place in a
// batch or among the jobs of a schedule. A callback is not counted in its batch (callbacks).
func (m *Machine) reenlist(e *entry, s *job.Spec, p *job.Past) {
	if s.Lock != "" && p.LockedUntil > m.now {
		m.lockUntil(e, s, p.LockedUntil)
	}
	switch {
	case s.Batch == 0:
	// The batch of such a job is the number of its schedule.
	case p.Role == job.FlagTick:
		m.rejoinTicker(e, s.Batch, p)
	case p.Role != 0:
		if m.batchIn(e.Namespace, s.Batch) != nil {
			e.Batch = s.Batch
			e.Flags |= p.Role
		}
	default:
		m.join(e, s.Batch)
		if p.Tried || p.Fails > 0 || p.State == job.Dead || p.State == job.Failed {
			m.countFailedInBatch(e)
		}
	}
}

// rejoinTicker makes a job with a past one of a schedule: the job of the first run that began when
// the job was created and has none yet. If it is that of the last tick and still alive, Overlap
// waits for it.
func (m *Machine) rejoinTicker(e *entry, id job.BatchID, p *job.Past) {
	s := m.readTicker(id)
	if s == nil || s.Namespace != e.Namespace {
		return
	}
	e.Batch = id
	e.Flags |= job.FlagTick
	for i := range s.Runs {
		r := &s.Runs[i]
		if r.Job != 0 || r.At != p.Created || r.Kind != job.RunPushed && r.Kind != job.RunByHand {
			continue
		}
		r.Job = e.ID
		if r.Outcome == job.Alive && s.LastAt == r.At && !p.State.Finished() && p.State != job.Dead {
			s.Running = e.ID
		}
		m.putTicker(s)
		return
	}
}

// clampPast returns a time that another server has told, or now if that is missing or has not come:
// a clock that was ahead must not make anything wait.
func (m *Machine) clampPast(t job.Time) job.Time {
	if t <= 0 || t > m.now {
		return m.now
	}
	return t
}
