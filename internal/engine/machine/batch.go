package machine

import (
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// A batch is read, changed and written back each time: only which ones may have
// reached a stage is in memory, until the end of the command that let them.

// batch is a batch as it was read. It is a copy: two reads of the same batch in one step are two
// values, so that whoever changes one writes it back before anything else may read it.
type batch struct {
	record.Batch
	id job.BatchID
}

// callbacks are the flags of a job that does not count in its batch: a callback, or the job of a
// schedule, whose Batch is the number of the schedule.
const callbacks = job.FlagOnComplete | job.FlagOnSuccess | job.FlagTick

// getBatch returns a batch, nil if there is none, or it is forgotten or being flushed. Jobs may go
// on naming such a batch, which then means nothing.
func (m *Machine) getBatch(id job.BatchID) *batch {
	if b := m.readBatch(id); b != nil && !m.flushedBatch(b) {
		return b
	}
	return nil
}

// readBatch returns a batch that is stored, being flushed or not.
func (m *Machine) readBatch(id job.BatchID) *batch {
	m.keyBuf = record.BatchKey(m.keyBuf[:0], id, record.BatchState)
	p, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = p[:0]
	if !ok {
		return nil
	}
	b, err := record.DecodeBatch(p)
	corrupt("batch", err)
	return &batch{b, id}
}

// batchIn returns a batch of a namespace. Clients name batches by numbers: that of another
// namespace is not there for them.
func (m *Machine) batchIn(namespace string, id job.BatchID) *batch {
	if id == 0 {
		return nil
	}
	if b := m.getBatch(id); b != nil && b.Namespace == namespace {
		return b
	}
	return nil
}

// putBatch writes what changes of a batch. What is fixed, with the specs of its callbacks, has a
// record of its own, so that counting a job does not rewrite them.
func (m *Machine) putBatch(b *batch) {
	m.keyBuf = record.BatchKey(m.keyBuf[:0], b.id, record.BatchState)
	m.valueBuf = record.AppendBatch(m.valueBuf[:0], &b.Batch)
	m.set(m.keyBuf, m.valueBuf)
}

// batchDef reads what is fixed about a batch.
func (m *Machine) batchDef(id job.BatchID) record.BatchDef {
	p, _, ok := m.store.Get(nil, record.BatchKey(nil, id, record.BatchFixed))
	if !ok {
		corrupt("batch definition", errDangling)
	}
	def, err := record.DecodeBatchDef(p)
	corrupt("batch definition", err)
	return def
}

// newBatch makes a batch, with the past that it has elsewhere if it comes from another server. It
// is open until its first commit. The parent counts it from now on.
func (m *Machine) newBatch(c *job.NewBatch, res *job.Result) {
	if err := m.checkNewBatch(c); err != nil {
		res.Err = err
		return
	}
	b := &batch{id: job.BatchID(m.nextID(false))}
	b.Namespace, b.Created, b.Open = c.Namespace, m.now, true
	if p := c.Past; p != nil {
		b.Created, b.Committed, b.Succeeded = m.clampPast(p.Created), p.Committed, p.Succeeded
		b.Total, b.Complete, b.Success = p.Acked, p.Complete, p.Success
	}
	if p := m.batchIn(c.Namespace, c.Parent); p != nil {
		b.Parent = p.id
		countChild(&p.Batch, &b.Batch)
		m.putBatch(p)
	}
	def := record.BatchDef{
		Text: c.Text, OpenFor: c.OpenFor, KeepFor: c.KeepFor, KeepDone: c.KeepDone,
		Complete: c.Complete, Success: c.Success,
	}
	m.store.Insert(record.BatchKey(nil, b.id, record.BatchFixed), record.AppendBatchDef(nil, &def))
	m.store.Insert(record.BatchesKey(nil, b.Namespace, b.id), nil)
	m.keepBatch(b, &def)
	res.Batch = b.id
}

// checkNewBatch says why a batch cannot be made; nil if it can. A past comes from outside: one that
// no batch can have would break INV-14.
func (m *Machine) checkNewBatch(c *job.NewBatch) *job.Error {
	if m.nestedTooDeep(c) {
		return job.ErrTooDeep
	}
	p := c.Past
	switch {
	case p == nil:
		return nil
	case p.Acked > joinedMax, p.Committed < 0 || p.Committed > m.now || p.Succeeded < 0 || p.Succeeded > m.now,
		p.Complete > job.CallbackAcked || p.Success > job.CallbackAcked,
		p.Complete == job.CallbackPushed && c.Complete == nil || p.Success == job.CallbackPushed && c.Success == nil,
		p.Complete != job.CallbackWaiting && p.Committed == 0,
		p.Success != job.CallbackWaiting && p.Complete != job.CallbackAcked,
		(p.Success != job.CallbackWaiting) != (p.Succeeded != 0):
		return &job.Error{Kind: job.Invalid, Text: "no batch can have such a past"}
	}
	return nil
}

// joinedMax bounds how many jobs a batch with a past has had, so that no counter of it can
// overflow.
const joinedMax = 1 << 53

// batchDepth is how deep batches may be nested. One step may complete a batch and all its parents,
// so that this bounds its work.
const batchDepth = 64

// nestedTooDeep reports whether a new batch would be nested too deep.
func (m *Machine) nestedTooDeep(c *job.NewBatch) bool {
	id := c.Parent
	for range batchDepth - 1 {
		b := m.batchIn(c.Namespace, id)
		if b == nil {
			return false
		}
		id = b.Parent
	}
	return m.batchIn(c.Namespace, id) != nil
}

// keepBatch writes a batch, and sets when it is to be forgotten (INV-15). Each commit and the
// success of the batch move that time. A time before the first moment would be no timer at all, so
// that it is at least 1.
func (m *Machine) keepBatch(b *batch, def *record.BatchDef) {
	at := b.Created.Add(def.OpenFor)
	if b.Committed != 0 {
		at = b.Committed.Add(def.KeepFor)
	}
	if b.Succeeded != 0 {
		at = min(at, b.Succeeded.Add(def.KeepDone))
	}
	if at = max(at, 1); at != b.ForgetAt {
		m.unsetTimerAt(b.timer())
		b.ForgetAt = at
		m.setTimerAt(b.timer())
	}
	m.putBatch(b)
}

// timer is when the batch is forgotten: that of a job of no queue. Zero is none.
func (b *batch) timer() timerItem {
	at := b.ForgetAt
	if at == job.Never {
		at = 0
	}
	return timerItem{at: at, id: job.ID(b.id)}
}

// openBatch makes a batch open again: it reaches no further stage until the next commit. What it
// has reached stays.
func (m *Machine) openBatch(c *job.OpenBatch, res *job.Result) {
	b := m.batchIn(c.Namespace, c.Batch)
	if b == nil {
		res.Err = job.ErrNoBatch
		return
	}
	b.Open = true
	m.putBatch(b)
}

// commitBatch closes a batch, so that it may reach its stages. With Rest it ends an import instead:
// jobs that have not come with it are gone, and count as failed for ever.
func (m *Machine) commitBatch(c *job.CommitBatch, res *job.Result) {
	b := m.batchIn(c.Namespace, c.Batch)
	if b == nil {
		res.Err = job.ErrNoBatch
		return
	}
	b.Open = false
	if r := c.Rest; r != nil {
		b.Open = r.Open
		// An import may have lost jobs on the way; the batch must not wait for them, nor succeed
		// without them.
		if total := min(r.Total, joinedMax); total > b.Total { // the others are gone
			missing := total - b.Total
			b.Total, b.Pending, b.Failed = total, b.Pending+missing, b.Failed+missing
		}
	}
	if c.Rest == nil || b.Committed == 0 && !b.Open {
		b.Committed = m.now
	}
	def := m.batchDef(b.id)
	m.keepBatch(b, &def)
	m.markBatchDue(b.id)
}

// join makes a new job one of the batch that its spec names. Without such a batch the job is pushed
// all the same.
func (m *Machine) join(e *entry, id job.BatchID) {
	if b := m.batchIn(e.Namespace, id); b != nil {
		e.Batch = id
		b.Total++
		b.Pending++
		m.putBatch(b)
	}
}

// countFailedInBatch counts a job of a batch as failed, once: FlagTried remembers that. Whoever
// calls it saves the job, or erases it, because the flag and the counter have to be stored together
// (INV-14).
func (m *Machine) countFailedInBatch(e *entry) {
	if e.Batch == 0 || e.Flags&(callbacks|job.FlagTried) != 0 {
		return
	}
	e.Flags |= job.FlagTried
	if b := m.getBatch(e.Batch); b != nil {
		b.Failed++
		m.putBatch(b)
		m.markBatchDue(b.id)
	}
}

// ackInBatch takes a job that is acked out of its batch. The ack of a callback is the end of a
// stage. The caller saves or removes the job, which does not name its batch any more unless it is a
// callback.
func (m *Machine) ackInBatch(e *entry) {
	m.noteTickEnd(e, job.Succeeded)
	b := m.getBatch(e.Batch)
	switch {
	case e.Flags&callbacks != 0:
		if b != nil {
			m.endStage(b, e.Flags&callbacks)
		}
		return
	case b != nil:
		b.Pending--
		if e.Flags.Has(job.FlagTried) {
			b.Failed--
		}
		m.putBatch(b)
		m.markBatchDue(b.id)
	}
	e.Batch = 0
	e.Flags &^= job.FlagTried
}

// markBatchDue has a batch looked at when the command or the timer has done everything else
// (advanceBatch). Looking at it in between would push callbacks in the middle of an Atomic. Listing
// a batch twice is harmless.
func (m *Machine) markBatchDue(id job.BatchID) {
	if n := len(m.dueBatches); n == 0 || m.dueBatches[n-1] != id {
		m.dueBatches = append(m.dueBatches, id)
	}
}

// advanceBatch lets the batch that has been due longest reach what it can (INV-14). It reaches one
// stage at a time. What follows makes it due again: a stage without a callback at once, another
// when its callback is acked.
func (m *Machine) advanceBatch() {
	id := m.dueBatches[0]
	if m.dueBatches = m.dueBatches[1:]; len(m.dueBatches) == 0 {
		m.dueBatches = nil
	}
	b := m.getBatch(id)
	switch {
	case b == nil:
	case b.canComplete():
		m.reachStage(b, job.FlagOnComplete)
	case b.canSucceed():
		m.reachStage(b, job.FlagOnSuccess)
	}
}

// canComplete reports whether the batch can reach its first stage: it is committed, all its jobs have
// been acked or have failed, and its children are complete.
func (b *batch) canComplete() bool {
	return !b.Open && b.Complete == job.CallbackWaiting && b.Failed == b.Pending && b.Incomplete == 0
}

// canSucceed reports whether the batch can reach its second stage: all of its jobs have been acked,
// and its children have succeeded.
func (b *batch) canSucceed() bool {
	return !b.Open && b.Complete == job.CallbackAcked && b.Success == job.CallbackWaiting &&
		b.Pending == 0 && b.Unsuccessful == 0
}

// reachStage makes a batch reach a stage and pushes its callback. The stage is written before: each is
// reached at most once, and the callback may expire, or be deleted, in the same step. The callback
// is pushed without the checks of a push, because nobody could be told of a refusal.
func (m *Machine) reachStage(b *batch, stage job.Flags) {
	def := m.batchDef(b.id)
	callback := def.Complete
	if stage == job.FlagOnComplete {
		if b.Complete = job.CallbackPushed; !plant.CallbackUnknown.On() {
			m.putBatch(b)
		}
	} else {
		callback = def.Success
		b.Success, b.Succeeded = job.CallbackPushed, m.now
		m.keepBatch(b, &def)
		m.updateParent(b, func(p *batch) { p.Children-- })
	}
	if callback == nil {
		m.endStage(b, stage)
		return
	}
	e := m.prepare(callback)
	e.Batch = b.id
	e.Flags |= stage
	m.storeNewJob(e, callback, nil)
}

// endStage notes that the callback of a stage has been acked, or that there is none. A callback
// that is kept may be acked a second time, which changes nothing.
func (m *Machine) endStage(b *batch, stage job.Flags) {
	switch {
	case stage == job.FlagOnComplete && b.Complete == job.CallbackPushed:
		b.Complete = job.CallbackAcked
		m.updateParent(b, func(p *batch) { p.Incomplete-- })
	case stage == job.FlagOnSuccess && b.Success == job.CallbackPushed:
		b.Success = job.CallbackAcked
		m.updateParent(b, func(p *batch) { p.Unsuccessful-- })
	default:
		return // acked before
	}
	m.putBatch(b)
	m.markBatchDue(b.id)
}

// updateParent changes the parent of a batch, if there is one, and has it looked at. The parent is read
// again, because advancing the child may have changed it.
func (m *Machine) updateParent(b *batch, change func(*batch)) {
	if b.Parent == 0 {
		return
	}
	if p := m.getBatch(b.Parent); p != nil {
		change(p)
		m.putBatch(p)
		m.markBatchDue(p.id)
	}
}

// forgetBatch ends a batch at its time. Its jobs go on naming it, which means nothing. Its parent
// must not wait for it for ever: what it still counted as missing is taken off.
func (m *Machine) forgetBatch(t timerItem) {
	b := m.getBatch(job.BatchID(t.id))
	if b == nil || b.timer() != t {
		return // the timer was moved, or called off
	}
	m.dropBatch(b)
	m.updateParent(b, func(p *batch) { // which does not wait for it any more
		if b.Complete != job.CallbackAcked {
			p.Incomplete--
		}
		if b.Success != job.CallbackAcked {
			p.Unsuccessful--
		}
		if b.Success == job.CallbackWaiting {
			p.Children--
		}
	})
}

// dropBatch removes the records of a batch and its timer.
func (m *Machine) dropBatch(b *batch) {
	m.unsetTimerAt(b.timer())
	m.del(record.BatchKey(nil, b.id, record.BatchState))
	m.store.Remove(record.BatchKey(nil, b.id, record.BatchFixed))
	m.store.Remove(record.BatchesKey(nil, b.Namespace, b.id))
}
