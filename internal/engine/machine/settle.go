package machine

import (
	"bytes"
	"cmp"
	"slices"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// ack applies an Ack: the worker has done the job (section 5).
func (m *Machine) ack(c *job.Ack, res *job.Result) {
	e, err := m.lookupSettle(&c.Ref, c.Need, c.By)
	if err != nil {
		res.Err = err
		return
	}
	m.succeed(e, c, res)
}

// succeed ends a job as an Ack does. Delete with AckHeld comes here as well. The order matters. The
// observer is told first, because it reads the lease, which leave drops. detachSucceeded comes
// before the job changes state or goes: keepOutcome tells by the state whether the job has ended
// before, and erase would count a job that is still in its batch as failed. Dependants come last,
// because section 6 has them released after the job itself is gone or done.
func (m *Machine) succeed(e *entry, c *job.Ack, res *job.Result) {
	m.count(e.q, job.CountAcked)
	m.noteSettled(e, false)
	if e.Flags.Has(job.FlagEphemeral) {
		if c.Want {
			m.answer(e, res)
		}
		// A run is gone whatever its policy says (section 7). The answer was taken before, because
		// finishRun erases the records that it is read from.
		m.detachSucceeded(e)
		m.finishRun(e, job.Done, c.Result)
		m.releaseDependants(e)
		return
	}
	if !c.Keep && !e.Policy.Keep {
		if c.Want {
			m.answer(e, res)
		}
		m.detachSucceeded(e)
		m.removeAwaited(e)
		return
	}
	m.detachSucceeded(e)
	m.leave(e)
	if c.NewBody {
		m.loadBody(e)
		m.replaceBody(e, bytes.Clone(c.Body), c.BodyKind)
	}
	m.finish(e, job.Done, c.Result)
	if c.Want {
		m.answer(e, res)
	}
	m.releaseDependants(e)
}

// detachSucceeded ends what a job has elsewhere when it succeeds: its lock, its part in a batch,
// its progress. detachLost is the counterpart for jobs that go in another way.
func (m *Machine) detachSucceeded(e *entry) {
	if e.Lock != "" && e.LockUntil == job.LockUntilAck && (!plant.LockOutlives.On() || e.Attempts > 1) {
		m.unlock(e)
	}
	if e.Batch != 0 {
		m.ackInBatch(e)
	}
	if e.Flags.Has(job.FlagTracked) {
		m.keepOutcome(e, job.Succeeded)
	}
}

// finish keeps a job that has left its list as done or failed, with its result. A result from an
// earlier life, before a respawn or promote, must not stay. The job leaves memory: nothing is
// fetched from the lists of finished jobs. Those who await it are told last, when its record says
// what they are told.
func (m *Machine) finish(e *entry, s job.State, result []byte) {
	e.Result = bytes.Clone(result)
	switch {
	case len(result) > 0:
		m.putResult(e)
	case e.Flags.Has(job.FlagResult):
		m.dropResult(e)
	}
	m.enter(e, s)
	m.save(e)
	m.dropResident(e)
	m.notifyFinished(e)
}

// dropResult removes the result of a job that is alive again. The caller saves the job, whose flags
// have changed.
func (m *Machine) dropResult(e *entry) {
	m.delPart(e, recordResult)
	e.Flags &^= job.FlagResult
	e.Result = nil
}

// fail applies a Fail of a worker. The kind of the failure is set here: a worker cannot pass its
// failure off as that of a lease or a blocker.
func (m *Machine) fail(c *job.Fail, res *job.Result) {
	e, err := m.lookupSettle(&c.Ref, c.Need, c.By)
	if err != nil {
		res.Err = err
		return
	}
	m.noteSettled(e, true)
	f := c.Failure
	f.Kind = job.FailedByWorker
	m.failJob(e, f, c.Result)
	m.answerIfWanted(c.Want, e, res)
}

// answerIfWanted answers the job as it is now, if it was asked for. The job is loaded again,
// because what was done to it may have removed it or moved it to another queue, and e may be out of
// date.
func (m *Machine) answerIfWanted(want bool, e *entry, res *job.Result) {
	if want {
		if now := m.reload(e); now != nil {
			m.answer(now, res)
		}
	}
}

// failJob counts a failure and does what the job's policy says (section 5). It is called for a
// failure that a worker reports, for a lease that has lapsed with LapseFail, and for the end of a
// holder. The job may be in any unfinished state. The failure and its count in the batch are set
// before the state changes, so that the one record that is written at the end has them.
func (m *Machine) failJob(e *entry, f job.Failure, result []byte) {
	m.count(e.q, job.CountFailed)
	e.Fails++
	m.countFailedInBatch(e)
	m.remember(e, f)
	if e.Flags.Has(job.FlagEphemeral) {
		// A run is never tried again: its caller waits for this one result (section 7).
		m.keepOutcome(e, job.Died)
		m.endAndFailDependants(e, func() { m.finishRun(e, job.Failed, result) })
		return
	}
	p := &e.Policy
	if (p.MaxFails > 0 && e.Fails >= p.MaxFails) || (p.MaxAttempts > 0 && e.Attempts >= p.MaxAttempts) {
		m.exhaust(e, result)
		return
	}
	m.count(e.q, job.CountRetried)
	// There are tries left. Dependants go on waiting: only the end of a job concerns them.
	if p.Backoff.Unit <= 0 {
		m.leave(e)
		m.makeReady(e, p.Requeue)
		return
	}
	m.leave(e)
	e.RunAt = p.Backoff.After(m.now, e.Fails, m.draw())
	// The length of a back-off may come out as nothing. A timer in the past would fire at the next
	// step; making the job ready here saves that and gives the same order.
	if e.RunAt <= m.now {
		m.makeReady(e, p.Due)
		return
	}
	m.enter(e, job.Retrying)
	m.save(e)
	m.dropResident(e)
}

// remember adds a failure to those the job keeps, in a record of their own: failures are long and
// seldom read. It sets a flag of the job, which the caller saves.
func (m *Machine) remember(e *entry, f job.Failure) {
	m.loadFailures(e)
	f.At = m.now
	e.Failures = keepFailure(e.Failures, f)
	m.putFailures(e)
}

// keepFailure adds a failure to others. The first one and the newest are kept (job.FailuresKept in
// all), so that a job that fails for ever does not grow. It never changes the slice that it was
// given: that may be part of an answer already.
func keepFailure(fs []job.Failure, f job.Failure) []job.Failure {
	fs = append(slices.Clip(fs), f)
	if len(fs) > job.FailuresKept {
		fs = slices.Delete(fs, 1, 2)
	}
	return fs
}

// lapse ends a lease whose time has run out. fireTimer calls it, after it has made sure that the
// answer with the job has left the server (INV-16).
func (m *Machine) lapse(e *entry) {
	m.count(e.q, job.CountLapsed)
	m.traceEnded(e, job.CountLapsed)
	e.Lapses++
	if e.Flags.Has(job.FlagEphemeral) {
		// The caller of a run waited for this lease only. It is told before the job goes, which
		// would tell it that the job is not found.
		if w := m.runs[e.ID]; w != nil {
			m.refuse(w, job.ErrTimeout)
		}
		m.endAndFailDependants(e, func() { m.remove(e) })
		return
	}
	p := &e.Policy
	switch {
	case p.Lapse == job.LapseFail:
		m.failJob(e, job.Failure{Kind: job.FailedByLapse}, nil)
	case p.MaxAttempts > 0 && e.Attempts >= plant.Or(p.MaxAttempts, plant.AttemptMore, p.MaxAttempts+1):
		m.exhaust(e, nil)
	default:
		m.leave(e)
		m.makeReady(e, p.Requeue)
	}
}

// release gives a job back without a failure. Its caller may set another priority or expiry on the
// way; both are set before the job enters its list, whose order and timer follow from them.
func (m *Machine) release(c *job.Release, res *job.Result) {
	e, err := m.lookupSettle(&c.Ref, c.Need, c.By)
	if err == nil && e.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err != nil {
		res.Err = err
		return
	}
	m.count(e.q, job.CountReleased)
	m.leave(e)
	// A run whose caller has stopped waiting has nobody to be run for.
	if m.withdrawIfAbandoned(e) {
		return
	}
	e.Releases++
	e.Delay = max(c.Delay, 0)
	if c.SetPriority {
		e.Policy.Priority = c.Priority
	}
	switch {
	case c.TTL > 0:
		e.Policy.ExpireAt = m.now.Add(c.Delay).Add(c.TTL)
	case c.StretchTTL && e.Policy.ExpireAt != 0:
		e.Policy.ExpireAt = e.Policy.ExpireAt.Add(c.Delay)
	}
	if c.Delay > 0 {
		e.RunAt = m.now.Add(c.Delay)
		m.enter(e, job.Scheduled)
		// Set after leave, which clears it. The timer then puts the job back to its old place
		// (due).
		e.Flags |= job.FlagOldPlace
		m.save(e)
		m.dropResident(e)
	} else {
		m.makeReady(e, c.Place)
	}
	m.answerIfWanted(c.Want, e, res)
}

// giveBack undoes deliveries that never reached their caller: the job is ready at its old place, as
// if it had not been fetched. Only leases that the caller still holds count. A lease that was
// settled, or that lapsed and went to somebody else while the connection broke, is passed over.
func (m *Machine) giveBack(c *job.Return, res *job.Result) {
	for i := range c.Refs {
		e, err := m.lookup(&c.Refs[i], 0, job.NeedHeld, c.By)
		if err != nil {
			continue // settled, lapsed or gone meanwhile
		}
		m.count(e.q, job.CountReturned)
		m.leave(e)
		// It was never tried: a delivery that nobody got must not use up an attempt.
		e.Attempts--
		m.makeReady(e, job.PlaceOld)
		m.serveWakes()
		res.Count++
	}
}

// bury sets a job aside until it is kicked. Burying a job that is buried changes nothing, neither
// its place nor its counts.
func (m *Machine) bury(c *job.Bury, res *job.Result) {
	e, err := m.lookup(&c.Ref, c.In, c.Need, c.By)
	if err == nil && (e.State.Finished() || e.State == job.Dead) {
		err = job.ErrBadState
	}
	if err != nil {
		res.Err = err
		return
	}
	if e.State != job.Buried {
		m.count(e.q, job.CountBuried)
		m.leave(e)
		if m.withdrawIfAbandoned(e) {
			return
		}
		e.Buries++
		if c.SetPriority {
			e.Policy.Priority = c.Priority
		}
		if c.Last {
			e.Flags |= job.FlagBuriedLast
		}
		m.enter(e, job.Buried)
		m.save(e)
		m.dropResident(e)
	}
	m.answerIfWanted(c.Want, e, res)
}

// kick makes buried or waiting jobs ready. Of many it does one piece per step (limitToStep); the
// engine repeats the command with what Result.Left says.
func (m *Machine) kick(c *job.Kick, res *job.Result) {
	if c.One {
		e, err := m.lookupIn(&c.Ref, 0, kickable[c.From])
		if err != nil {
			res.Err = err
			return
		}
		m.kickOne(e)
		res.Count = 1
		m.answerIfWanted(c.Want, e, res)
		return
	}
	q := m.findQueue(c.Namespace, c.Queue)
	if q == nil || c.Count <= 0 {
		return
	}
	for _, e := range m.kicked(q, c, res) {
		m.kickOne(e)
		m.serveWakes()
		res.Count++
	}
}

// kickable are the states that a kick of one job means.
var kickable = [...]job.States{
	job.KickBuried:  job.StatesOf(job.Buried),
	job.KickWaiting: job.StatesOf(job.Scheduled, job.Retrying),
	job.KickEither:  job.StatesOf(job.Buried, job.Scheduled, job.Retrying),
}

// kicked returns the jobs of a queue that this step of a kick means. The answer says which kind was
// chosen, because later steps must not choose again: the buried jobs may be all kicked by then, and
// those that wait for their time were not meant (job.Rest).
func (m *Machine) kicked(q *queue, c *job.Kick, res *job.Result) []*entry {
	buried := q.Counts[job.Buried]
	if c.From == job.KickBuried || c.From == job.KickEither && buried > 0 {
		res.State = job.Buried
		return m.firstFew(q, job.Buried, m.limitToStep(buried, c.Count, res))
	}
	res.State = job.Scheduled
	n := m.limitToStep(q.Counts[job.Scheduled]+q.Counts[job.Retrying], c.Count, res)
	// Each list is sorted by due time. The first n of both together are among the first n of each.
	es := append(m.firstFew(q, job.Scheduled, n), m.firstFew(q, job.Retrying, n)...)
	slices.SortFunc(es, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID)) })
	return es[:n]
}

