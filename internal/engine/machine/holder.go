package machine

import (
	"slices"
	"time"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// holder is what is in memory of somebody who holds leases that end with it, or who waits. It
// exists as long as it has one of these, or a grace, or is kept (INV-12). After a restart there are
// those that are kept, see keep.go.
type holder struct {
	id      job.Holder
	leases  map[job.ID]*holderLease
	inOrder holderLeases             // the same in the order of leasing
	ends    momentHeap[*holderLease] // those of them that end by time
	waits   map[uint64]struct{}
	alarm   alarm // the end of its grace
	grace   bool
	kept    *job.KeptHolder // as it is stored; nil: it does not outlive a restart
}

// holderLease is a lease that ends with its holder. Its moment is when time ends it. It names the job and
// the stay in the leased state: the job may have been settled and leased again.
type holderLease struct {
	moment

	ref        record.JobRef
	entered    uint64 // Job.Entered of the lease: another lease of the job is not meant
	prev, next *holderLease
}

// holderLeases is a list of leases in the order of leasing, from which any can be taken out.
type holderLeases struct{ first, last *holderLease }

func (l *holderLeases) add(h *holderLease) {
	h.prev = l.last
	if l.last == nil {
		l.first = h
	} else {
		l.last.next = h
	}
	l.last = h
}

func (l *holderLeases) remove(h *holderLease) {
	if h.prev == nil {
		l.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		l.last = h.prev
	} else {
		h.next.prev = h.prev
	}
}

// getHolder returns what is in memory of a holder, and begins to remember it if need be.
func (m *Machine) getHolder(id job.Holder) *holder {
	h := m.holders[id]
	if h == nil {
		h = &holder{id: id, leases: map[job.ID]*holderLease{}, waits: map[uint64]struct{}{}}
		h.alarm.holder = h
		h.alarm.index = -1
		m.holders[id] = h
	}
	return h
}

// forgetHolder forgets a holder that has nothing left. Whoever takes something from a holder calls
// it.
func (m *Machine) forgetHolder(h *holder) {
	if len(h.leases) == 0 && len(h.waits) == 0 && !h.grace && h.kept == nil && m.holders[h.id] == h {
		delete(m.holders, h.id)
	}
}

// holdLease notes a lease that ends with its holder. It marks the queue as linked: when the queue is
// removed it must be swept, because the sweep is what has the holder forget the lease.
func (m *Machine) holdLease(e *entry) {
	if e.Lease.OnEnd == job.EndKeep {
		return
	}
	h := m.getHolder(e.Lease.Holder)
	l := &holderLease{ref: record.JobRef{Queue: e.q.ID, ID: e.ID}, entered: e.Entered}
	h.leases[e.ID] = l
	h.inOrder.add(l)
	l.index = -1
	h.setEnd(l, e.Lease.Until)
	if !e.q.Linked {
		e.q.Linked = true
		m.markDirty(e.q)
	}
}

// setEnd notes when time ends a lease; zero is never. Fetches with a Margin ask for the earliest.
func (h *holder) setEnd(l *holderLease, at job.Time) {
	if l.index >= 0 {
		h.ends.remove(l)
	}
	if at != 0 {
		l.at, l.seq = at, l.entered
		h.ends.push(l)
	}
}

// dropLease forgets a lease. The holder itself may have to be forgotten with it.
func (h *holder) dropLease(l *holderLease) {
	delete(h.leases, l.ref.ID)
	h.inOrder.remove(l)
	h.setEnd(l, 0)
}

// leaseOfHolder returns what a holder knows about a lease that ends with it; nil if the lease does not
// end with its holder, or the holder has gone and its leases are orphans.
func (m *Machine) leaseOfHolder(j *job.Job) (*holder, *holderLease) {
	h := m.holders[j.Lease.Holder]
	if h == nil || j.Lease.OnEnd == job.EndKeep {
		return nil, nil
	}
	if l := h.leases[j.ID]; l != nil && l.entered == j.Entered {
		return h, l
	}
	return nil, nil
}

// releaseFromHolder has the holder of a lease forget it, without changing the job.
func (m *Machine) releaseFromHolder(j *job.Job) {
	if h, l := m.leaseOfHolder(j); l != nil {
		h.dropLease(l)
		m.forgetHolder(h)
	}
}

// moveLeaseEnd tells the holder of a lease that time ends it earlier or later.
func (m *Machine) moveLeaseEnd(j *job.Job) {
	if h, l := m.leaseOfHolder(j); l != nil {
		h.setEnd(l, j.Lease.Until)
	}
}

// isHeld reports whether a lease is still there: its queue may have been removed, which tells
// holders only when the sweep comes to the job.
func (m *Machine) isHeld(l *holderLease) bool {
	e := m.loadRef(l.ref)
	return e != nil && e.State == job.Leased && e.Entered == l.entered
}

// endLease forgets the lease of a job that leaves the leased state, everywhere (INV-2): with its
// holder, its delivery, its group and the limits of its queue. releaseFromHolder comes first,
// because it needs the lease to find the holder.
func (m *Machine) endLease(e *entry) {
	m.releaseFromHolder(&e.Job)
	e.Lease = job.Lease{}
	m.untrack(e)
	m.uncountLease(e)
	m.vacateGroup(e)
	if e.q.limit != nil {
		m.endSlot(e)
	}
}

// endHolder ends a holder whose connection is gone. Its waits end at once, its leases now or after
// the grace. A second EndHolder during a grace decides again.
func (m *Machine) endHolder(c *job.EndHolder) {
	h := m.holders[c.Holder]
	if h == nil {
		return
	}
	// Waits first: a job that the end of a lease sets free must not go to the holder that has gone.
	m.cancelWaits(sortedTokens(h.waits))
	if !m.holds(h) && !h.grace && h.kept == nil {
		return
	}
	m.clearAlarm(&h.alarm)
	if c.Grace > 0 {
		m.beginGrace(h, c.Grace)
		return
	}
	m.endHolderLeases(h)
}

// beginGrace has a holder end later, unless resumeHolder comes first.
func (m *Machine) beginGrace(h *holder, grace time.Duration) {
	h.grace = true
	m.setAlarm(&h.alarm, m.now.Add(grace))
}

// holds reports whether a holder has a lease. It forgets those that went with their queues on the
// way, and stops looking after many: then it says yes, and the grace is set in vain.
func (m *Machine) holds(h *holder) bool {
	for range m.opt.lookMax() {
		l := h.inOrder.first
		if l == nil {
			break
		}
		if m.isHeld(l) {
			break
		}
		h.dropLease(l)
	}
	m.forgetHolder(h)
	return h.inOrder.first != nil
}

// cancelWaits ends the waits of a holder that has gone: as many as this transition may, the others
// later. From now on nothing is given to any of them (INV-10): they leave their lists at once,
// although they are answered later. An unfinished fetch is answered at once, because its next step
// would go on with it.
func (m *Machine) cancelWaits(tokens []uint64) {
	for _, token := range tokens {
		switch w := m.waiting[token]; {
		case w == nil:
		case w.walk != nil:
			m.endWait(w, job.ErrCanceled)
		default:
			m.leaveLists(w)
			m.canceled.add(token)
		}
	}
	m.endCanceled()
}

// endCanceled answers some of the waits that cancelWaits has left over.
func (m *Machine) endCanceled() {
	for !m.canceled.empty() && m.leaseBudget > 0 {
		m.leaseBudget--
		if w := m.waiting[m.canceled.take()]; w != nil {
			m.endWait(w, job.ErrCanceled)
			m.serveWakes()
		}
	}
}

// sortedTokens returns the members of a set in order, so that nothing depends on the order of a
// map. Tokens grow with every request: it is the order in which they came.
func sortedTokens(set map[uint64]struct{}) []uint64 {
	tokens := make([]uint64, 0, len(set))
	for t := range set {
		tokens = append(tokens, t)
	}
	slices.Sort(tokens)
	return tokens
}

// resumeHolder ends a grace: the client is back, and its leases go on.
func (m *Machine) resumeHolder(c *job.ResumeHolder, res *job.Result) {
	h := m.holders[c.Holder]
	if h == nil || !h.grace {
		return
	}
	h.grace = false
	m.clearAlarm(&h.alarm)
	m.forgetHolder(h)
	res.Count = 1
}

// endHolderLeases ends the leases of a holder, in the order of leasing: as many as this transition
// may, the others later. From now on it holds none of them. What is left over is a list that nobody
// adds to; after a crash a restart releases these leases anyway (section 13).
func (m *Machine) endHolderLeases(h *holder) {
	h.grace = false
	m.unmarkKept(h)
	if h.inOrder.first != nil {
		m.orphans.add(h.inOrder.first)
	}
	// The list goes on living in the orphan that was added; the holder begins with nothing.
	h.leases, h.inOrder, h.ends = map[job.ID]*holderLease{}, holderLeases{}, nil
	m.forgetHolder(h)
	m.endLeases()
}

// endLeases ends leases of holders that have gone. An orphan stands for itself and all that follow
// it in its list, which goes on at the front: holders come one after the other.
func (m *Machine) endLeases() {
	for !m.orphans.empty() && m.leaseBudget > 0 {
		m.leaseBudget--
		l := m.orphans.take()
		if l.next != nil {
			m.orphans.putBack(l.next)
		}
		e := m.loadRef(l.ref)
		if e == nil || e.State != job.Leased || e.Entered != l.entered && !plant.NewerLeaseEnded.On() {
			continue // settled or removed meanwhile
		}
		m.count(e.q, job.CountEnded)
		if e.Lease.OnEnd == job.EndFail {
			m.failJob(e, job.Failure{Kind: job.FailedByEnd}, nil)
		} else {
			m.leave(e)
			m.makeReady(e, job.PlaceOld)
		}
		m.serveWakes()
	}
}

// continueHolders ends some more waits and leases of holders that have gone.
func (m *Machine) continueHolders() {
	if m.canceled.empty() && m.orphans.empty() {
		return
	}
	m.beginTransition()
	m.endCanceled()
	m.endLeases()
	m.endTransition()
}
