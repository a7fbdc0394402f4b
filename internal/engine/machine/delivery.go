package machine

import (
	"millrace/internal/job"
)

// awaited is what waits for a delivery to be handed over: timers that would have ended its leases.
type awaited struct {
	due  []timerItem // timers of its leases whose time has come meanwhile
	away []job.ID    // its leases that are not in memory
}

// track notes that a job which was just leased is on its way. A lease in memory carries its
// delivery. For one that is not, the owner is asked at once (awaitedOf), so that it need not be
// remembered for the whole lease.
func (m *Machine) track(e *entry, d *job.Delivery) {
	switch {
	case d == nil:
	case e.leased:
		e.delivery = d
	default:
		m.away[e.ID] = d
		a := m.awaitedOf(d)
		a.away = append(a.away, e.ID)
	}
}

// untrack forgets the delivery of a lease that ends. A timer that was put off may be one of the
// job's next state, too, if that has the same time: it is due again, and fireTimer finds out
// whether it still counts.
func (m *Machine) untrack(e *entry) {
	if m.deliveryOf(e) == nil {
		return
	}
	e.delivery = nil
	delete(m.away, e.ID)
	if e.Timer != 0 && e.Timer <= m.now {
		m.timers.push(timerItem{e.Timer, e.q.ID, e.ID})
	}
}

// deliveryOf returns the delivery of a leased job; nil if it has none, or it has been handed over
// and nobody remembers.
func (m *Machine) deliveryOf(e *entry) *job.Delivery {
	if e.delivery == nil && len(m.away) > 0 {
		return m.away[e.ID]
	}
	return e.delivery
}

// postpone puts off the timer of a job that may be on its way to its worker (INV-16), and reports
// whether it did. The owner of the machine is asked by Late, and tells by Sent. A lease from before
// the last Sent is known to have been handed over.
func (m *Machine) postpone(e *entry, t timerItem) bool {
	d := m.deliveryOf(e)
	if d == nil || e.Entered < d.Told {
		return false
	}
	a := m.awaitedOf(d)
	a.due = append(a.due, t)
	return true
}

// awaitedOf returns what waits for a delivery. If nothing did so far, Late asks for it.
func (m *Machine) awaitedOf(d *job.Delivery) *awaited {
	a := m.deliveries[d]
	if a == nil {
		a = new(awaited)
		m.deliveries[d] = a
		m.late = append(m.late, d)
	}
	return a
}

// Late returns the deliveries for which something waits, since the last call. Sent must follow for each of them once it
// is known that it has been handed over. The slice is valid until the next step.
func (m *Machine) Late() []*job.Delivery {
	late := m.late
	m.late = m.late[:0]
	return late
}

// Sent tells that a delivery has been handed over. The timers that have waited for it are due with
// the next step. Told covers all leases taken with the delivery so far, and none that follow: the
// same delivery may serve the next fetch of its connection.
func (m *Machine) Sent(now job.Time, d *job.Delivery) {
	m.begin(now, 0)
	d.Told = m.shard.NextSeq
	a := m.deliveries[d]
	if a == nil {
		return
	}
	delete(m.deliveries, d)
	for _, id := range a.away {
		if m.away[id] == d {
			delete(m.away, id)
		}
	}
	for _, t := range a.due {
		m.timers.push(t)
	}
}

// Due reports whether timers of jobs are due.
func (m *Machine) Due(now job.Time) bool {
	return len(m.timers) > 0 && m.timers[0].at <= now || m.beyond <= now
}

// Fire applies a bounded number of timers that are due, as every command does first. The engine
// calls it before a command if timers are due, so that it can answer what Late asks before the
// command is applied.
func (m *Machine) Fire(now job.Time, rnd uint64) {
	m.begin(now, rnd)
	m.fire(m.opt.TimersPerCommand)
}

// checkDeliveries asserts that what waits for a delivery is asked for (INV-16).
func (c *checker) checkDeliveries() error {
	for id, d := range c.away {
		if c.deliveries[d] == nil {
			return broken(16, "the delivery of job %d is not asked for", id)
		}
	}
	return nil
}