// kickOne makes one job ready at the place that it had before it was buried or began to wait.
func (m *Machine) kickOne(e *entry) {
	m.count(e.q, job.CountKicked)
	e.Kicks++
	m.leave(e)
	m.makeReady(e, job.PlaceOld)
}

// delete removes a job, whoever has it, unless Need or In say otherwise. The answer is taken before
// the records go.
func (m *Machine) delete(c *job.Delete, res *job.Result) {
	e, err := m.lookup(&c.Ref, c.In, c.Need, c.By)
	if err != nil {
		res.Err = err
		return
	}
	// Whoever has the job and deletes it is done with it, and it counts as acked.
	if c.AckHeld && e.State == job.Leased && e.Lease.Holder == c.By {
		m.succeed(e, &job.Ack{Want: c.Want}, res)
		return
	}
	if c.Want {
		m.answer(e, res)
	}
	m.discard(e)
}

// discard deletes a job on request. Its dependants are released, not failed: a job that does not
// exist blocks nothing (section 6). Expiry, which fails them, is expire.
func (m *Machine) discard(e *entry) {
	m.countDeleted(e.q, e.State, 1)
	m.removeAwaited(e)
}

// removeAwaited removes a job, except for the slot that a dead one may leave, and releases those
// that wait for it.
func (m *Machine) removeAwaited(e *entry) {
	awaited := e.Flags.Has(job.FlagDependants) // which a slot has not
	if leavesSlot(e) {
		m.leaveTombstone(e)
	} else {
		m.remove(e)
	}
	if awaited {
		m.endDependants(e.ID, false)
	}
}

