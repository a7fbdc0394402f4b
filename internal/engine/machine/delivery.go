package machine

import (
	"millrace/internal/job"
)

// pendingDelivery is what waits for a delivery to be handed over: timers that would have ended its leases.
type pendingDelivery struct {
	due    []timerItem // timers of its leases whose time has come meanwhile
	leases []job.ID    // its leases that are not in memory
}

// track notes that a job which was just leased is on its way. A lease in memory carries its
// delivery. For one that is not, the owner is asked at once (pendingDeliveryOf), so that it need not be
// remembered for the whole lease.
func (m *Machine) track(e *entry, d *job.Delivery) {
	switch {
	case d == nil:
	case e.leased:
		e.delivery = d
	default:
		m.deliveryOfLease[e.ID] = d
		a := m.pendingDeliveryOf(d)
		a.leases = append(a.leases, e.ID)
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
	delete(m.deliveryOfLease, e.ID)
	if e.Timer != 0 && e.Timer <= m.now {
		m.timers.push(timerItem{e.Timer, e.q.ID, e.ID})
	}
}

// deliveryOf returns the delivery of a leased job; nil if it has none, or it has been handed over
// and nobody remembers.
func (m *Machine) deliveryOf(e *entry) *job.Delivery {
	if e.delivery == nil && len(m.deliveryOfLease) > 0 {
		return m.deliveryOfLease[e.ID]
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
	a := m.pendingDeliveryOf(d)
	a.due = append(a.due, t)
	return true
}

// pendingDeliveryOf returns what waits for a delivery. If nothing did so far, Late asks for it.
func (m *Machine) pendingDeliveryOf(d *job.Delivery) *pendingDelivery {
	a := m.deliveries[d]
	if a == nil {
		a = new(pendingDelivery)
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
	for _, id := range a.leases {
		if m.deliveryOfLease[id] == d {
			delete(m.deliveryOfLease, id)
		}
	}
	for _, t := range a.due {
		m.timers.push(t)
	}
}

// Due reports whether timers of jobs are due.
func (m *Machine) Due(now job.Time) bool {
	return len(m.timers) > 0 && m.timers[0].at <= now || m.earliestBeyond <= now
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
	for id, d := range c.deliveryOfLease {
		if c.deliveries[d] == nil {
			return broken(16, "the delivery of job %d is not asked for", id)
		}
	}
	return nil
}
