package machine

import (
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// Limits of a queue (section 15 of the semantics). How many jobs are leased is known anyway. Only if it matters who has
// them, or for how long, each of them has a slot in memory. After a restart, and when such a limit is set, the leases
// that there are get their slots in pieces; until all have one nothing is given out.

// limiter is what is in memory of the limits of a queue.
type limiter struct {
	slots       map[job.ID]*slot  // nil: the number of leases will do
	expiring    momentHeap[*slot] // those that end by time
	workers     map[job.Holder]uint32
	countFrom   []byte   // where to go on giving slots to leases that are older than the limit; nil: all have theirs
	alarm       alarm    // when time alone frees a slot or lets a job out
	nextRecheck job.Time // the rate of no group is to be looked at before
}

// slot is that of a lease. Its moment is when it is free although the lease goes on.
type slot struct {
	moment

	id     job.ID
	worker job.Holder
}

// setLimits sets all limits of a queue at once. What is leased stays leased. Those who wait are
// served in the end, because the new limits may allow more.
func (m *Machine) setLimits(c *job.SetLimits, res *job.Result) {
	limits, err := c.Limits.Tidy()
	if err != nil {
		res.Err = err
		return
	}
	q := m.findQueue(c.Namespace, c.Queue)
	if limits.IsZero() && (q == nil || q.Limits.IsZero()) {
		return
	}
	if !limits.IsZero() && !m.allows(formatOf(&limits), res) {
		return
	}
	q = m.makeQueue(c.Namespace, c.Queue)
	m.markDirty(q) // it may have been hidden
	if q.setHidden(false); limits == q.Limits {
		return
	}
	// Before the new limits are set: what is in the bucket is counted by the old ones.
	q.Bucket = limits.Refit(&q.Limits, q.Bucket, m.now)
	// What groups may have is compared before and after, because only a change is worth a pass over
	// all groups.
	atOnce, rate := q.groupMax(), q.Limits.OfGroup()
	q.Limits = limits
	m.rebuildLimiter(q)
	m.countSome()
	switch {
	case limits.OfGroup() != rate:
		m.regroup(q, record.RegroupRefill)
	case q.groupMax() != atOnce:
		m.regroup(q, record.RegroupShow)
	}
	m.wake(q)
}

// formatOf returns the format of records that limits need (INV-20).
func formatOf(l *job.Limits) uint64 {
	if l.GroupConcurrency > 0 || l.GroupRate > 0 {
		return record.FormatFair
	}
	return record.FormatLimits
}

// rebuildLimiter makes what is in memory of a queue's limits agree with them, from nothing: after a restart,
// when they change, and when the queue is removed. The leases that there are get their slots later,
// in pieces.
func (m *Machine) rebuildLimiter(q *queue) {
	if q.limit != nil {
		m.clearAlarm(&q.limit.alarm)
		q.limit = nil
	}
	q.waiters.recheckParked()
	if q.Limits.IsZero() {
		return
	}
	l := &limiter{}
	l.alarm.index, l.alarm.limited = -1, q
	q.limit = l
	if q.Limits.Worker == 0 && q.Limits.SlotFor == 0 {
		return
	}
	l.slots, l.workers = map[job.ID]*slot{}, map[job.Holder]uint32{}
	if q.Counts[job.Leased] > 0 {
		l.countFrom = record.ListStart(nil, q.ID, record.ListLeased)
		m.counting.add(q)
	}
}

// clampRates corrects the rates of a queue at the start, for a clock that was set back meanwhile: what they count from
// would be ahead, and nothing would be given out until that time. The rate of the queue counts from now. If the first
// group is to be looked at later than a bucket takes to fill twice, all groups have a full one; they wait out less than
// that, so that a small correction of the clock gives nobody more than the rate.
func (m *Machine) clampRates(q *queue) {
	q.Bucket.At = min(q.Bucket.At, m.now)
	groups := q.Limits.OfGroup()
	if at, _, ok := m.firstRecheck(q); ok && groups.Rate > 0 && at-m.now > 2*groups.FullAt(job.Bucket{}) {
		q.Regroup = record.RegroupRefill
		m.beginRegroup(q)
	}
}

// continueCounting gives slots to some more leases.
func (m *Machine) continueCounting() {
	if !m.counting.empty() {
		m.beginTransition()
		m.countSome()
		m.endTransition()
	}
}

// countSome gives slots to leases, and regroups, for one step of work. A queue that is done is
// woken: it has given out nothing so far.
func (m *Machine) countSome() {
	for n := m.opt.StepWork; n > 0 && !m.counting.empty(); {
		q := m.counting.first()
		if q.regroupFrom != nil {
			n -= m.regroupSome(q, n)
			continue
		}
		if q.limit == nil || q.limit.countFrom == nil {
			m.counting.take()
			continue
		}
		l := q.limit
		ids := m.idsOf(l.countFrom, record.ListEnd(nil, q.ID, record.ListLeased), n)
		for _, id := range ids {
			e := m.mustLoad(q, id)
			m.giveSlot(q, e)
			l.countFrom = append(record.ListKey(l.countFrom[:0], q.ID, record.ListLeased, &e.Job), 0)
		}
		if n -= len(ids); n > 0 {
			if l.countFrom = nil; !plant.CountedNotServed.On() {
				m.wake(q)
			}
		}
	}
}

// Counting reports whether leases of a queue are still to get their slots.
func (m *Machine) Counting(namespace, name string) bool {
	q := m.findQueue(namespace, name)
	return q != nil && (q.isRegrouping() || q.limit != nil && q.limit.countFrom != nil)
}

// giveSlot gives a lease its slot, unless the time of that is over already.
func (m *Machine) giveSlot(q *queue, e *entry) {
	l := q.limit
	s := &slot{id: e.ID, worker: e.Lease.Holder}
	s.index = -1
	if age := q.Limits.SlotFor; age > 0 {
		if s.at, s.seq = e.Since.Add(age), e.Entered; s.at <= m.now {
			return
		}
		l.expiring.push(s)
	}
	l.slots[e.ID] = s
	l.workers[s.worker]++
}

// takeSlot counts a lease that begins in a queue that has limits.
func (m *Machine) takeSlot(e *entry) {
	q := e.q
	if q.Limits.Rate > 0 {
		q.Bucket = q.Limits.Take(q.Limits.Fill(q.Bucket, m.now))
		m.markDirty(q)
	}
	if q.limit.slots != nil {
		m.giveSlot(q, e)
	}
}

// endSlot counts the end of such a lease. Its queue is woken, because there may be room for
// another.
func (m *Machine) endSlot(e *entry) {
	if s := e.q.limit.slots[e.ID]; s != nil && (!plant.SlotLost.On() || e.Lapses == 0) {
		e.q.freeSlot(s)
	}
	m.wake(e.q)
}

// freeSlot frees a slot, and has the callers of its worker looked at again.
func (q *queue) freeSlot(s *slot) {
	l := q.limit
	if s.index >= 0 {
		l.expiring.remove(s)
	}
	delete(l.slots, s.id)
	if l.workers[s.worker]--; l.workers[s.worker] == 0 {
		delete(l.workers, s.worker)
	}
	q.waiters.unpark(s.worker)
}

// freeExpiredSlots frees the slots whose time is over (SlotFor). Nothing does so at that very moment: it is
// done when somebody asks, and the alarm of the queue is set for it if somebody waits.
func (m *Machine) freeExpiredSlots(q *queue) {
	for l := q.limit; len(l.expiring) > 0 && l.expiring[0].at <= m.now; {
		q.freeSlot(l.expiring[0])
	}
}

// usedSlots returns how many slots are used. Without ages and workers that is how many jobs are
// leased.
func (q *queue) usedSlots() uint64 {
	if q.limit.slots != nil {
		return uint64(len(q.limit.slots))
	}
	return q.Counts[job.Leased]
}

// isThrottled reports whether the limits of a queue let no job out, whoever asks. If time alone
// ends that, until says when, else it is Never, and the end of a lease or a change of the limits
// wakes the queue. While leases are being counted the queue is throttled.
func (m *Machine) isThrottled(q *queue) (until job.Time, throttled bool) {
	l, limits := q.limit, &q.Limits
	if l.countFrom != nil {
		return job.Never, true
	}
	m.freeExpiredSlots(q)
	if limits.Concurrency > 0 && q.usedSlots() >= uint64(limits.Concurrency) {
		until, throttled = l.nextExpiry(), true
	}
	if limits.Rate > 0 {
		if b := limits.Fill(q.Bucket, m.now); limits.Jobs(b) == 0 {
			until, throttled = max(until, limits.NextJob(b)), true
		}
	}
	return until, throttled
}

// nextExpiry returns when the next slot is free by time.
func (l *limiter) nextExpiry() job.Time {
	if len(l.expiring) == 0 {
		return job.Never
	}
	return l.expiring[0].at
}

// isWorkerAtLimit reports whether a worker has as many jobs of a queue as it may have.
func (q *queue) isWorkerAtLimit(worker job.Holder) bool {
	return q.Limits.Worker > 0 && q.limit.workers[worker] >= q.Limits.Worker
}

// canLease reports whether the limits of a queue let a job out. If not, whoever waits is served as
// soon as they do: it sets the alarm (INV-18).
func (m *Machine) canLease(q *queue) bool {
	until, throttled := m.isThrottled(q)
	if throttled {
		m.wakeAt(q, until)
	}
	return !throttled
}

// canLeaseTo reports whether the limits of a queue let a job out to a worker. Like canLease it
// sets the alarm if they do not.
func (m *Machine) canLeaseTo(q *queue, worker job.Holder) bool {
	if !m.canLease(q) {
		return false
	}
	if q.isWorkerAtLimit(worker) {
		at := q.limit.nextExpiry()
		if q.Limits.GroupRate > 0 {
			at = min(at, q.limit.nextRecheck) // for which somebody else may wait
		}
		m.wakeAt(q, at)
		return false
	}
	return true
}

// wakeAt has a queue served again at a time, which replaces the one before: a queue has one such
// alarm. It keeps the sequence zero, and so comes before other alarms of that time, as section 15
// says.
func (m *Machine) wakeAt(q *queue, at job.Time) {
	a := &q.limit.alarm
	if a.index >= 0 && a.at == at {
		return
	}
	m.clearAlarm(a)
	// Never means that something else than time has to happen, and that wakes the queue.
	if at != job.Never {
		a.at = at
		m.alarms.push(a)
	}
}

// Usage is how far the limits of a queue are used.
type Usage struct {
	Slots uint64 // leases that use one
	Held  uint64 // ready jobs that nobody is given because of a limit
}

// Usage returns how far the limits of a queue are used; nothing if it has none. It is asked between
// steps, and changes nothing that is stored.
func (m *Machine) Usage(now job.Time, namespace, name string) (u Usage) {
	q := m.findQueue(namespace, name)
	if q == nil || q.limit == nil {
		return u
	}
	m.now = max(m.now, now)
	_, throttled := m.isThrottled(q)
	u.Slots = q.usedSlots()
	// Who waits beside ready jobs may have none of them (INV-5), unless the queue is still to be served.
	if !q.Paused && (throttled || !q.waiters.empty() && !q.waking || m.bestReady(q) == nil) {
		u.Held = q.Counts[job.Ready]
	}
	return u
}