// leavesSlot reports whether a deleted job leaves a tombstone in the dead list (DeadSlots). A
// tombstone itself leaves none.
func leavesSlot(e *entry) bool {
	return e.State == job.Dead && e.Policy.DeadSlots && !e.Flags.Has(job.FlagTombstone)
}

// leaveTombstone replaces a deleted dead job by a tombstone, which keeps its place in the dead
// list. Only what a listing shows is left of it: the body, failures and result go, and it is found
// under no key, number or serial any more (INV-9). The flags about how its records were written
// stay, because they decide how those are deleted later (unput).
func (m *Machine) leaveTombstone(e *entry) {
	m.unsetTimer(e)
	e.Timer = 0
	if e.Flags.Has(job.FlagInline) {
		m.spillBody(e)
	} else {
		m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartBody)
		m.clear(m.keyBuf, e.Flags.Has(job.FlagRewritten))
	}
	if e.Flags.Has(job.FlagFailures) {
		m.delPart(e, recordFailures)
	}
	if e.Flags.Has(job.FlagResult) {
		m.delPart(e, recordResult)
	}
	m.detachLost(e)
	m.unlink(e)
	e.Lock, e.LockUntil, e.Batch, e.Fingerprint = "", 0, 0, job.Digest{}
	e.Flags = job.FlagTombstone | e.Flags&(job.FlagRewritten|job.FlagState|job.FlagStateAgain)
	m.save(e)
	m.notifyGone(e)
}

