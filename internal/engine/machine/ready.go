package machine

import (
	"math"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// setOrder sets the order with which the job becomes ready (section 3). Priority is the policy's at
// this moment, at every place. The smallest integer is left out, because its negation, by which the
// keys are sorted, is no integer.
func (m *Machine) setOrder(e *entry, p job.Place) {
	o := &e.Order
	switch p {
	case job.PlaceTail:
		*o = job.Order{Seq: m.nextSeq(), First: o.First}
	case job.PlaceOld:
	case job.PlaceHead:
		*o = job.Order{Rank: m.edgeRank(e.q, false), Seq: m.nextSeq(), First: o.First}
	case job.PlaceBack:
		*o = job.Order{Rank: m.edgeRank(e.q, true), Seq: m.nextSeq(), First: o.First}
	case job.PlaceDue:
		*o = job.Order{Rank: -1, At: e.RunAt, Seq: m.nextSeq(), First: o.First}
	case job.PlaceSched:
		*o = job.Order{At: e.RunAt, Seq: o.First, First: o.First}
	}
	o.Priority = max(e.Policy.Priority, -math.MaxInt64)
}

// edgeRank returns a rank ahead of (or behind) all ready jobs of the queue. Jobs with and without a
// group are in two lists, of which the first (or last) entry is looked at.
func (m *Machine) edgeRank(q *queue, back bool) int64 {
	if q.Counts[job.Ready] == 0 {
		return 0
	}
	rank, found := int64(0), false
	for _, list := range [...]record.List{record.ListReady, record.ListGrouped} {
		if e := m.firstOf(q, list, back); e != nil {
			if !found || (back && e.Order.Rank > rank) || (!back && e.Order.Rank < rank) {
				rank, found = e.Order.Rank, true
			}
		}
	}
	switch {
	case !found:
		return 0
	case back:
		return rank + 1
	default:
		return rank - 1
	}
}

// makeReady makes a job that is in no list ready, and saves it. If a caller waits for it, it goes
// straight to that caller. An ephemeral job whose caller has gone is withdrawn instead.
func (m *Machine) makeReady(e *entry, p job.Place) { m.makeReadySince(e, p, m.now) }

// makeReadySince is makeReady of a job that counts as ready since an earlier time: one that was
// imported.
func (m *Machine) makeReadySince(e *entry, p job.Place, since job.Time) {
	if m.withdrawIfAbandoned(e) {
		return
	}
	m.setOrder(e, p)
	m.setState(e, job.Ready)
	e.Since = since
	// The common case of an idle worker. The job is never listed as ready, and is written once
	// instead of twice. The count of ready jobs, which setState has raised, goes down again.
	if w := m.waiterFor(e); w != nil {
		e.q.subtractCount(job.Ready)
		m.deliver(w, e)
		return
	}
	m.save(e) // before it is listed: what is read back must be this record
	m.listReady(e)
	m.wake(e.q)
}

// waiterFor returns the caller that gets this job at once, or nil. It is a short cut around
// serveWakes, and must decide as that would: the queue is open and has no limits, nothing else in
// it can be fetched, nobody is parked, and neither expiry nor its group hold the job up.
func (m *Machine) waiterFor(e *entry) *waiter {
	q := e.q
	if q.Paused || q.limit != nil || q.isRegrouping() || q.waiters.first() == nil || !q.waiters.parked.empty() ||
		isExpired(e, m.now) || q.Counts[job.Ready] > 1 {
		return nil
	}
	if e.Group != "" && !m.canLeaseGroup(q, m.getGroup(q, e.Group)) {
		return nil
	}
	return q.waiters.first()
}

// listReady adds the job to the lists of ready jobs, in the store and as far as it belongs there in
// memory. The job has been saved: a window may drop it from memory at once, to be read back later.
func (m *Machine) listReady(e *entry) {
	q := e.q
	if e.Group != "" {
		m.listGrouped(e)
		return
	}
	if q.Fairness.On {
		m.enterUngrouped(q)
	}
	m.setList(q, record.ListReady, &e.Job)
	m.addToWindow(q, &q.ungrouped, record.ListReady, e)
}

// unlistReady takes the job out of the lists of ready jobs.
func (m *Machine) unlistReady(e *entry) {
	q := e.q
	if e.Group != "" {
		m.unlistGrouped(e)
		return
	}
	m.delList(q, record.ListReady, &e.Job)
	m.removeFromWindow(&q.ungrouped, e)
	if q.Turn != 0 {
		m.leaveUngrouped(q)
	}
}

// addToWindow adds an entry of a list to what is in memory of it, if it belongs there. If that makes
// too many, of this list or over all of them, the last one of this window goes.
func (m *Machine) addToWindow(q *queue, w *window, list record.List, e *entry) {
	if !w.covers(e) {
		if w.len() == 0 && w.floor != nil {
			m.keyBuf = record.ListKey(m.keyBuf[:0], q.ID, list, &e.Job)
			if string(m.keyBuf) <= string(w.floor) {
				w.floor = nil // it lies before where a refill would start
			}
		}
		m.dropResident(e)
		return
	}
	w.insert(e)
	m.keepResident(e)
	m.keepBody(e)
	if w.len() > m.opt.Window || m.windowedCount() > m.opt.Resident {
		m.dropResident(w.dropLast())
	}
}

// removeFromWindow takes an entry out of a window. m.keyBuf still holds the key of the entry in its list,
// which delList has made.
func (m *Machine) removeFromWindow(w *window, e *entry) {
	if w == nil || !w.remove(e) {
		return
	}
	m.dropResident(e)
	if w.len() == 0 && !w.whole {
		// What is left of the list lies behind this entry.
		w.floor = append(w.floor[:0], m.keyBuf...)
	}
}

// refill reads the next part of a list into an empty window. It starts behind what has been taken
// out: the store still has to pass the deleted keys before that, and with a long backlog those are
// many.
func (m *Machine) refill(q *queue, w *window, list record.List, limit int) {
	if w.whole || w.len() > 0 {
		return
	}
	lo := w.floor
	if lo == nil {
		lo = record.ListStart(nil, q.ID, list)
	}
	m.refillSpan(q, w, lo, record.ListEnd(nil, q.ID, list), limit)
}

// refillSpan is refill of a range of keys. Fewer entries than asked for mean that the list has no
// rest.
func (m *Machine) refillSpan(q *queue, w *window, lo, hi []byte, limit int) {
	ids := m.idsOf(lo, hi, limit)
	w.whole = len(ids) < limit || plant.TakenForWhole.On()
	w.floor = nil
	for _, e := range m.loadMany(q, ids) {
		w.insert(e)
		m.keepResident(e)
		m.keepBody(e)
	}
}

// loadMany loads jobs that a list names. If their ids lie close together, as those of a backlog
// mostly do, one scan costs less than a lookup for each. An entry that is in memory is used in any
// case: there must be only one of a job (INV-12).
func (m *Machine) loadMany(q *queue, ids []job.ID) []*entry {
	es := make([]*entry, 0, len(ids))
	if len(ids) == 0 {
		return es
	}
	low, high := ids[0], ids[0]
	for _, id := range ids {
		low, high = min(low, id), max(high, id)
	}
	found := map[job.ID]*entry{}
	if len(ids) >= 8 && uint64(high-low) < 4*uint64(len(ids)) {
		m.scanJobs(q, low, high, found)
	}
	for _, id := range ids {
		e := m.jobs[id]
		if e == nil {
			e = found[id]
		}
		if e == nil {
			e = m.mustLoad(q, id)
		}
		es = append(es, e)
	}
	return es
}

// scanBytes is how much one scan over jobs reads.
const scanBytes = 4 << 20

// scanJobs reads the jobs between two ids with their bodies, as far as the budget for bodies goes,
// into found. Entries are marked as pending, because a scan does not say which ones are: at worst a
// delivery waits for a batch that it would not have to wait for.
func (m *Machine) scanJobs(q *queue, low, high job.ID, found map[job.ID]*entry) {
	lo := record.JobsFrom(nil, q.ID, low)
	hi := record.JobsFrom(nil, q.ID, high+1)
	budget := m.opt.BodyBytes - m.bodyBytes
	size := 0
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		if size += len(value); size > scanBytes {
			return false // the others are read one by one, without their bodies
		}
		_, id, part, ok := record.ParseJobKey(key)
		if !ok {
			corrupt("job key", record.ErrFormat)
		}
		switch part {
		case record.PartFirst:
			e := m.newEntry(q, id, true)
			m.decodeFirst(e, append([]byte(nil), value...))
			// The job is needed, its body is not: it is read when the job is fetched.
			if budget -= len(e.Body); budget < 0 {
				m.dropBody(e)
			}
			found[id] = e
		case record.PartState:
			corrupt("job", record.DecodeMeta(value, &found[id].Job))
		case record.PartBody:
			if e := found[id]; len(value) <= budget {
				budget -= len(value)
				corrupt("body", record.DecodeBody(append([]byte(nil), value...), &e.Job))
				e.loaded = true
			}
		case record.PartFailures, record.PartResult, record.PartProgress: // are read when they are asked for
		}
		return true
	})
}

