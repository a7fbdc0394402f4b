package machine

import (
	"errors"

	"millrace/internal/job"
	"millrace/internal/record"
)

// entry is a job in memory. Entries of jobs in windows and of leased jobs are shared through
// Machine.jobs: there is at most one of them for a job, and whoever loads the job gets that one
// (INV-12). All others live as long as the step that loaded them and must not be kept.
type entry struct {
	job.Job
	q *queue
	// pushStep is the step of its push, as far as that may not be durable yet.
	pushStep uint64
	stored   bool // its first record has been written
	leased   bool // counts in Machine.residentLeases
	// loaded tells that body, type and extra are there; held that they count in
	// Machine.bodyBytes.
	loaded      bool
	bodyCounted bool
	turn        uint64 // that of its group, under which it is listed; zero if it is not
	typeID      TypeID // its type as the observer knows it, while it is leased
	// delivery is that of its lease, if it has one.
	delivery *job.Delivery
}

// loadJob returns a job of a queue, or nil if there is none. The state record has the newest form
// of a job. A job that has not changed since its push has none, and its first record counts.
// Records of a purged job may still be there until the sweep has come to them; they are no job
// (record.Queue.Gone).
func (m *Machine) loadJob(q *queue, id job.ID) *entry {
	if e := m.jobs[id]; e != nil {
		if e.q != q {
			return nil
		}
		return e
	}
	m.keyBuf = record.JobKey(m.keyBuf[:0], q.ID, id, record.PartState)
	b, pending, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = b[:0]
	// The buffer is free for the next read: DecodeMeta copies what it keeps. DecodeFirst does not,
	// and is given a buffer of its own below.
	e := m.newEntry(q, id, pending)
	if ok {
		corrupt("job", record.DecodeMeta(b, &e.Job))
	} else {
		m.keyBuf = record.JobKey(m.keyBuf[:0], q.ID, id, record.PartFirst)
		if b, pending, ok = m.store.Get(nil, m.keyBuf); !ok {
			return nil
		}
		m.decodeFirst(e, b)
		if pending {
			e.pushStep = m.step
		}
	}
	if q.Gone(&e.Job) {
		return nil
	}
	return e
}

// newEntry returns an entry for a stored job, to be decoded into. What is pending was pushed, or
// changed, by a batch that is not committed: a delivery has to wait for it (INV-11). Which step
// that was is not known any more, so that this step stands for it, which is later and therefore
// safe.
func (m *Machine) newEntry(q *queue, id job.ID, pending bool) *entry {
	e := &entry{q: q, stored: true}
	e.ID, e.Namespace, e.Queue, e.QueueNum = id, q.namespace, q.name, uint32(q.ID)
	if pending {
		e.pushStep = m.step
	}
	return e
}

// decodeFirst decodes the first record of a job. The entry points into b and owns it from now on.
func (m *Machine) decodeFirst(e *entry, b []byte) {
	corrupt("job", record.DecodeFirst(b, &e.Job))
	e.loaded = e.Flags.Has(job.FlagInline)
}

var errDangling = errors.New("an entry leads to no job")

// mustLoad loads a job that a list of its queue names. If it is not there the store is damaged, and
// the machine stops instead of passing over it.
func (m *Machine) mustLoad(q *queue, id job.ID) *entry {
	e := m.loadJob(q, id)
	if e == nil {
		corrupt("list of queue "+q.name, errDangling)
	}
	return e
}

// loadRef loads a job by queue number and id; nil if queue or job are gone. Entries in other key
// ranges name jobs so, and may lead to one that was purged and not swept yet (INV-9).
func (m *Machine) loadRef(r record.JobRef) *entry {
	q := m.byID[r.Queue]
	if q == nil {
		return nil
	}
	return m.loadJob(q, r.ID)
}

// loadBody makes sure that body, type and extra are there. Most jobs in windows are without them,
// as the budget for bodies says (keepBody).
func (m *Machine) loadBody(e *entry) {
	if e.loaded {
		return
	}
	part, decode := record.PartBody, record.DecodeBody
	if e.Flags.Has(job.FlagInline) {
		part, decode = record.PartFirst, record.DecodeInline
	}
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, part)
	b, pending, ok := m.store.Get(nil, m.keyBuf)
	if !ok {
		// The body went with the job.
		if e.Flags.Has(job.FlagTombstone) {
			return
		}
		corrupt("body", errDangling)
	}
	if pending {
		e.pushStep = m.step
	}
	corrupt("body", decode(b, &e.Job))
	e.loaded = true
}

