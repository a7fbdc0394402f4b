package machine

import (
	"math"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// group is what is in memory of one group of a queue. It is only a cache: the store has its record
// and its list. Groups are forgotten all together when there are too many of them (forgetGroups).
type group struct {
	record.Group

	saved    record.Group // as it is stored; what has changed is in Machine.freed until that is written
	ready    window       // its ready jobs
	lastRead int          // how many of them the last refill asked for
	// listed is the entry that stands for the group in a list of firsts.
	listed *entry
}

// getGroup returns what is known of a group and reads it if need be. A group without a record, as
// nearly all are that have no leased job, is the zero group.
func (m *Machine) getGroup(q *queue, name string) *group {
	if g := q.groups[name]; g != nil {
		return g
	}
	if q.groups == nil || (len(q.groups) >= m.opt.Groups && m.freed.empty()) {
		m.forgetGroups(q) // not while a group waits to be shown: the store is behind then
	}
	g := &group{}
	m.keyBuf = record.GroupKey(m.keyBuf[:0], q.ID, name)
	if b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf); ok {
		var err error
		g.saved, err = record.DecodeGroup(b)
		corrupt("group", err)
		m.readBuf = b[:0]
		g.Group = q.currentGroup(g.saved)
	}
	q.groups[name] = g
	if !g.Held {
		// The store says that the group is not held, so that its first job is in a list of firsts.
		if g.listed = m.groupFirst(q, name, g); g.listed != nil {
			g.listed.turn = g.Turn
		}
	}
	return g
}

// currentGroup returns what is known of a group by now. A purge of ready jobs takes the turns from all
// groups by its mark on the queue, without visiting them: a turn from before the purge counts no
// more.
func (q *queue) currentGroup(g record.Group) record.Group {
	if g.Turn <= q.Purged[job.Ready] {
		g.Turn, g.Credit = 0, 0
	}
	return g
}

// saveGroup writes what has changed of a group. A group about which there is nothing to say has no
// record: groups come and go with the jobs of clients, and nothing may be left of them (INV-12).
func (m *Machine) saveGroup(q *queue, name string, g *group) {
	if g.Group == g.saved {
		return
	}
	m.keyBuf = record.GroupKey(m.keyBuf[:0], q.ID, name)
	if g.saved = g.Group; g.saved == (record.Group{}) {
		m.del(m.keyBuf)
		return
	}
	m.valueBuf = record.AppendGroup(m.valueBuf[:0], &g.saved)
	m.set(m.keyBuf, m.valueBuf)
}

// forgetGroups empties the cache. Entries that the lists of firsts hold stay in memory for these.
func (m *Machine) forgetGroups(q *queue) {
	for _, g := range q.groups {
		for _, e := range g.ready.items[g.ready.head:] {
			if !q.isShown(e) {
				m.dropResident(e)
			}
		}
	}
	q.groups = map[string]*group{}
}

// has reports whether the window has an entry of that id.
func (w *window) has(e *entry) bool {
	i := w.search(e)
	return i < len(w.items) && w.items[i].ID == e.ID
}

// isShown reports whether an entry is in what is in memory of the lists of firsts.
func (q *queue) isShown(e *entry) bool {
	return q.firsts != nil && q.firsts.has(e) || q.turns != nil && q.turns.has(e)
}

// groupRead is how many jobs of a group are read at first: the one that is given out, and the one
// that stands for the group then.
const groupRead = 2

// groupFirst returns the first ready job of a group, or nil. It reads a few of them when it has
// none in memory: very few at first, because there may be very many groups that are served once in
// a while, and twice as many each time all of them have been given out, so that a long backlog
// costs what it costs without groups.
func (m *Machine) groupFirst(q *queue, name string, g *group) *entry {
	if g.ready.len() == 0 && !g.ready.whole {
		lo, hi := record.GroupSpan(q.ID, name)
		if g.ready.floor != nil {
			lo = g.ready.floor
		}
		most := m.opt.GroupWindow
		if m.windowedCount() <= m.opt.Resident {
			most = max(most, m.refillSize())
		}
		g.lastRead = min(max(2*g.lastRead, groupRead), most)
		m.refillSpan(q, &g.ready, lo, hi, g.lastRead)
	}
	return g.ready.first()
}

