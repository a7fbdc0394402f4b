package machine

import (
	"math"
	"time"

	"millrace/internal/job"
	"millrace/internal/record"
)

const (
	recordFailures = record.PartFailures
	recordResult   = record.PartResult
)

// addDuration adds to a length of time without overflow. Zero stands for no length at all, and stays
// zero.
func addDuration(length, more time.Duration) time.Duration {
	switch {
	case length == 0:
		return 0
	case length > math.MaxInt64-more:
		return math.MaxInt64
	default:
		return length + more
	}
}

// exhaust ends a job that has used up its tries, and then every job that waits for it (section 6).
func (m *Machine) exhaust(e *entry, result []byte) {
	m.endAndFailDependants(e, func() { m.exhaustOne(e, result) })
}

// exhaustOne ends one exhausted job as its policy says. endDependant calls it directly for jobs
// that fail with a blocker, whose own dependants it has to queue up itself. The death is noted
// first: a hook tells people of the job as it was, with its body and its failures, which are gone
// or in another queue afterwards.
func (m *Machine) exhaustOne(e *entry, result []byte) {
	m.noteDeath(e, job.Exhausted)
	m.countFailedInBatch(e)
	m.noteTickEnd(e, job.Died)
	if e.Flags.Has(job.FlagEphemeral) {
		m.keepOutcome(e, job.Died)
		m.finishRun(e, job.Failed, result)
		return
	}
	switch e.Policy.Exhaust {
	case job.ExhaustDrop:
		m.keepOutcome(e, job.Died)
		m.remove(e)
	case job.ExhaustDead:
		m.moveToDead(e)
	case job.ExhaustKeep:
		m.leave(e)
		m.finish(e, job.Failed, result)
	case job.ExhaustMove:
		if e.Policy.DeadQueue == "" {
			m.keepOutcome(e, job.Died)
			m.remove(e)
			return
		}
		m.moveDead(e)
	}
}

// moveToDead puts the job into the dead list of its queue and trims the list. Kill comes here without
// exhaustOne, so that the batch and the schedule are told here as well; each counts a job once. A
// dead job has no expiry any more: DeadFor alone ends it (timerOf).
func (m *Machine) moveToDead(e *entry) {
	m.countFailedInBatch(e)
	m.noteTickEnd(e, job.Died)
	m.leave(e)
	e.Policy.ExpireAt = 0
	m.enter(e, job.Dead)
	m.save(e)
	m.dropResident(e)
	if limit := uint64(e.Policy.DeadMax); limit > 0 {
		m.trimDead(e.q, limit)
	}
}

// trimDead drops the first dead jobs of a queue that has more than its limit. It drops at most
// StepWork of them. A list that is far too long shrinks with each later death.
func (m *Machine) trimDead(q *queue, limit uint64) {
	for n := m.opt.StepWork; n > 0 && q.Counts[job.Dead] > limit; {
		most := int(min(uint64(n), q.Counts[job.Dead]-limit)) //nolint:gosec // bounded
		for _, id := range m.stateIDs(q, job.Dead, most) {
			// The end of one may have killed others, and so dropped this one.
			if e := m.loadJob(q, id); e != nil && e.State == job.Dead && q.Counts[job.Dead] > limit {
				m.discardDead(e)
				n--
			}
		}
	}
}

// discardDead drops a dead job for good, tombstone included. Nobody asked for it, so nothing is
// counted as deleted.
func (m *Machine) discardDead(e *entry) {
	m.remove(e)
	m.releaseDependants(e)
}

// moveDead puts an exhausted job into its dead queue as a fresh one of the same id. DeadQueue is
// cleared: a job that dies there as well would otherwise be moved for ever. The dead queue may be
// the job's own, and then only its place changes.
func (m *Machine) moveDead(e *entry) {
	name := e.Policy.DeadQueue
	m.leave(e)
	if e.Flags.Has(job.FlagFailures) {
		m.delPart(e, recordFailures)
		e.Flags &^= job.FlagFailures
		e.Failures = nil
	}
	e.Policy.DeadQueue = ""
	e.Attempts, e.Fails, e.RunAt = 0, 0, 0
	m.count(e.q, job.CountMoved)
	if name != e.q.name {
		m.transfer(e, name)
	}
	m.makeReady(e, job.PlaceTail)
}