// loadFailures and loadResult make sure that the other parts are there, if the job has them.
func (m *Machine) loadFailures(e *entry) {
	if !e.Flags.Has(job.FlagFailures) || e.Failures != nil {
		return
	}
	b, _, ok := m.store.Get(nil, record.JobKey(nil, e.q.ID, e.ID, record.PartFailures))
	if !ok {
		corrupt("failures", errDangling)
	}
	fs, err := record.DecodeFailures(b)
	corrupt("failures", err)
	e.Failures = fs
}

func (m *Machine) loadResult(e *entry) {
	if !e.Flags.Has(job.FlagResult) || e.Result != nil {
		return
	}
	b, _, ok := m.store.Get(nil, record.JobKey(nil, e.q.ID, e.ID, record.PartResult))
	if !ok {
		corrupt("result", errDangling)
	}
	e.Result = b
}

// answer adds a copy of the job with all that belongs to it. The copy shares the buffers of the
// entry: nothing may write into them afterwards. lease lets go of them, and replaceBody sets new
// ones.
func (m *Machine) answer(e *entry, res *job.Result) {
	m.loadBody(e)
	m.loadFailures(e)
	m.loadResult(e)
	res.Jobs = append(res.Jobs, e.Job)
}

// keepBody keeps the body in memory while the budget over all queues lasts (Options.BodyBytes),
// else lets it go. A body that is let go is read again when the job is fetched.
func (m *Machine) keepBody(e *entry) {
	if e.loaded && !e.bodyCounted && m.bodyBytes+len(e.Body) <= m.opt.BodyBytes {
		e.bodyCounted = true
		m.bodyBytes += len(e.Body)
	}
	if !e.bodyCounted {
		m.dropBody(e)
	}
}

// dropBody lets go of all that loadBody, loadFailures and loadResult have read. It never clears the
// buffers themselves, which may be part of an answer.
func (m *Machine) dropBody(e *entry) {
	m.uncountBody(e)
	e.Body, e.Extra, e.Type, e.Trace, e.Failures, e.Result, e.loaded = nil, nil, "", "", nil, nil, false
}

// save writes the job's record and moves its timer (INV-7). Every change of state ends with it, or
// with erase. The timer is part of the record, so that it is moved first.
func (m *Machine) save(e *entry) {
	if t := timerOf(e); t != e.Timer {
		m.unsetTimer(e)
		e.Timer = t
		m.setTimer(e)
	}
	m.put(e)
}

// leave takes the job out of the list of the state it is in (INV-1), with the lease or the blockers
// that belong to the state. What follows enters it into another list, or erases it, in the same
// transition. The list entry is found by the order and times of the job, so that leave comes before
// any of these is changed.
func (m *Machine) leave(e *entry) {
	q := e.q
	q.subtractCount(e.State)
	m.markDirty(q)
	switch e.State {
	case job.Ready:
		m.unlistReady(e)
	case job.Leased:
		m.delList(q, record.ListLeased, &e.Job)
		m.endLease(e)
	case job.Blocked:
		m.delList(q, record.List(e.State), &e.Job)
		m.unblock(e)
	case job.Scheduled, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead:
		m.delList(q, record.List(e.State), &e.Job)
	}
	e.Flags &^= job.FlagOldPlace | job.FlagBuriedLast
}

// enter puts the job into a state other than ready; makeReady does that. The caller sets what the
// order of the list depends on before, and saves the job afterwards.
func (m *Machine) enter(e *entry, s job.State) {
	m.setState(e, s)
	m.setList(e.q, record.List(s), &e.Job)
}

// setState changes the state and the counts. Entered is a new number of the sequence: it tells this
// stay in the state from earlier and later ones, for leases, for purges and after a restart.
func (m *Machine) setState(e *entry, s job.State) {
	e.State, e.Since, e.Entered = s, m.now, m.nextSeq()
	e.q.addCount(s)
	m.markDirty(e.q)
}

// remove ends the job: it leaves its list and all its records go. What waits for it is not told by
// this; see releaseDependants and endAndFailDependants.
func (m *Machine) remove(e *entry) {
	m.leave(e)
	m.erase(e)
}