// listGrouped adds a ready job that has a group to its lists: of all grouped jobs, which people
// see; of its group; and, as the first of a group that is not held, of those that can be fetched
// (INV-4). In a fair queue a group gets a turn with its first ready job.
func (m *Machine) listGrouped(e *entry) {
	q := e.q
	g := m.getGroup(q, e.Group)
	if q.Fairness.On && m.groupFirst(q, e.Group, g) == nil {
		// Behind all others that have a turn.
		g.Turn, g.Credit = m.nextSeq(), q.Fairness.Weight(e.Group)
	}
	m.setList(q, record.ListGrouped, &e.Job)
	m.setList(q, record.ListPerGroup, &e.Job)
	if g.ready.covers(e) {
		g.ready.insert(e)
		m.keepResident(e)
		m.keepBody(e)
		if g.ready.len() > m.opt.GroupWindow {
			m.releaseGrouped(q, g.ready.dropLast())
		}
	} else {
		if g.ready.floor != nil && string(m.keyBuf) <= string(g.ready.floor) {
			g.ready.floor = nil
		}
		m.releaseGrouped(q, e)
	}
	m.showFirst(q, e.Group, g)
}

// releaseGrouped lets an entry go that fell out of its group's window, unless it still stands in a
// list of firsts.
func (m *Machine) releaseGrouped(q *queue, e *entry) {
	if !q.isShown(e) {
		m.dropResident(e)
	}
}

// unlistGrouped takes a job out of the lists. Which job is the first of its group now is decided
// later (showFreed), because the job itself may come back to the same list in this transition.
func (m *Machine) unlistGrouped(e *entry) {
	q := e.q
	g := m.getGroup(q, e.Group)
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
	if g.Turn != 0 && m.groupFirst(q, e.Group, g) == nil {
		g.Turn, g.Credit = 0, 0
	}
	m.freed.add(freedGroup{q, e.Group}) // the next of its group may be fetchable now
	m.wake(q)
}

// showFirst makes the lists of firsts agree with the group (INV-4): its first ready job if it is
// not held, else none. It also writes the group. Whatever changes a group, its limits or its turn
// has it called in the end, directly or by way of Machine.freed.
func (m *Machine) showFirst(q *queue, name string, g *group) {
	var first *entry
	if g.Held = !m.canLeaseGroup(q, g); !g.Held {
		first = m.groupFirst(q, name, g)
	}
	m.saveGroup(q, name, g)
	if l := g.listed; l == first && (l == nil || l.turn == g.Turn) {
		return
	}
	m.unshow(q, g)
	if first != nil {
		g.listed = first
		first.turn = g.Turn
		w := &q.firsts
		if g.Turn != 0 {
			w = &q.turns
		}
		m.setShown(q, first)
		m.addToFirsts(q, w, first)
		m.wake(q)
	}
}

// shownKey makes the key of an entry in the list of firsts that it is in: by order, or by turn if
// its group has one.
func (m *Machine) shownKey(q *queue, e *entry) {
	if e.turn == 0 {
		m.keyBuf = record.ListKey(m.keyBuf[:0], q.ID, record.ListFirst, &e.Job)
	} else {
		m.keyBuf = record.TurnKey(m.keyBuf[:0], q.ID, e.Order.Priority, e.turn, e.ID)
	}
}

// setShown enters the first job of a group into the list of firsts. Insert is right: showFirst has taken
// an earlier entry of the group out.
func (m *Machine) setShown(q *queue, e *entry) {
	m.shownKey(q, e)
	m.store.Insert(m.keyBuf, nil)
}

// unshow takes the entry of a group out of the list of firsts, if it is in one.
func (m *Machine) unshow(q *queue, g *group) {
	e := g.listed
	if e == nil {
		return
	}
	m.shownKey(q, e)
	m.store.Remove(m.keyBuf)
	w := q.firsts
	if e.turn != 0 {
		w = q.turns
	}
	if w != nil && w.remove(e) && w.len() == 0 && !w.whole {
		w.floor = append(w.floor[:0], m.keyBuf...)
	}
	e.turn = 0
	if !g.ready.has(e) {
		m.dropResident(e) // it was in memory only for the list of firsts
	}
	g.listed = nil
}

