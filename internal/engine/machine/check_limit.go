package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// checkLimits asserts that the slots of a queue are those of its leases, and that nobody waits for a slot or for time
// to pass without being told (INV-18). Limits need a format (INV-20).
func (c *checker) checkLimits(q *queue) error {
	l := q.limit
	if !q.Limits.IsZero() && c.format < formatOf(&q.Limits) || q.Turns && c.format < record.FormatFair ||
		q.Settings.OnePerGroup && c.format < record.FormatOnePerGroup {
		return broken(20, "a queue has limits, is fair or promises, and the store has format %d", c.format)
	}
	if (l == nil) != q.Limits.IsZero() {
		return broken(18, "limits are %+v and there is a limiter: %v", q.Limits, l != nil)
	}
	if l == nil || l.countFrom != nil {
		return nil
	}
	if l.slots == nil {
		if q.Limits.Worker > 0 || q.Limits.SlotFor > 0 {
			return broken(18, "leases have no slots")
		}
		return nil
	}
	// Slots whose time is over are freed when somebody asks, so that memory may still have them.
	c.freeExpiredSlots(q)
	slots, workers := 0, map[job.Holder]uint32{}
	var err error
	c.eachEntry(q, record.ListLeased, func(key []byte) bool {
		e := c.mustLoad(q, record.EntryID(key))
		free := q.Limits.SlotFor > 0 && e.Since.Add(q.Limits.SlotFor) <= c.now
		if s := l.slots[e.ID]; (s == nil) != free {
			err = broken(18, "the slot of job %d is free: %v, and it is in memory: %v", e.ID, free, s != nil)
		}
		if !free {
			slots++
			workers[e.Lease.Holder]++
		}
		return err == nil
	})
	if err == nil && slots != len(l.slots) {
		err = broken(18, "%d slots for %d leases", len(l.slots), slots)
	}
	for worker, n := range workers {
		if err == nil && l.workers[worker] != n {
			err = broken(18, "worker %v has %d slots, memory says %d", worker, n, l.workers[worker])
		}
	}
	return err
}

// allowed reports whether the limits of a queue let a job out to a caller that waits, or nobody
// would tell it when they do: both break an invariant if there is a job.
func (c *checker) allowed(q *queue, w *waiter) bool {
	if q.limit == nil {
		return true
	}
	until, shut := c.isThrottled(q)
	full := q.isWorkerAtLimit(w.holder)
	if !shut && !full {
		return true
	}
	// With both in its way the caller is served when the later of the two allows it.
	if full { // it has to wait for that as well
		until = max(until, q.limit.nextExpiry())
	}
	a := &q.limit.alarm
	return until != job.Never && (a.index < 0 || a.at > until)
}

func (c *checker) isAtLimit(q *queue) bool {
	_, shut := c.isThrottled(q)
	return shut
}
