package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// group is what is in memory of one group of a queue. It is only a cache: the
// store has the busy mark and the list.
type group struct {
	busy  job.ID // its leased job
	ready window // its ready jobs
	// listed is the entry that stands for the group in the list of firsts.
	listed *entry
}

// group returns what is known of a group and reads it if need be.
func (m *Machine) group(q *queue, name string) *group {
	if g := q.groups[name]; g != nil {
		return g
	}
	if q.groups == nil || (len(q.groups) >= m.opt.Groups && m.freed.empty()) {
		m.forgetGroups(q) // not while a group waits to be shown: the store is behind then
	}
	g := &group{}
	m.kb = record.GroupKey(m.kb[:0], q.ID, name)
	if b, _, ok := m.store.Get(m.rb[:0], m.kb); ok {
		id, err := record.DecodeUint(b)
		corrupt("group", err)
		g.busy = job.ID(id)
		m.rb = b[:0]
	}
	q.groups[name] = g
	if g.busy == 0 {
		g.listed = m.groupFirst(q, name, g)
	}
	return g
}

// forgetGroups empties the cache. What the list of firsts holds stays.
func (m *Machine) forgetGroups(q *queue) {
	for _, g := range q.groups {
		for _, e := range g.ready.items[g.ready.head:] {
			if q.firsts == nil || !q.firsts.has(e) {
				m.dropResident(e)
			}
		}
	}
	q.groups = map[string]*group{}
}

func (w *window) has(e *entry) bool {
	i := w.search(e)
	return i < len(w.items) && w.items[i].ID == e.ID
}

// groupFirst returns the first ready job of a group, or nil.
func (m *Machine) groupFirst(q *queue, name string, g *group) *entry {
	if g.ready.len() == 0 && !g.ready.whole {
		lo, hi := record.GroupSpan(q.ID, name)
		if g.ready.floor != nil {
			lo = g.ready.floor
		}
		m.refillSpan(q, &g.ready, lo, hi, m.opt.GroupWindow)
	}
	return g.ready.first()
}

// listGrouped adds a ready job that has a group to its lists. Only the first of a
// group that is not busy can be fetched (INV-4).
func (m *Machine) listGrouped(e *entry) {
	q := e.q
	g := m.group(q, e.Group)
	m.setList(q, record.ListGrouped, &e.Job)
	m.setList(q, record.ListPerGroup, &e.Job)
	if g.ready.covers(e) {
		g.ready.insert(e)
		m.stay(e)
		m.keepBody(e)
		for g.ready.len() > m.opt.GroupWindow {
			m.releaseGrouped(q, g.ready.dropLast())
		}
	} else {
		if g.ready.floor != nil && string(m.kb) <= string(g.ready.floor) {
			g.ready.floor = nil
		}
		m.releaseGrouped(q, e)
	}
	m.showFirst(q, e.Group, g)
}

// releaseGrouped lets an entry go that fell out of its group's window, unless it
// still stands in the list of firsts.
func (m *Machine) releaseGrouped(q *queue, e *entry) {
	if q.firsts == nil || !q.firsts.has(e) {
		m.dropResident(e)
	}
}

func (m *Machine) unlistGrouped(e *entry) {
	q := e.q
	g := m.group(q, e.Group)
	m.delList(q, record.ListGrouped, &e.Job)
	m.delList(q, record.ListPerGroup, &e.Job)
	if g.listed != nil && g.listed.ID == e.ID {
		m.unshow(q, g)
	}
	if g.ready.remove(e) {
		m.dropResident(e)
		if g.ready.len() == 0 && !g.ready.whole {
			g.ready.floor = record.ListKey(g.ready.floor[:0], q.ID, record.ListPerGroup, &e.Job)
		}
	}
	m.freed.add(freedGroup{q, e.Group}) // the next of its group may be fetchable now
	m.wake(q)
}

// showFirst makes the list of firsts agree with the group: its first ready job if
// it is not busy, else none.
func (m *Machine) showFirst(q *queue, name string, g *group) {
	var first *entry
	if g.busy == 0 {
		first = m.groupFirst(q, name, g)
	}
	if g.listed == first || (g.listed != nil && first != nil && g.listed.ID == first.ID) {
		return
	}
	m.unshow(q, g)
	if first != nil {
		g.listed = first
		m.setList(q, record.ListFirst, &first.Job)
		if q.firsts != nil {
			m.intoFirsts(q, first)
		}
		m.wake(q)
	}
}

func (m *Machine) unshow(q *queue, g *group) {
	if g.listed == nil {
		return
	}
	m.delList(q, record.ListFirst, &g.listed.Job)
	if q.firsts != nil && q.firsts.remove(g.listed) && q.firsts.len() == 0 && !q.firsts.whole {
		q.firsts.floor = append(q.firsts.floor[:0], m.kb...)
	}
	if !g.ready.has(g.listed) {
		m.dropResident(g.listed) // it was in memory only for the list of firsts
	}
	g.listed = nil
}

func (m *Machine) intoFirsts(q *queue, e *entry) {
	if q.firsts == noFirsts {
		q.firsts = &window{whole: true}
	}
	w := q.firsts
	if !w.covers(e) {
		if w.len() == 0 && w.floor != nil && string(m.kb) <= string(w.floor) {
			w.floor = nil
		}
		return
	}
	w.insert(e)
	m.stay(e)
	for w.len() > m.opt.Window {
		last := w.dropLast()
		if g := q.groups[last.Group]; g == nil || !g.ready.has(last) {
			m.dropResident(last)
		}
	}
}

// firstFree returns the best job among the firsts of the free groups.
func (m *Machine) firstFree(q *queue) *entry {
	if q.firsts == nil {
		q.firsts = &window{}
	}
	m.refill(q, q.firsts, record.ListFirst, m.refillSize())
	return q.firsts.first()
}

// occupy marks the group of a job that is being leased.
func (m *Machine) occupy(e *entry) {
	if e.Group == "" {
		return
	}
	g := m.group(e.q, e.Group)
	g.busy = e.ID
	m.kb = record.GroupKey(m.kb[:0], e.q.ID, e.Group)
	m.set(m.kb, record.AppendUint(nil, uint64(e.ID)))
	m.unshow(e.q, g)
}

// vacate frees the group of a job whose lease has ended. Who is first in it now is
// decided when the queue is served, after the job itself has gone where it goes.
func (m *Machine) vacate(e *entry) {
	if e.Group == "" {
		return
	}
	g := m.group(e.q, e.Group)
	g.busy = 0
	m.kb = record.GroupKey(m.kb[:0], e.q.ID, e.Group)
	m.del(m.kb)
	m.freed.add(freedGroup{e.q, e.Group})
	m.wake(e.q)
}

// freedGroup is a group whose first job is to be shown before its queue is served.
type freedGroup struct {
	q    *queue
	name string
}

func (m *Machine) showFreed() {
	for !m.freed.empty() {
		f := m.freed.take()
		if m.byID[f.q.ID] == f.q {
			m.showFirst(f.q, f.name, m.group(f.q, f.name))
		}
	}
}
