package machine

import (
	"bytes"

	"millrace/internal/job"
	"millrace/internal/record"
)

// The rates of groups are kept with the groups, in the store. A group that has used some of its rate is listed under
// the time at which that is to be looked at again: when there is a whole job for it, and when its bucket is full, so
// that nothing has to be remembered of it any longer.

// hasToken reports whether the rate of a group lets a job out.
func (m *Machine) hasToken(q *queue, g *group) bool {
	l := q.Limits.OfGroup()
	return l.Jobs(l.Fill(g.Bucket, m.now)) > 0
}

// takeToken takes one job off the rate of a group. A group that has used nothing so far has a full
// bucket.
func (m *Machine) takeToken(q *queue, name string, g *group) {
	l := q.Limits.OfGroup()
	b := l.Full(m.now)
	if g.RecheckAt != 0 {
		b = l.Fill(g.Bucket, m.now)
	}
	m.unsetRecheck(q, name, g)
	m.setRecheck(q, name, g, l.Take(b))
}

// setRecheck keeps what is left of the rate of a group, and lists when to look at it again.
func (m *Machine) setRecheck(q *queue, name string, g *group, b job.Bucket) {
	l := q.Limits.OfGroup()
	g.Bucket, g.RecheckAt = b, l.FullAt(b)
	// Earlier than full: the group is held until there is a whole job.
	if l.Jobs(b) == 0 {
		g.RecheckAt = l.NextJob(b)
	}
	m.keyBuf = record.RecheckKey(m.keyBuf[:0], q.ID, g.RecheckAt, name)
	m.store.Insert(m.keyBuf, nil)
	q.limit.nextRecheck = min(q.limit.nextRecheck, g.RecheckAt)
	m.wake(q) // whoever waits has to be told then
}

// unsetRecheck forgets the rate of a group, which then counts as full.
func (m *Machine) unsetRecheck(q *queue, name string, g *group) {
	if g.RecheckAt != 0 {
		m.keyBuf = record.RecheckKey(m.keyBuf[:0], q.ID, g.RecheckAt, name)
		m.store.Remove(m.keyBuf)
		g.RecheckAt, g.Bucket = 0, job.Bucket{}
	}
}

// recheckRates shows the groups whose rates let a job out by now. It comes before a job is looked
// for in the queue. Short says that they are too many for this step.
func (m *Machine) recheckRates(q *queue) (short bool) {
	for l, n := q.limit, m.opt.lookMax(); l.nextRecheck <= m.now; n-- {
		at, name, ok := m.firstRecheck(q)
		if !ok {
			l.nextRecheck = job.Never
			return false
		}
		if l.nextRecheck = at; at > m.now {
			return false
		}
		if n == 0 {
			return true
		}
		g := m.getGroup(q, name)
		b := g.Bucket
		m.unsetRecheck(q, name, g)
		limits := q.Limits.OfGroup()
		if b = limits.Fill(b, m.now); limits.FullAt(b) > m.now {
			m.setRecheck(q, name, g, b)
		}
		m.showFirst(q, name, g)
	}
	return false
}

// firstRecheck returns the group whose rate is to be looked at first, and when.
func (m *Machine) firstRecheck(q *queue) (at job.Time, name string, ok bool) {
	lo, hi := record.ListStart(nil, q.ID, record.ListRecheck), record.ListEnd(nil, q.ID, record.ListRecheck)
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		if at, name, ok = record.ParseRecheckKey(key); !ok {
			corrupt("list of rates", record.ErrFormat)
		}
		return false
	})
	return at, name, ok
}

// regroup has all groups that have a record shown or hidden again, because what allows them another
// job has changed. That is done in pieces, between which commands are applied; until it is over the
// queue gives out nothing, because some of its groups are shown by the old rule and some by the new
// one. That it is under way is stored: a crash would leave it half done.
func (m *Machine) regroup(q *queue, how record.Regroup) {
	q.rewriteOnly = false
	m.startGroupPass(q, how)
}

// rewriteGroups has the records of all groups written again, because a purge has taken their turns. No
// group is shown or hidden by that, so that the queue gives out jobs meanwhile, unless it is being
// regrouped. After a restart nobody knows which of the two it was, and it gives out nothing.
func (m *Machine) rewriteGroups(q *queue) {
	q.rewriteOnly = !q.isRegrouping()
	m.startGroupPass(q, record.RegroupShow)
}

// isRegrouping reports whether some groups are still shown by an earlier rule.
func (q *queue) isRegrouping() bool { return q.regroupFrom != nil && !q.rewriteOnly }

// startGroupPass begins to go over all groups that have a record.
func (m *Machine) startGroupPass(q *queue, how record.Regroup) {
	q.Regroup = max(q.Regroup, how)
	m.markDirty(q)
	m.beginRegroup(q)
	m.countSome()
}

// beginRegroup sets a queue to its first group. Going over a group twice is harmless.
func (m *Machine) beginRegroup(q *queue) {
	q.regroupFrom = record.GroupKey(nil, q.ID, "")
	m.counting.add(q)
}

// regroupSome goes on with up to n groups. It returns how many they were. When all are done those
// who wait are served.
func (m *Machine) regroupSome(q *queue, n int) int {
	var names []string
	m.store.Scan(q.regroupFrom, record.GroupKey(nil, q.ID+1, ""), false, func(key, _ []byte) bool {
		names = append(names, record.ParseGroupKey(bytes.Clone(key)))
		return len(names) < n
	})
	for _, name := range names {
		g := m.getGroup(q, name)
		if q.Regroup == record.RegroupRefill {
			m.unsetRecheck(q, name, g)
		}
		m.showFirst(q, name, g)
		q.regroupFrom = append(record.GroupKey(q.regroupFrom[:0], q.ID, name), 0)
	}
	if len(names) == n {
		return n
	}
	q.regroupFrom, q.Regroup = nil, 0
	m.markDirty(q)
	m.wake(q)
	return len(names)
}
