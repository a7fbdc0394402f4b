package machine

import (
	"maps"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// A fair queue (section 17 of the semantics). Each group that has ready jobs has a turn, a number of the sequence. The
// group with the lowest is served first, and then gets the next number: it stands behind all others. The list of firsts
// is sorted by turns, so that a fetch costs the same however many groups there are. Jobs without a group are one group.
//
// A queue that becomes fair, or is fair no longer, has groups in the list of the other order. They keep their place
// there until a job of theirs has been given out.

// setFair changes whether and how the groups of a queue take turns. Weights count from the next
// turn of each group.
func (m *Machine) setFair(c *job.SetFair, res *job.Result) {
	fair, err := c.Fairness.Tidy()
	if err != nil {
		res.Err = err
		return
	}
	q := m.findQueue(c.Namespace, c.Queue)
	if !fair.On && (q == nil || !q.Fairness.On) {
		return
	}
	if fair.On && !m.allows(record.FormatFair, res) {
		return
	}
	q = m.makeQueue(c.Namespace, c.Queue)
	m.markDirty(q) // it may have been hidden
	if q.setHidden(false); fair.On == q.Fairness.On && maps.Equal(fair.Weights, q.Fairness.Weights) {
		return
	}
	before := q.groupMax()
	q.Fairness = fair
	// From now on groups may have turns, and they may keep some after the queue is fair no longer.
	if fair.On && !q.Turns {
		q.Turns, q.turns = true, noFirsts
	}
	if q.groupMax() != before {
		m.regroup(q, record.RegroupShow)
	}
	m.wake(q)
}

// nextTurn uses up one job of the turn of a group: it has just been given one, behind which this
// one is the first. When the turn is over the group goes behind all others. A group without a ready
// job has none (INV-21).
func (m *Machine) nextTurn(q *queue, group string, turn *uint64, credit *uint32, first *entry) {
	switch {
	case !q.Fairness.On || first == nil:
		*turn, *credit = 0, 0
	case *credit > 1:
		*credit--
	default:
		*turn, *credit = plant.Or(m.nextSeq(), plant.GroupStarved, *turn), q.Fairness.Weight(group)
	}
	m.markDirty(q)
}

// enterUngrouped gives the jobs without a group a turn, if one is about to be the first of them.
func (m *Machine) enterUngrouped(q *queue) {
	if m.refill(q, &q.ungrouped, record.ListReady, m.refillSize()); q.ungrouped.len() == 0 {
		q.Turn, q.Credit = m.nextSeq(), q.Fairness.Weight("")
	}
}

// leaveUngrouped takes the turn from the jobs without a group, if none is left.
func (m *Machine) leaveUngrouped(q *queue) {
	if m.refill(q, &q.ungrouped, record.ListReady, m.refillSize()); q.ungrouped.len() == 0 {
		q.Turn, q.Credit = 0, 0
	}
}

// pickByTurn returns the job that is given out next in a queue in which groups may have turns.
// First is the best of those whose groups have none: they come from before the queue became fair,
// or since it is fair no longer, and section 17 says which of the two kinds goes first.
func (m *Machine) pickByTurn(q *queue, first *entry) *entry {
	e := m.firstTurn(q)
	switch {
	case e == nil:
		return first
	case first == nil:
		return e
	case q.Fairness.On && first.Order.Priority >= e.Order.Priority:
		return first
	case !q.Fairness.On && e.Order.Priority < first.Order.Priority:
		return first
	default:
		return e
	}
}

// firstTurn returns the first job of the group whose turn it is, or nil. The jobs without a group
// are in no list of firsts: their first one is compared.
func (m *Machine) firstTurn(q *queue) *entry {
	if q.turns == nil {
		q.turns = &window{byTurn: true}
	}
	m.refillTurns(q)
	e := q.turns.first()
	p := q.ungrouped.first()
	switch {
	case p == nil || q.Turn == 0:
		return e
	case e == nil || p.Order.Priority > e.Order.Priority || p.Order.Priority == e.Order.Priority && q.Turn < e.turn:
		return p
	default:
		return e
	}
}

// refillTurns is refill of the window by turns. The turn of each entry is in its key, not in the
// job.
func (m *Machine) refillTurns(q *queue) {
	w := q.turns
	if w.whole || w.len() > 0 {
		return
	}
	lo := w.floor
	if lo == nil {
		lo = record.ListStart(nil, q.ID, record.ListTurn)
	}
	limit := m.refillSize()
	var ids []job.ID
	var turns []uint64
	m.store.Scan(lo, record.ListEnd(nil, q.ID, record.ListTurn), false, func(key, _ []byte) bool {
		ids, turns = append(ids, record.EntryID(key)), append(turns, record.EntryTurn(key))
		return len(ids) < limit
	})
	w.whole, w.floor = len(ids) < limit, nil
	for i, e := range m.loadMany(q, ids) {
		e.turn = turns[i]
		w.insert(e)
		m.keepResident(e)
		m.keepBody(e)
	}
}

// turnBefore reports whether a job stands before another in the order of turns.
func (e *entry) turnBefore(o *entry) bool {
	if e.Order.Priority != o.Order.Priority {
		return e.Order.Priority > o.Order.Priority
	}
	return e.turn < o.turn
}
