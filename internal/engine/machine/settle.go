package machine

import (
	"bytes"
	"cmp"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

func (m *Machine) ack(c *job.Ack, res *job.Result) {
	e, err := m.lookupSettle(&c.Ref, c.Need, c.By)
	if err != nil {
		res.Err = err
		return
	}
	m.succeed(e, c, res)
}

// succeed ends a job as an Ack does.
func (m *Machine) succeed(e *entry, c *job.Ack, res *job.Result) {
	m.count(e.q, job.CountAcked)
	m.noteSettled(e, false)
	if e.Flags.Has(job.FlagEphemeral) {
		if c.Want {
			m.answer(e, res)
		}
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

// detachSucceeded ends what a job with success ends elsewhere: its lock, its part in a batch,
// its progress.
func (m *Machine) detachSucceeded(e *entry) {
	if e.Lock != "" && e.LockUntil == job.LockUntilAck {
		m.unlock(e)
	}
	if e.Batch != 0 {
		m.ackInBatch(e)
	}
	if e.Flags.Has(job.FlagTracked) {
		m.keepOutcome(e, job.Succeeded)
	}
}

// finish keeps a job that has left its list as done or failed, with its result.
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
	m.tellResult(e)
}

func (m *Machine) dropResult(e *entry) {
	m.delPart(e, recordResult)
	e.Flags &^= job.FlagResult
	e.Result = nil
}

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

// answerIfWanted answers the job as it is now, if it was asked for and is still there.
func (m *Machine) answerIfWanted(want bool, e *entry, res *job.Result) {
	if want {
		if now := m.reload(e); now != nil {
			m.answer(now, res)
		}
	}
}

// failJob counts a failure and does what the job's policy says (section 5).
func (m *Machine) failJob(e *entry, f job.Failure, result []byte) {
	m.count(e.q, job.CountFailed)
	e.Fails++
	m.countFailedInBatch(e)
	m.remember(e, f)
	if e.Flags.Has(job.FlagEphemeral) {
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
	if p.Backoff.Unit <= 0 {
		m.leave(e)
		m.makeReady(e, p.Requeue)
		return
	}
	m.leave(e)
	e.RunAt = p.Backoff.After(m.now, e.Fails, m.draw())
	if e.RunAt <= m.now {
		m.makeReady(e, p.Due)
		return
	}
	m.enter(e, job.Retrying)
	m.save(e)
	m.dropResident(e)
}

// remember adds a failure to those the job keeps.
func (m *Machine) remember(e *entry, f job.Failure) {
	m.loadFailures(e)
	f.At = m.now
	e.Failures = keepFailure(e.Failures, f)
	m.putFailures(e)
}

// keepFailure adds a failure to others, of which the first and the newest are kept.
func keepFailure(fs []job.Failure, f job.Failure) []job.Failure {
	fs = append(slices.Clip(fs), f)
	if len(fs) > job.FailuresKept {
		fs = slices.Delete(fs, 1, 2)
	}
	return fs
}

// lapse ends a lease whose time has run out.
func (m *Machine) lapse(e *entry) {
	m.count(e.q, job.CountLapsed)
	m.traceEnded(e, job.CountLapsed)
	e.Lapses++
	if e.Flags.Has(job.FlagEphemeral) {
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
	case p.MaxAttempts > 0 && e.Attempts >= p.MaxAttempts:
		m.exhaust(e, nil)
	default:
		m.leave(e)
		m.makeReady(e, p.Requeue)
	}
}

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
		e.Flags |= job.FlagOldPlace
		m.save(e)
		m.dropResident(e)
	} else {
		m.makeReady(e, c.Place)
	}
	m.answerIfWanted(c.Want, e, res)
}

// giveBack undoes deliveries that never reached their caller.
func (m *Machine) giveBack(c *job.Return, res *job.Result) {
	for i := range c.Refs {
		e, err := m.lookup(&c.Refs[i], 0, job.NeedHeld, c.By)
		if err != nil {
			continue // settled, lapsed or gone meanwhile
		}
		m.count(e.q, job.CountReturned)
		m.leave(e)
		e.Attempts--
		m.makeReady(e, job.PlaceOld)
		m.serveWakes()
		res.Count++
	}
}

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
	q := m.find(c.Namespace, c.Queue)
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

// kicked returns the jobs of a queue that this step of a kick means.
func (m *Machine) kicked(q *queue, c *job.Kick, res *job.Result) []*entry {
	buried := q.Counts[job.Buried]
	if c.From == job.KickBuried || c.From == job.KickEither && buried > 0 {
		res.State = job.Buried
		return m.firstFew(q, job.Buried, m.limitToStep(buried, c.Count, res))
	}
	res.State = job.Scheduled
	n := m.limitToStep(q.Counts[job.Scheduled]+q.Counts[job.Retrying], c.Count, res)
	es := append(m.firstFew(q, job.Scheduled, n), m.firstFew(q, job.Retrying, n)...)
	slices.SortFunc(es, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID)) })
	return es[:n]
}