// erase deletes the records of a job that is in no list any more, and answers those who await its
// result.
func (m *Machine) erase(e *entry) {
	m.unsetTimer(e)
	e.Timer = 0
	m.unput(e)
	if e.Flags.Has(job.FlagFailures) {
		m.delPart(e, record.PartFailures)
	}
	if e.Flags.Has(job.FlagResult) {
		m.delPart(e, record.PartResult)
	}
	// A job that has been acked is not in its batch any more, and counts as nothing here.
	m.detachLost(e)
	m.unlink(e)
	m.dropResident(e)
	m.notifyGone(e)
	// The last job is gone, and with it all that other key ranges say about the queue: removing the
	// queue needs no sweep.
	if e.q.Linked && e.q.total() == 0 && len(m.sweeps) == 0 { // what is still to be swept may be linked
		e.q.Linked = false
	}
	m.wakeRoom(e.q)
}

// detachLost ends what a job that goes without an ack has elsewhere: its batch counts it as failed,
// its schedule knows that it was removed, and its progress is gone. detachSucceeded is the
// counterpart.
func (m *Machine) detachLost(e *entry) {
	if e.Batch != 0 {
		m.countFailedInBatch(e)
		m.noteTickEnd(e, job.Removed)
	}
	if e.Flags.Has(job.FlagTracked) {
		m.delPart(e, record.PartProgress)
	}
}

// link lists a new job under its key, number, serial and fingerprint (INV-9). A queue one of whose
// jobs is named outside of its own key ranges is marked as linked: when it is removed, these
// entries must be swept one by one.
func (m *Machine) link(e *entry) {
	q := e.q
	m.listAlike(e)
	if e.Key != "" {
		m.addKey(e)
	}
	if e.Flags.Has(job.FlagNumbered) {
		m.keyBuf = record.NumberKey(m.keyBuf[:0], e.ID.Number())
		m.valueBuf = record.AppendRef(m.valueBuf[:0], record.JobRef{Queue: q.ID, ID: e.ID})
		m.store.Insert(m.keyBuf, m.valueBuf)
	}
	if e.Flags.Has(job.FlagSerial) {
		m.keyBuf = record.SerialKey(m.keyBuf[:0], q.ID, e.Serial)
		m.valueBuf = record.AppendUint(m.valueBuf[:0], uint64(e.ID))
		m.set(m.keyBuf, m.valueBuf)
	}
	if e.Flags.Has(job.FlagEphemeral) {
		m.keyBuf = record.EphemeralKey(m.keyBuf[:0], q.ID, e.ID)
		m.set(m.keyBuf, nil)
	}
	if e.Key != "" || e.Batch != 0 || e.Flags&(job.FlagNumbered|job.FlagEphemeral|job.FlagDependants) != 0 {
		q.Linked = true
	}
}

// unlink is the inverse of link. A tombstone has lost its key already, and another job may have it.
func (m *Machine) unlink(e *entry) {
	m.unlistAlike(e)
	if e.Key != "" && !e.Flags.Has(job.FlagTombstone) {
		m.dropKey(e.q.namespace, e.Key, e.ID)
	}
	if e.Flags.Has(job.FlagNumbered) {
		m.keyBuf = record.NumberKey(m.keyBuf[:0], e.ID.Number())
		m.store.Remove(m.keyBuf)
	}
	if e.Flags.Has(job.FlagSerial) {
		m.keyBuf = record.SerialKey(m.keyBuf[:0], e.q.ID, e.Serial)
		m.del(m.keyBuf)
	}
	if e.Flags.Has(job.FlagEphemeral) {
		m.keyBuf = record.EphemeralKey(m.keyBuf[:0], e.q.ID, e.ID)
		m.del(m.keyBuf)
	}
}

// keepResident shares an entry through Machine.jobs. The caller has made sure that it is in a
// window, or leased and within the bound (INV-12), and sees to its going.
func (m *Machine) keepResident(e *entry) {
	if m.jobs[e.ID] == nil {
		m.jobs[e.ID] = e
	}
}

// dropResident lets an entry go from memory, and from the sums that bound it. The entry that is
// shared may be another one than e, if e was loaded before that.
func (m *Machine) dropResident(e *entry) {
	if r := m.jobs[e.ID]; r != nil {
		delete(m.jobs, e.ID)
		m.uncountBody(r)
		m.uncountLease(r)
	}
	m.uncountBody(e)
}

// windowedCount returns how many jobs are in memory because they are first in a list. Leased ones have a
// bound of their own.
func (m *Machine) windowedCount() int { return len(m.jobs) - m.residentLeases }

// uncountLease and uncountBody take an entry out of the sums that bound memory. Each is harmless if the
// entry does not count.
func (m *Machine) uncountLease(e *entry) {
	if e.leased {
		e.leased = false
		m.residentLeases--
	}
}

func (m *Machine) uncountBody(e *entry) {
	if e.bodyCounted {
		e.bodyCounted = false
		m.bodyBytes -= len(e.Body)
	}
}