// expire ends a job whose time has run out. An unfinished one fails its dependants; a finished one
// has none left and is only forgotten. Expiries are counted by the state that they end, before the
// job leaves it.
func (m *Machine) expire(e *entry) {
	e.q.Expired[e.State]++
	m.markDirty(e.q)
	if e.State.Finished() {
		m.remove(e)
		return
	}
	m.count(e.q, job.CountExpired)
	m.endAndFailDependants(e, func() { m.remove(e) })
}

// kill puts an unfinished job among the dead, whoever has it leased.
func (m *Machine) kill(c *job.Kill, res *job.Result) {
	e, err := m.lookupIn(&c.Ref, c.In, killable)
	// lookupIn says BadState for every state that is not killable. A finished job has an answer of
	// its own, unless the caller named the states it means.
	if err != nil && e != nil && c.In.Allow(e.State) && e.State.Finished() {
		err = job.ErrFinished
	}
	if err != nil {
		res.Err = err
		return
	}
	if c.For > 0 {
		e.Policy.DeadFor = c.For
	}
	m.noteDeath(e, job.Killed)
	if e.Flags.Has(job.FlagEphemeral) {
		// Nobody would ever look at a dead run.
		m.endAndFailDependants(e, func() { m.remove(e) })
		return
	}
	m.endAndFailDependants(e, func() { m.moveToDead(e) })
	m.answerIfWanted(c.Want, e, res)
}

// respawnable are the states of a job that can be respawned by name.
var respawnable = job.StatesOf(job.Failed, job.Dead)

// respawn makes dead jobs ready again, one by name or the first of the dead list. A tombstone uses
// up one of the number asked for, is counted, and goes (section 5).
func (m *Machine) respawn(c *job.Respawn, res *job.Result) {
	if c.One {
		e, err := m.lookupIn(&c.Ref, c.In, respawnable)
		if err != nil {
			res.Err = err
			return
		}
		m.respawnOne(e, c)
		res.Count = 1
		m.answerIfWanted(c.Want, e, res)
		return
	}
	q := m.findQueue(c.Namespace, c.Queue)
	if q == nil || c.Limit <= 0 {
		return
	}
	for _, e := range m.firstFew(q, job.Dead, m.limitToStep(q.Counts[job.Dead], c.Limit, res)) {
		res.Count++
		if e.Flags.Has(job.FlagTombstone) {
			m.remove(e)
			continue
		}
		m.respawnOne(e, c)
		m.serveWakes()
	}
}

// respawnOne makes a dead or failed job ready as if it were new. The failures that it remembers and
// its other counts stay.
func (m *Machine) respawnOne(e *entry, c *job.Respawn) {
	m.leave(e)
	if e.Flags.Has(job.FlagResult) {
		m.dropResult(e)
	}
	e.Attempts, e.Fails = 0, 0
	if !c.OwnAttempts {
		e.Policy.MaxAttempts = c.Attempts
	}
	if !c.OwnExpiry {
		e.Policy.ExpireAt = 0
		if c.TTL > 0 {
			e.Policy.ExpireAt = m.now.Add(c.TTL)
		}
	}
	m.makeReady(e, job.PlaceTail)
}

// limitToStep returns how many jobs this step deals with: of those there are at most n (no limit if
// n is zero), and never more than StepWork. Result.Left tells the engine what that leaves over; it
// repeats the command (job.Rest) between the commands of others until nothing is left (section 13).
func (m *Machine) limitToStep(jobs uint64, n int, res *job.Result) int {
	all := int(min(jobs, math.MaxInt32))
	if n <= 0 || n > all {
		n = all
	}
	now := min(n, m.opt.StepWork)
	res.Left = n - now
	return now
}

// firstFew returns the first n jobs of a state's list. The list of ready jobs with a group is not
// one of them; see stateIDs.
func (m *Machine) firstFew(q *queue, s job.State, n int) []*entry {
	list := record.List(s)
	ids := m.idsOf(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), n)
	es := make([]*entry, 0, len(ids))
	for _, id := range ids {
		es = append(es, m.mustLoad(q, id))
	}
	return es
}