func (m *Machine) kickOne(e *entry) {
	m.count(e.q, job.CountKicked)
	e.Kicks++
	m.leave(e)
	m.makeReady(e, job.PlaceOld)
}

func (m *Machine) delete(c *job.Delete, res *job.Result) {
	e, err := m.lookup(&c.Ref, c.In, c.Need, c.By)
	if err != nil {
		res.Err = err
		return
	}
	if c.AckHeld && e.State == job.Leased && e.Lease.Holder == c.By {
		m.succeed(e, &job.Ack{Want: c.Want}, res)
		return
	}
	if c.Want {
		m.answer(e, res)
	}
	m.discard(e)
}

// discard removes a job by somebody's will: what waits for it is released.
func (m *Machine) discard(e *entry) {
	m.countDeleted(e.q, e.State, 1)
	m.removeAwaited(e)
}

// removeAwaited removes a job, but for the slot that a dead one may leave, and releases
// those that wait for it.
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

func leavesSlot(e *entry) bool {
	return e.State == job.Dead && e.Policy.DeadSlots && !e.Flags.Has(job.FlagTombstone)
}

// leaveTombstone leaves the slot of a deleted dead job in the dead list. It keeps the key, under
// which it is not found any more, to be shown.
func (m *Machine) leaveTombstone(e *entry) {
	m.unsetTimer(e)
	e.Timer = 0
	if e.Flags.Has(job.FlagInline) {
		m.spillBody(e)
	} else {
		m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartBody)
		m.clear(m.kb, e.Flags.Has(job.FlagRewritten))
	}
	if e.Flags.Has(job.FlagFailures) {
		m.delPart(e, recordFailures)
	}
	if e.Flags.Has(job.FlagResult) {
		m.delPart(e, recordResult)
	}
	m.detachLost(e)
	m.unlink(e)
	e.Lock, e.LockUntil, e.Batch, e.Like = "", 0, 0, job.Digest{}
	e.Flags = job.FlagTombstone | e.Flags&(job.FlagRewritten|job.FlagState|job.FlagStateAgain)
	m.save(e)
	m.tellGone(e)
}

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
		l.Length = lengthen(l.Length, c.Add)
		e.Policy.Lease = lengthen(e.Policy.Lease, c.Add)
		if e.Policy.ExpireAt != 0 {
			e.Policy.ExpireAt = e.Policy.ExpireAt.Add(c.Add)
		}
	}
	if c.NoEarlier && (old == 0 || (l.Until != 0 && l.Until < old)) {
		l.Until = old
	}
	m.moveEnd(&e.Job)
	m.save(e)
	m.answerIfWanted(c.Want, e, res)
}

var (
	promotable = job.StatesOf(job.Scheduled, job.Retrying, job.Buried, job.Failed, job.Dead)
	movable    = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead)
	killable   = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried)
)

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

// each does to the jobs with a key what a command does to one. They are named by their places: what is done to one
// of them may move or remove the next.
func (m *Machine) each(c *job.Each, res *job.Result) {
	limit := c.Limit
	if limit <= 0 || limit > job.EachMax {
		limit = job.EachMax
	}
	refs, more := m.keyed(c.Namespace, c.Key, c.After, limit)
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

// applyTo applies one of the commands that Each knows to a job.
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

// moveJob puts a job into another queue.
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
	s, since, kept := e.State, e.Since, e.Flags&(job.FlagOldPlace|job.FlagBuriedLast)
	blockers := e.Blockers
	m.count(e.q, job.CountMoved)
	m.leave(e)
	m.transfer(e, c.Queue)
	e.Blockers = blockers
	if m.withdrawIfAbandoned(e) {
		return
	}
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

// transfer moves the records of a job that is in no list to another queue of its
// namespace. What follows enters it into a list and saves it.
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
	e.q.hide(false)
	e.Queue, e.QueueNum = e.q.name, uint32(e.q.ID)
	e.Flags &^= job.FlagSerial
	e.Serial = 0
	if e.q.Settings.Serials {
		e.Flags |= job.FlagSerial
		e.Serial = e.q.NextSerial
		e.q.NextSerial++
	}
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
