package machine

import "millrace/internal/job"

// checkMemory asserts that memory keeps nothing of which nobody would let go (INV-12): what is left behind does no harm
// at first, and fills the memory of a server that runs for months.
func (c *checker) checkMemory() error {
	for id, h := range c.holders {
		n := 0
		for l := h.held.first; l != nil && n <= len(h.jobs); l = l.next {
			if h.jobs[l.ref.ID] != l {
				return broken(12, "holder %v remembers a lease of job %d that is over", id, l.ref.ID)
			}
			if c.byID[l.ref.Queue] == nil && !c.swept(l.ref.Queue) {
				return broken(12, "holder %v remembers job %d of a queue that was removed", id, l.ref.ID)
			}
			n++
		}
		if n != len(h.jobs) {
			return broken(12, "holder %v knows %d leases, and remembers the order of %d", id, len(h.jobs), n)
		}
		if n == 0 && len(h.waits) == 0 && !h.grace {
			return broken(12, "holder %v has nothing, waits for nothing and is remembered", id)
		}
	}
	for id, e := range c.jobs {
		if e.State == job.Ready && !e.q.shows(e) {
			return broken(12, "ready job %d is in memory and in no window", id)
		}
	}
	return nil
}

// shows reports whether a ready job is in one of the windows of its queue.
func (q *queue) shows(e *entry) bool {
	if e.Group == "" {
		return q.plain.has(e)
	}
	g := q.groups[e.Group]
	return g != nil && (g.ready.has(e) || g.listed == e) || q.isShown(e)
}
