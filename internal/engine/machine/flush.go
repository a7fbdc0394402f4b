package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// A flush removes the batches of a namespace and then its queues, a few in each step,
// however many there are. What it means is fixed when it begins: batches and queues with
// lower numbers than the next ones then. It is stored how far it has got, so that it goes
// on after a crash. Its caller has it go on (Continue), or else the clock, and is answered
// when all is done.
//
// In between a queue that is still to be removed is used as before, except by what adds a
// job to it: that removes it first, so that only jobs from before the flush are lost.

// flush is the flush that is under way.
type flush struct {
	record.Flush
	caller *waiter // nil after a restart
	queues int     // removed so far
	kept   []*queue
}

// startFlush begins a flush, or has it wait for the one that is under way. A small one is done at
// once.
func (m *Machine) startFlush(token uint64, c *job.Flush, res *job.Result) (answered bool) {
	w := &waiter{token: token, flush: c}
	if m.flush == nil {
		m.beginFlush(c)
		if m.flushSome() {
			res.Count = m.flush.queues
			m.endFlush()
			return true
		}
		m.flush.caller = w
	} else {
		// One flush at a time: each means what there is when it begins.
		m.flushes.add(w) // begins when that one has ended
	}
	m.enqueue(w, job.Never)
	m.walking = true
	return false
}

// beginFlush fixes what a flush means: everything with numbers below the next ones. Locks and
// outcomes go at once. Batches that are still to be removed count as gone from now on
// (flushedBatch), so that no callback comes of the flush.
func (m *Machine) beginFlush(c *job.Flush) {
	m.dropSpan(record.LocksSpan(c.Namespace))
	m.dropSpan(record.OutcomesSpan(c.Namespace))
	m.flush = &flush{Flush: record.Flush{
		Namespace: c.Namespace, Door: c.Door, Batches: job.BatchID(m.shard.NextID), Queues: m.shard.NextQueue,
	}}
}

// continueFlush goes on with the flush that is under way, by one bounded step. Its caller may have
// given up meanwhile: the flush goes on all the same.
func (m *Machine) continueFlush() {
	if m.flush == nil {
		return
	}
	m.beginTransition()
	if m.flushSome() {
		if w := m.flush.caller; w != nil && m.waiting[w.token] == w {
			m.complete(w, job.Result{Count: m.flush.queues}, m.step)
		}
		m.endFlush()
		m.nextFlush()
	}
	m.endTransition()
}

// nextFlush begins the next flush whose caller still waits. One that was given up before it began
// never happens.
func (m *Machine) nextFlush() {
	for m.flush == nil && !m.flushes.empty() {
		if w := m.flushes.take(); m.waiting[w.token] == w {
			m.beginFlush(w.flush)
			m.flush.caller = w
			m.putFlush()
		}
	}
}

// putFlush stores how far the flush has got, in the batch that has what it did so far.
func (m *Machine) putFlush() {
	m.valueBuf = record.AppendFlush(m.valueBuf[:0], &m.flush.Flush)
	m.set(record.FlushKey(), m.valueBuf)
}

// endFlush forgets the flush that is done.
func (m *Machine) endFlush() {
	m.del(record.FlushKey())
	m.dropSpan(record.FlushKeptSpan())
	for _, q := range m.flush.kept {
		q.kept = false
	}
	m.flush = nil
}

// flushSome removes some batches, or else some queues, and reports whether that was all. The two
// share one bound of work.
func (m *Machine) flushSome() (done bool) {
	n := m.flushBatches(m.opt.StepWork)
	if n > 0 {
		done = m.flushQueues(n)
	}
	if !done {
		m.putFlush()
	}
	return done
}