// head returns the job that a fetch from this queue gets, or nil. Jobs whose time has run out are
// ended on the way: their timers may not have fired yet, and an expired job is never given out
// (section 12). If they are too many for this step, short says so: there may be a job behind them,
// and the caller has to go on in another step. The limits of the queue are looked at by the caller.
func (m *Machine) head(q *queue) (first *entry, short bool) {
	if q.ID == 0 || q.Paused || q.isRegrouping() {
		return nil, false
	}
	if q.Limits.GroupRate > 0 && m.recheckRates(q) {
		return nil, true
	}
	for q.Counts[job.Ready] > 0 {
		e := m.bestReady(q)
		if e == nil && q.Limits.GroupRate > 0 {
			// Every group that has ready jobs has used up its rate. The time at which the first of
			// them has a job again must wake the queue, because nothing else will.
			if !plant.RateNotWoken.On() {
				m.wakeAt(q, q.limit.nextRecheck)
			}
		}
		if e == nil || !isExpired(e, m.now) {
			return e, false
		}
		if !m.spendWork() {
			return nil, true
		}
		m.expire(e)
	}
	return nil, false
}

// bestReady returns the first job that may be given out, expired or not: of those without a group
// and of the first jobs of groups that are not held. In a queue in which groups have turns these
// decide.
func (m *Machine) bestReady(q *queue) *entry {
	m.refill(q, &q.ungrouped, record.ListReady, m.refillSize())
	e := q.ungrouped.first()
	if q.Turn != 0 {
		e = nil
	}
	if f := m.firstFree(q); f != nil && (e == nil || f.Order.Before(e.Order)) {
		e = f
	}
	if q.Turns {
		e = m.pickByTurn(q, e)
	}
	return e
}

// refillSize returns how many jobs one refill reads: less when memory is full, so that many queues
// with backlogs share it.
func (m *Machine) refillSize() int {
	if m.windowedCount() > m.opt.Resident {
		return max(min(m.opt.Window/2, 64), 1)
	}
	return max(m.opt.Window/2, 1)
}