// touch moves the end of a lease. The timer follows from Lease.Until in save, and the holder keeps
// the same end for fetches with a Margin: moveLeaseEnd and save belong together (INV-2).
func (m *Machine) touch(c *job.Touch, res *job.Result) {
	e, err := m.lookupSettle(&c.Ref, c.Need, c.By)
	if err == nil && e.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err != nil {
		res.Err = err
		return
	}
	m.count(e.q, job.CountTouched)
	old := e.Lease.Until
	l := &e.Lease
	switch {
	case c.Until != 0:
		l.Until = c.Until
	case c.Restart:
		l.Until = 0
		if l.Length > 0 {
			l.Until = m.now.Add(l.Length)
		}
	case c.Add > 0:
		if l.Until != 0 {
			l.Until = l.Until.Add(c.Add)
		}
		l.Length = addDuration(l.Length, c.Add)
		e.Policy.Lease = addDuration(e.Policy.Lease, c.Add)
		if e.Policy.ExpireAt != 0 {
			e.Policy.ExpireAt = e.Policy.ExpireAt.Add(c.Add)
		}
	}
	// An end of zero is none at all, which is later than any.
	if c.NoEarlier && (old == 0 || (l.Until != 0 && l.Until < old)) {
		l.Until = old
	}
	m.moveLeaseEnd(&e.Job)
	m.save(e)
	m.answerIfWanted(c.Want, e, res)
}

var (
	// The states in which the verbs of operators find a job; in any other they answer BadState.
	promotable = job.StatesOf(job.Scheduled, job.Retrying, job.Buried, job.Failed, job.Dead)
	movable    = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Retrying, job.Buried,
		job.Done, job.Failed, job.Dead)
	killable = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried)
)

// promote makes a job ready now that would wait, was set aside or has ended.
func (m *Machine) promote(c *job.Promote, res *job.Result) {
	e, err := m.lookupIn(&c.Ref, c.In, promotable)
	if err != nil {
		res.Err = err
		return
	}
	m.leave(e)
	if e.Flags.Has(job.FlagResult) {
		m.dropResult(e)
	}
	m.makeReady(e, c.Place)
	m.answerIfWanted(c.Want, e, res)
}

