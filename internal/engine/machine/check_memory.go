package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// checkMemory asserts that memory keeps nothing of which nobody would let go (INV-12): what is left behind does no harm
// at first, and fills the memory of a server that runs for months.
func (c *checker) checkMemory() error {
	for id, h := range c.holders {
		n := 0
		for l := h.inOrder.first; l != nil && n <= len(h.leases); l = l.next {
			if h.leases[l.ref.ID] != l {
				return broken(12, "holder %v remembers a lease of job %d that is over", id, l.ref.ID)
			}
			if c.byID[l.ref.Queue] == nil && !c.swept(l.ref.Queue) {
				return broken(12, "holder %v remembers job %d of a queue that was removed", id, l.ref.ID)
			}
			n++
		}
		if n != len(h.leases) {
			return broken(12, "holder %v knows %d leases, and remembers the order of %d", id, len(h.leases), n)
		}
		if n == 0 && len(h.waits) == 0 && !h.grace && h.kept == nil {
			return broken(12, "holder %v has nothing, waits for nothing and is remembered", id)
		}
	}
	for id, e := range c.jobs {
		if e.State == job.Ready && !e.q.shows(e) {
			return broken(12, "ready job %d is in memory and in no window", id)
		}
	}
	for _, a := range c.alarms {
		if !c.owned(a) {
			return broken(12, "an alarm is set for %d, and whoever it was for has none or another", a.at)
		}
	}
	return nil
}

// owned reports whether an alarm is that of its owner, who can take it back.
func (c *checker) owned(a *alarm) bool {
	switch {
	case a.waiter != nil:
		return c.waiting[a.waiter.token] == a.waiter
	case a.holder != nil:
		return a.holder.grace
	case a.queue != nil:
		return a.queue.alarm == a
	default:
		return a.limited.limit != nil && &a.limited.limit.alarm == a
	}
}

// shows reports whether a ready job is in one of the windows of its queue.
func (q *queue) shows(e *entry) bool {
	if e.Group == "" {
		return q.ungrouped.has(e)
	}
	g := q.groups[e.Group]
	return g != nil && (g.ready.has(e) || g.listed == e) || q.isShown(e)
}

// checkKept asserts that the holders that are kept are those that are stored (INV-22). They need a format (INV-20).
func (c *checker) checkKept() (err error) {
	if c.keptHolders > 0 && c.format < record.FormatKept {
		return broken(20, "holders are kept, and the store has format %d", c.format)
	}
	stored, here := 0, 0
	lo, hi := record.AllHolders()
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		k, derr := record.DecodeHolder(key, value)
		corrupt("holder", derr)
		stored++
		if h := c.holders[k.Holder]; h == nil || h.kept == nil || *h.kept != k {
			err = broken(22, "holder %v is stored as %q with grace %v, and memory differs", k.Holder, k.Name, k.Grace)
		}
		return err == nil
	})
	for _, h := range c.holders {
		if h.kept != nil {
			here++
		}
	}
	if err == nil && (stored != here || here != c.keptHolders) {
		err = broken(22, "%d holders are kept and %d counted, and %d are stored", here, c.keptHolders, stored)
	}
	return err
}
