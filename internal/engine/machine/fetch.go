package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

func (m *Machine) fetch(token uint64, c *job.Fetch, res *job.Result) (answered bool, needs uint64) {
	for n := max(c.Max, 1); len(res.Jobs) < n; {
		e := m.pick(c)
		if e == nil {
			break
		}
		m.leave(e)
		needs = max(needs, m.lease(e, c, res))
		m.serveWakes()
	}
	if len(res.Jobs) > 0 {
		return true, needs
	}
	if c.Wait <= 0 {
		res.Err = job.ErrTimeout
		return true, m.step
	}
	w := &waiter{token: token, holder: c.Holder, fetch: c}
	w.nodes = make([]waitNode, 0, len(c.Queues))
	m.mark++
	for _, name := range c.Queues {
		if q := m.named(c.Namespace, name); !m.met(q) {
			w.nodes = append(w.nodes, waitNode{w: w, q: q, in: &q.waiters})
		}
	}
	for i := range w.nodes {
		w.nodes[i].in.push(&w.nodes[i])
	}
	m.enqueue(w, m.deadline(c.Wait))
	return false, 0
}

// pick returns the job that a fetch gets next, or nil.
func (m *Machine) pick(c *job.Fetch) *entry {
	switch c.Pick {
	case job.PickInOrder:
		for _, name := range c.Queues {
			if q := m.find(c.Namespace, name); q != nil {
				if e := m.head(q); e != nil {
					return e
				}
			}
		}
	case job.PickRandom:
		heads := m.heads(c)
		if len(heads) > 0 {
			return heads[m.draw()%uint64(len(heads))]
		}
	case job.PickBest:
		var best *entry
		for _, e := range m.heads(c) {
			if best == nil || e.Policy.Priority > best.Policy.Priority ||
				(e.Policy.Priority == best.Policy.Priority && e.ID < best.ID) {
				best = e
			}
		}
		return best
	}
	return nil
}

// heads returns the first fetchable job of each queue that has one, each queue once.
func (m *Machine) heads(c *job.Fetch) []*entry {
	es := m.found[:0]
	m.mark++
	for _, name := range c.Queues {
		q := m.find(c.Namespace, name)
		if q == nil || m.met(q) {
			continue
		}
		if e := m.head(q); e != nil {
			es = append(es, e)
		}
	}
	m.found = es
	return es
}

// lease gives a ready job that has left its list to a caller and adds it to the
// answer. It returns the step that must be durable before the caller may have it:
// that of the push, not of the lease unless it is to be firm. A lease that is lost in
// a crash only means that the job is delivered again.
func (m *Machine) lease(e *entry, c *job.Fetch, res *job.Result) (needs uint64) {
	q := e.q
	e.Attempts++
	length := e.Policy.Lease
	switch {
	case c.LeaseSet:
		length = c.Lease
	case length == 0:
		length = c.DefaultLease
	}
	e.Lease = job.Lease{Holder: c.Holder, Length: length, Exclusive: c.Exclusive, OnEnd: c.OnEnd, Door: c.Door}
	if length > 0 || c.LeaseSet {
		e.Lease.Until = m.now.Add(length)
	}
	readyAt := e.Since
	m.become(e, job.Leased)
	m.setList(q, record.ListLeased, &e.Job)
	m.occupy(e)
	m.hold(e)
	if e.Lock != "" && e.LockUntil == job.LockUntilFetch {
		m.unlock(e)
	}
	m.save(e)
	m.answer(e, res)
	m.countFetched(e, readyAt)
	res.Jobs[len(res.Jobs)-1].ReadyAt = readyAt
	m.dropBody(e)
	if m.leasedHere < m.opt.Resident {
		m.stay(e)
		e.leased = true
		m.leasedHere++
	}
	if c.Firm {
		return m.step
	}
	return e.born
}
