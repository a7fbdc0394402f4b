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
	if g.Look != 0 {
		b = l.Fill(g.Bucket, m.now)
	}
	m.unsetLook(q, name, g)
	m.setLook(q, name, g, l.Take(b))
}

// setLook keeps what is left of the rate of a group, and lists when to look at it again.
func (m *Machine) setLook(q *queue, name string, g *group, b job.Bucket) {
	l := q.Limits.OfGroup()
	g.Bucket, g.Look = b, l.FullAt(b)
	// Earlier than full: the group is held until there is a whole job.
	if l.Jobs(b) == 0 {
		g.Look = l.NextJob(b)
	}
	m.kb = record.LookKey(m.kb[:0], q.ID, g.Look, name)
	m.store.Insert(m.kb, nil)
	q.limit.look = min(q.limit.look, g.Look)
	m.wake(q) // whoever waits has to be told then
}

// unsetLook forgets the rate of a group, which then counts as full.
func (m *Machine) unsetLook(q *queue, name string, g *group) {
	if g.Look != 0 {
		m.kb = record.LookKey(m.kb[:0], q.ID, g.Look, name)
		m.store.Remove(m.kb)
		g.Look, g.Bucket = 0, job.Bucket{}
	}
}

// lookAtRates shows the groups whose rates let a job out by now. It comes before a job is looked
// for in the queue. Short says that they are too many for this step.
func (m *Machine) lookAtRates(q *queue) (short bool) {
	for l, n := q.limit, m.opt.lookMax(); l.look <= m.now; n-- {
		at, name, ok := m.firstLook(q)
		if !ok {
			l.look = job.Never
			return false
		}
		if l.look = at; at > m.now {
			return false
		}
		if n == 0 {
			return true
		}
		g := m.group(q, name)
		b := g.Bucket
		m.unsetLook(q, name, g)
		limits := q.Limits.OfGroup()
		if b = limits.Fill(b, m.now); limits.FullAt(b) > m.now {
			m.setLook(q, name, g, b)
		}
		m.showFirst(q, name, g)
	}
	return false
}

// firstLook returns the group whose rate is to be looked at first, and when.
func (m *Machine) firstLook(q *queue) (at job.Time, name string, ok bool) {
	lo, hi := record.ListStart(nil, q.ID, record.ListLook), record.ListEnd(nil, q.ID, record.ListLook)
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		if at, name, ok = record.ParseLookKey(key); !ok {
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
	q.tidying = false
	m.goOver(q, how)
}

// tidyGroups has the records of all groups written again, because a purge has taken their turns. No
// group is shown or hidden by that, so that the queue gives out jobs meanwhile, unless it is being
// regrouped. After a restart nobody knows which of the two it was, and it gives out nothing.
func (m *Machine) tidyGroups(q *queue) {
	q.tidying = !q.regrouping()
	m.goOver(q, record.RegroupShow)
}

// regrouping reports whether some groups are shown by a rule that is none any more.
func (q *queue) regrouping() bool { return q.regroup != nil && !q.tidying }

// goOver begins to go over all groups that have a record.
func (m *Machine) goOver(q *queue, how record.Regroup) {
	q.Regroup = max(q.Regroup, how)
	m.changed(q)
	m.beginRegroup(q)
	m.countSome()
}

// beginRegroup sets a queue to its first group. Going over a group twice is harmless.
func (m *Machine) beginRegroup(q *queue) {
	q.regroup = record.GroupKey(nil, q.ID, "")
	m.counting.add(q)
}

// regroupSome goes on with up to n groups. It returns how many they were. When all are done those
// who wait are served.
func (m *Machine) regroupSome(q *queue, n int) int {
	var names []string
	m.store.Scan(q.regroup, record.GroupKey(nil, q.ID+1, ""), false, func(key, _ []byte) bool {
		names = append(names, record.ParseGroupKey(bytes.Clone(key)))
		return len(names) < n
	})
	for _, name := range names {
		g := m.group(q, name)
		if q.Regroup == record.RegroupRefill {
			m.unsetLook(q, name, g)
		}
		m.showFirst(q, name, g)
		q.regroup = append(record.GroupKey(q.regroup[:0], q.ID, name), 0)
	}
	if len(names) == n {
		return n
	}
	q.regroup, q.Regroup = nil, 0
	m.changed(q)
	m.wake(q)
	return len(names)
}