// each does to the jobs with a key what a command does to one. They are named by their places and
// not by the key: what is done to one of them may move or remove the next. Wakes are served between
// two of them, as if each were a command of its own. With more jobs than one step takes, the answer
// names the last one, and the next Each goes on behind it.
func (m *Machine) each(c *job.Each, res *job.Result) {
	limit := c.Limit
	if limit <= 0 || limit > job.EachMax {
		limit = job.EachMax
	}
	refs, more := m.jobsWithKey(c.Namespace, c.Key, c.After, limit)
	for _, ref := range refs {
		var one job.Result
		m.applyTo(job.ByPlace(c.Namespace, uint32(ref.Queue), ref.ID), c.Do, &one)
		m.serveWakes()
		if one.Err == nil {
			res.Count++
		}
		if more {
			res.ID = ref.ID
		}
	}
}

var errEach = &job.Error{Kind: job.Invalid, Text: "this cannot be done with all jobs of a key"}

// applyTo applies one of the commands that Each knows to a job. The command is copied: it belongs
// to the caller, who may use it for the next job or submit it again.
func (m *Machine) applyTo(ref job.Ref, cmd job.Command, res *job.Result) {
	switch c := cmd.(type) {
	case *job.Delete:
		one := *c
		one.Ref, one.Want = ref, false
		m.delete(&one, res)
	case *job.Promote:
		one := *c
		one.Ref, one.Want = ref, false
		m.promote(&one, res)
	case *job.Kill:
		one := *c
		one.Ref, one.Want = ref, false
		m.kill(&one, res)
	default:
		res.Err = errEach
	}
}

// moveJob puts a job into another queue of its namespace. The state, and the order where the list
// has one of its own, stay.
func (m *Machine) moveJob(c *job.Move, res *job.Result) {
	e, err := m.lookupIn(&c.Ref, c.In, movable)
	if err == nil && m.settleBlockers(e) {
		e, err = m.lookupIn(&c.Ref, c.In, movable)
	}
	if err != nil {
		res.Err = err
		return
	}
	if e.q.name == c.Queue {
		return
	}
	// What leave and transfer reset is put back afterwards: the move is not a change of state.
	s, since, kept := e.State, e.Since, e.Flags&(job.FlagOldPlace|job.FlagBuriedLast)
	blockers := e.Blockers
	m.count(e.q, job.CountMoved)
	m.leave(e)
	m.transfer(e, c.Queue)
	e.Blockers = blockers
	if m.withdrawIfAbandoned(e) {
		return
	}
	// A ready job enters the other list by its old order, and goes to a caller who waits there.
	if s == job.Ready {
		m.makeReady(e, job.PlaceOld)
		return
	}
	e.Flags |= kept
	m.enter(e, s)
	e.Since = since
	if s == job.Blocked {
		m.listBlocked(e)
	}
	m.save(e)
	m.wakeRoom(e.q)
}

// transfer moves the records of a job that is in no list to another queue of its namespace. Every
// key of a job begins with the number of its queue, so that all parts are read, deleted and written
// again. The caller enters the job into a list and saves it, in the same step: a crash between
// would lose it, but a step is one part of one batch. Entries of dependants name a blocker by its
// id alone and stay.
func (m *Machine) transfer(e *entry, name string) {
	m.loadBody(e)
	m.loadFailures(e)
	m.loadResult(e)
	old := e.q
	var told record.Progress
	if e.Flags.Has(job.FlagTracked) {
		told = m.getProgress(e)
		m.delPart(e, record.PartProgress)
	}
	m.dropResident(e)
	m.unsetTimer(e)
	e.Timer = 0
	m.unput(e)
	if e.Flags.Has(job.FlagFailures) {
		m.delPart(e, recordFailures)
	}
	if e.Flags.Has(job.FlagResult) {
		m.delPart(e, recordResult)
	}
	m.unlink(e)
	e.q = m.makeQueue(e.Namespace, name)
	e.q.setHidden(false)
	e.Queue, e.QueueNum = e.q.name, uint32(e.q.ID)
	e.Flags &^= job.FlagSerial
	e.Serial = 0
	if e.q.Settings.Serials {
		e.Flags |= job.FlagSerial
		e.Serial = e.q.NextSerial
		e.q.NextSerial++
	}
	// The job is written as if it were new: the flags say how often a key was written, and these
	// keys never were.
	e.Flags &^= job.FlagInline | job.FlagRewritten | job.FlagState | job.FlagStateAgain
	e.stored = false
	m.storeBody(e)
	if told != (record.Progress{}) {
		m.putProgress(e, &told)
	}
	if e.Flags.Has(job.FlagFailures) {
		m.putFailures(e)
	}
	if e.Flags.Has(job.FlagResult) {
		m.putResult(e)
	}
	m.link(e)
	m.moveWaits(e)
	m.wakeRoom(old)
}