// addToFirsts adds an entry, whose key has just been set, to what is in memory of a list of firsts.
// A queue that never had groups shares one empty window (noFirsts), which must not be written to.
func (m *Machine) addToFirsts(q *queue, at **window, e *entry) {
	w := *at
	switch {
	case w == nil:
		return
	case w == noFirsts:
		w = &window{whole: true, byTurn: e.turn != 0}
		*at = w
	case !w.covers(e):
		if w.len() == 0 && w.floor != nil && string(m.keyBuf) <= string(w.floor) {
			w.floor = nil
		}
		return
	}
	w.insert(e)
	m.keepResident(e)
	for w.len() > m.opt.Window {
		last := w.dropLast()
		if g := q.groups[last.Group]; g == nil || !g.ready.has(last) {
			m.dropResident(last)
		}
	}
}

// firstFree returns the best job among the firsts of the groups that are not held and have no turn.
func (m *Machine) firstFree(q *queue) *entry {
	if q.firsts == nil {
		q.firsts = &window{}
	}
	m.refill(q, q.firsts, record.ListFirst, m.refillSize())
	return q.firsts.first()
}

// occupyGroup tells the group of a job that it is being leased: it may be held from now on, its turn is
// used, and so is a job of its rate.
func (m *Machine) occupyGroup(e *entry) {
	q := e.q
	if e.Group == "" {
		if q.Turns {
			m.refill(q, &q.ungrouped, record.ListReady, m.refillSize())
			m.nextTurn(q, "", &q.Turn, &q.Credit, q.ungrouped.first())
		}
		return
	}
	g := m.getGroup(q, e.Group)
	// A group with one leased job and nothing else to be known has a shorter record, which names
	// the job.
	if g.Only = 0; g.Running == 0 {
		g.Only = e.ID
	}
	g.Running++
	// The limits may hold the group from now on, or its turn has moved.
	m.freed.add(freedGroup{q, e.Group})
	if q.Turns {
		m.nextTurn(q, e.Group, &g.Turn, &g.Credit, m.groupFirst(q, e.Group, g))
	}
	if q.Limits.GroupRate > 0 {
		m.takeToken(q, e.Group, g)
	}
}

// vacateGroup tells the group of a job whose lease has ended. Who is first in it now is decided when the
// queue is served, after the job itself has gone where it goes: it may be the first again.
func (m *Machine) vacateGroup(e *entry) {
	if e.Group == "" {
		return
	}
	g := m.getGroup(e.q, e.Group)
	if !plant.GroupSlotLost.On() || e.Lapses == 0 {
		g.Running--
	}
	g.Only = 0
	m.freed.add(freedGroup{e.q, e.Group})
	m.wake(e.q)
}

// groupMax returns how many jobs of a group may be leased at a time: one, unless limits say another
// number, or the queue is fair and has promised nothing.
func (q *queue) groupMax() uint32 {
	switch {
	case q.Limits.GroupConcurrency > 0:
		return q.Limits.GroupConcurrency
	case q.Fairness.On && !q.Settings.OnePerGroup:
		return math.MaxUint32
	default:
		return 1
	}
}

// canLeaseGroup reports whether the limits of groups allow another job of one. A group with no time to
// look at (Look) has used nothing of its rate.
func (m *Machine) canLeaseGroup(q *queue, g *group) bool {
	return g.Running < q.groupMax() && (g.RecheckAt == 0 || m.hasToken(q, g))
}

// freedGroup is a group that has changed. It is written, and its first job shown, before its queue
// is served. Until then the store is behind memory, and the group must not be forgotten.
type freedGroup struct {
	q    *queue
	name string
}

// showFreed deals with the groups that have changed. Their queues may have been removed meanwhile.
func (m *Machine) showFreed() {
	for !m.freed.empty() {
		f := m.freed.take()
		if m.byID[f.q.ID] == f.q {
			m.showFirst(f.q, f.name, m.getGroup(f.q, f.name))
		}
	}
}
