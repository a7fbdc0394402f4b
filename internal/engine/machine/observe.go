package machine

import (
	"time"

	"millrace/internal/job"
)

// Observer is told what happens to jobs, for whoever counts. It changes nothing: a machine without one does the
// same. It is called within a step and must not call the machine.
type Observer interface {
	// Watch returns who is told about the jobs of a queue from now on.
	Watch(namespace, queue string) QueueObserver
}

// TypeID is the number that an observer gives to the type of a job. Zero is one that it was not told.
type TypeID uint16

// QueueObserver is told about the jobs of one queue.
type QueueObserver interface {
	// Pushed tells that a job was accepted through a door.
	Pushed(by job.Door)
	// Fetched tells that a job of a type was leased through a door, and how long it had been ready.
	Fetched(by job.Door, typ string, waited time.Duration) TypeID
	// Settled tells that a job was acked or failed by a worker, how long that had it, and through which door. The
	// kind is what Fetched returned, or zero if that is not known any more.
	Settled(by job.Door, kind TypeID, ran time.Duration, failed bool)
	// Counted tells that one of the other lifetime counters has grown: by the command that is being applied, or
	// else by a timer.
	Counted(c job.Counter, n uint64, asked bool)
	// Gone tells that the queue was removed: nothing follows.
	Gone()
}

// observerOf returns who is told about the jobs of a queue; nil if nobody is. It is asked for once
// for each queue.
func (m *Machine) observerOf(q *queue) QueueObserver {
	if q.observer == nil && m.opt.Observer != nil {
		q.observer = m.opt.Observer.Watch(q.namespace, q.name)
	}
	return q.observer
}

// count adds one to a lifetime counter of a queue.
func (m *Machine) count(q *queue, c job.Counter) { m.countAll(q, c, 1) }

// countAll adds several at once.
func (m *Machine) countAll(q *queue, c job.Counter, n uint64) {
	m.addTotal(q, c, n)
	if o := m.observerOf(q); o != nil {
		o.Counted(c, n, m.byCaller)
	}
}

// countPushed counts a job that was accepted, perhaps long after the command that pushes it has come.
func (m *Machine) countPushed(q *queue, by job.Door) {
	m.addTotal(q, job.CountPushed, 1)
	if o := m.observerOf(q); o != nil {
		o.Pushed(by)
	}
}

// countDeleted counts jobs that are removed from a state on request.
func (m *Machine) countDeleted(q *queue, s job.State, n uint64) {
	if n == 0 {
		return
	}
	m.countAll(q, job.CountDeleted, n)
	if !s.Finished() && s != job.Dead {
		m.countAll(q, job.CountCancelled, n)
	}
}

// countFetched counts a job that is leased, and tells since when it was ready. Its type is there.
func (m *Machine) countFetched(e *entry, readyAt job.Time) {
	m.addTotal(e.q, job.CountFetched, 1)
	m.traceFetched(e, readyAt)
	if o := m.observerOf(e.q); o != nil {
		e.typeID = o.Fetched(e.Lease.Door, e.Type, m.now.Sub(readyAt))
	}
}

// noteSettled tells that a worker settles a job. It comes before the job leaves its state, because
// the lease says since when it ran and through which door.
func (m *Machine) noteSettled(e *entry, failed bool) {
	if e.State != job.Leased {
		return
	}
	how := job.CountAcked
	if failed {
		how = job.CountFailed
	}
	m.traceEnded(e, how)
	if o := m.observerOf(e.q); o != nil {
		o.Settled(e.Lease.Door, e.typeID, m.now.Sub(e.Since), failed)
	}
}

// noteGone tells that a queue is removed.
func (m *Machine) noteGone(q *queue) {
	if q.observer != nil {
		q.observer.Gone()
		q.observer = nil
	}
}
