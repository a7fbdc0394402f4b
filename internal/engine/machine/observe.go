package machine

import (
	"time"

	"millrace/internal/job"
)

// Observer is told how long jobs waited and ran. It changes nothing: a machine without one does the same. It is
// called within a step and must not call the machine.
type Observer interface {
	// Watch returns who is told about the jobs of a queue from now on.
	Watch(namespace, queue string) QueueObserver
}

// QueueObserver is told about the jobs of one queue.
type QueueObserver interface {
	// Fetched tells that a job was leased through a door, and how long it had been ready.
	Fetched(by job.Door, waited time.Duration)
	// Settled tells that a job was acked or failed by a worker, how long that had it, and through which door.
	Settled(by job.Door, ran time.Duration)
	// Gone tells that the queue was removed: nothing follows.
	Gone()
}

// observer returns who is told about the jobs of a queue; nil if nobody is.
func (m *Machine) observer(q *queue) QueueObserver {
	if q.observer == nil && m.opt.Observer != nil {
		q.observer = m.opt.Observer.Watch(q.namespace, q.name)
	}
	return q.observer
}

// noteFetched tells that a job is leased, and since when it was ready.
func (m *Machine) noteFetched(e *entry, readyAt job.Time) {
	if o := m.observer(e.q); o != nil {
		o.Fetched(e.Lease.Door, m.now.Sub(readyAt))
	}
}

// noteSettled tells that a worker settles a job, which has not left its state yet.
func (m *Machine) noteSettled(e *entry) {
	if e.State != job.Leased {
		return
	}
	if o := m.observer(e.q); o != nil {
		o.Settled(e.Lease.Door, m.now.Sub(e.Since))
	}
}

// noteGone tells that a queue is removed.
func (m *Machine) noteGone(q *queue) {
	if q.observer != nil {
		q.observer.Gone()
		q.observer = nil
	}
}
