package sim

import (
	"math/big"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// tokens returns how many jobs the rate of a queue lets out by now, with the fraction of the next one.
func (m *Model) tokens(q *queue) *big.Rat {
	l := &q.limits
	n := big.NewRat(int64(m.now-q.tokensAt), l.Per.Microseconds())
	n.Mul(n, big.NewRat(int64(l.Rate), 1)).Add(n, q.tokens)
	if full := big.NewRat(int64(l.Burst), 1); n.Cmp(full) > 0 {
		return full
	}
	return n
}

func (m *Model) setTokens(q *queue, n *big.Rat) { q.tokens, q.tokensAt = n, m.now }

// spendToken is told that a job of a queue is given out.
func (m *Model) spendToken(q *queue) {
	if q.limits.Rate > 0 {
		m.setTokens(q, new(big.Rat).Sub(m.tokens(q), big.NewRat(1, 1)))
	}
}

// nextToken returns when the rate of a queue lets the next job out; zero if it does already.
func (m *Model) nextToken(q *queue) job.Time {
	one := big.NewRat(1, 1)
	n := m.tokens(q)
	if n.Cmp(one) >= 0 {
		return 0
	}
	us := new(big.Rat).Sub(one, n)
	us.Mul(us, big.NewRat(q.limits.Per.Microseconds(), int64(q.limits.Rate)))
	whole, rest := new(big.Int).QuoRem(us.Num(), us.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return m.now + job.Time(whole.Int64())
}

func (m *Model) applySetLimits(c *job.SetLimits) {
	limits, err := c.Limits.Tidy()
	name := queueName{c.Namespace, c.Queue}
	switch q := m.queues[name]; {
	case err != nil:
		m.refuse(err)
		return
	case !limits.IsZero() && m.Gated && m.format < record.FormatLimits,
		(limits.GroupConcurrency > 0 || limits.GroupRate > 0) && m.Gated && m.format < record.FormatFair:
		m.refuse(job.ErrFormat)
		return
	case !limits.IsZero() || q != nil && !q.limits.IsZero():
		q = m.queue(name)
		q.hidden = false
		m.changeLimits(q, limits)
	}
	m.answer(job.Result{})
}

func (m *Model) changeLimits(q *queue, to job.Limits) {
	old := q.limits
	sameRate := old.Rate == to.Rate && old.Per == to.Per && old.Burst == to.Burst
	var left *big.Rat
	if !sameRate && old.Rate > 0 {
		have := m.tokens(q)
		left = new(big.Rat).SetInt(new(big.Int).Quo(have.Num(), have.Denom()))
	}
	if old.OfGroup() != to.OfGroup() {
		q.used = nil
	}
	if q.limits = to; to != old {
		q.rouse = 0 // whoever waits is served now
	}
	if sameRate || to.Rate == 0 {
		return
	}
	full := big.NewRat(int64(to.Burst), 1)
	if left == nil || left.Cmp(full) > 0 {
		left = full
	}
	m.setTokens(q, left)
}

// slots returns the leased jobs of a queue that use a slot.
func (m *Model) slots(q *queue) (used []*entry) {
	for _, j := range m.list(q.queueName, job.Leased) {
		if q.limits.SlotFor == 0 || j.Since.Add(q.limits.SlotFor) > m.now {
			used = append(used, j)
		}
	}
	return used
}

// limited reports whether the limits of a queue keep its jobs from a worker, and when time alone would change that;
// zero is never.
func (m *Model) limited(q *queue, worker job.Holder) (until job.Time, limited bool) {
	l := &q.limits
	if m.isCounting(q.queueName) {
		return 0, true
	}
	if l.IsZero() {
		return 0, false
	}
	own, free := uint32(0), job.Time(0)
	used := m.slots(q)
	for _, j := range used {
		if j.Lease.Holder == worker {
			own++
		}
		if l.SlotFor > 0 {
			free = job.Earlier(free, j.Since.Add(l.SlotFor))
		}
	}
	full := l.Concurrency > 0 && uint32(len(used)) >= l.Concurrency //nolint:gosec // a handful
	full = full || l.Worker > 0 && own >= l.Worker
	if full && free == 0 {
		return 0, true
	}
	if full {
		until = free
	}
	if l.Rate > 0 {
		until = max(until, m.nextToken(q))
	}
	return until, until != 0
}

// isCounting reports whether the machine has still to count the leases of a queue.
func (m *Model) isCounting(name queueName) bool {
	if m.oracle != nil {
		return m.oracle.Counting(name.ns, name.name)
	}
	return m.counting[name]
}

// setRousers notes when each queue with a caller is served again because time has opened it. A time that has come is
// left: until its turn among the timers nobody is served because of it alone.
func (m *Model) setRousers() {
	for _, q := range m.queues {
		if q.rouse > m.now {
			q.rouse = 0
		}
	}
	for _, w := range m.waits {
		c, ok := w.cmd.(*job.Fetch)
		if !ok {
			continue
		}
		for name := range w.stood {
			q := m.queues[queueName{c.Namespace, name}]
			if q == nil || q.paused || q.rouse != 0 && q.rouse <= m.now {
				continue
			}
			rated := job.Time(0)
			if m.first(q.queueName) == nil {
				if rated = m.groupRouse(q); rated == 0 {
					continue
				}
			}
			if until, limited := m.limited(q, c.Holder); limited {
				q.rouse = job.Earlier(q.rouse, until)
			} else {
				q.rouse = job.Earlier(q.rouse, rated)
			}
		}
	}
}

// roused is a fetch without the queues that time has opened, but whose turn among the timers has not come.
func (m *Model) roused(c *job.Fetch) *job.Fetch {
	c.Queues = slices.DeleteFunc(c.Queues, func(name string) bool {
		q := m.queues[queueName{c.Namespace, name}]
		return q != nil && q.rouse != 0 && q.rouse <= m.now
	})
	return c
}

// Rules returns the limits and the fairness of a queue.
func (m *Model) Rules(namespace, name string) (job.Limits, job.Fairness) {
	if q := m.queues[queueName{namespace, name}]; q != nil {
		return q.limits, q.fair
	}
	return job.Limits{}, job.Fairness{}
}

// Now is the time of the last step.
func (m *Model) Now() job.Time { return m.now }