// flushBatches removes up to n batches and returns how many fewer they were, which is the work that
// is left for queues. Jobs of these batches go on naming them, which means nothing.
func (m *Machine) flushBatches(n int) int {
	f := m.flush
	if f.NextBatch == f.Batches {
		return n
	}
	var ids []job.BatchID
	_, hi := record.BatchesSpan(f.Namespace)
	m.store.Scan(record.BatchesKey(nil, f.Namespace, f.NextBatch), hi, false, func(key, _ []byte) bool {
		id := job.BatchID(record.EntryID(key))
		if id < f.Batches {
			ids = append(ids, id)
		}
		return id < f.Batches && len(ids) < n
	})
	for _, id := range ids {
		b := m.readBatch(id)
		if b == nil {
			corrupt("list of batches", errDangling)
		}
		m.dropBatch(b)
	}
	// All are done, unless there were as many as were asked for.
	f.NextBatch = f.Batches
	if len(ids) == n {
		f.NextBatch = ids[n-1] + 1
	}
	return n - len(ids)
}

// queueWork is how many units of work the removal of a queue is: every kind of its records is looked for.
const queueWork = 16

// flushQueues removes queues for up to n units of work, and reports whether that was all. Numbers
// of queues that are gone, or of another namespace, are passed over, lookMax of them at most.
func (m *Machine) flushQueues(n int) (done bool) {
	n = 1 + (n-1)/queueWork
	f := m.flush
	var doomed []*queue
	looks := m.opt.lookMax()
	for ; f.NextQueue < f.Queues && len(doomed) < n && looks > 0; f.NextQueue++ {
		looks--
		if q := m.byID[f.NextQueue]; q != nil && m.isFlushed(q) {
			doomed = append(doomed, q)
		}
	}
	// One pass over memory for all of them, before any is dropped.
	m.forgetLeases(doomed...)
	for _, q := range doomed {
		m.dropQueue(q, false)
		f.queues++
	}
	return f.NextQueue >= f.Queues
}

// isFlushed reports whether the flush is to remove a queue.
func (m *Machine) isFlushed(q *queue) bool {
	f := m.flush
	return q.namespace == f.Namespace && !q.kept && (f.Door == 0 || q.Doors.Has(f.Door))
}

// flushBefore deals with a queue that is about to take a job or settings, and that the flush has
// still to come to: it is removed now, or never. One that the flush would have spared, because it
// has no jobs of the door, is marked as kept in the store as well: the job that is added may come
// through that door.
func (m *Machine) flushBefore(q *queue) {
	f := m.flush
	switch {
	case q.ID < f.NextQueue || q.ID >= f.Queues || q.namespace != f.Namespace || q.kept:
	case m.isFlushed(q):
		m.forgetLeases(q)
		m.dropQueue(q, false)
		f.queues++
	default:
		q.kept = true
		f.kept = append(f.kept, q)
		m.set(record.FlushKeptKey(nil, q.ID), nil)
	}
}

// flushFor calls flushBefore before a push is checked, so that nothing which the flush removes
// stands against the push or is answered in its place.
func (m *Machine) flushFor(s *job.Spec) {
	if m.flush == nil {
		return
	}
	if q := m.findQueue(s.Namespace, s.Queue); q != nil {
		m.flushBefore(q)
	}
}

// flushedBatch reports whether the flush is to remove a batch. For everybody else it is gone
// already.
func (m *Machine) flushedBatch(b *batch) bool {
	return m.flush != nil && b.id < m.flush.Batches && b.Namespace == m.flush.Namespace
}

// loadFlush takes up a flush that a crash or a shutdown has interrupted. Nobody waits for it any
// more.
func (m *Machine) loadFlush() {
	b, _, ok := m.store.Get(nil, record.FlushKey())
	if !ok {
		return
	}
	rec, err := record.DecodeFlush(b)
	corrupt("flush", err)
	m.flush = &flush{Flush: rec}
	lo, hi := record.FlushKeptSpan()
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		id, ok := record.ParseFlushKeptKey(key)
		if !ok {
			corrupt("queue that a flush spares", record.ErrFormat)
		}
		if q := m.byID[id]; q != nil {
			q.kept = true
			m.flush.kept = append(m.flush.kept, q)
		}
		return true
	})
}
