package machine

import (
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// holder is what is in memory of somebody who holds leases that end with it, or
// who waits.
type holder struct {
	id    job.Holder
	jobs  map[job.ID]record.QueueID
	waits map[uint64]struct{}
	alarm alarm // the end of its grace
	grace bool
}

func (m *Machine) holder(id job.Holder) *holder {
	h := m.holders[id]
	if h == nil {
		h = &holder{id: id, jobs: map[job.ID]record.QueueID{}, waits: map[uint64]struct{}{}}
		h.alarm.holder = h
		h.alarm.index = -1
		m.holders[id] = h
	}
	return h
}

func (m *Machine) forgetHolder(h *holder) {
	if len(h.jobs) == 0 && len(h.waits) == 0 && !h.grace && m.holders[h.id] == h {
		delete(m.holders, h.id)
	}
}

// hold notes a lease that ends with its holder.
func (m *Machine) hold(e *entry) {
	if e.Lease.OnEnd != job.EndKeep {
		m.holder(e.Lease.Holder).jobs[e.ID] = e.q.ID
	}
}

// endLease forgets the lease of a job that leaves the leased state (INV-2).
func (m *Machine) endLease(e *entry) {
	if e.Lease.OnEnd != job.EndKeep {
		if h := m.holders[e.Lease.Holder]; h != nil {
			delete(h.jobs, e.ID)
			m.forgetHolder(h)
		}
	}
	e.Lease = job.Lease{}
	m.uncountLease(e)
	m.vacate(e)
}

func (m *Machine) endHolder(c *job.EndHolder) {
	h := m.holders[c.Holder]
	if h == nil {
		return
	}
	for _, token := range sortedTokens(h.waits) {
		if w := m.waiting[token]; w != nil {
			m.endWait(w, job.ErrCanceled)
			m.serveWakes()
		}
	}
	if m.holders[c.Holder] != h {
		return // it held nothing
	}
	m.clearAlarm(&h.alarm)
	if c.Grace > 0 {
		h.grace = true
		m.setAlarm(&h.alarm, m.now.Add(c.Grace))
		return
	}
	m.holderGone(h)
}

func sortedTokens(set map[uint64]struct{}) []uint64 {
	tokens := make([]uint64, 0, len(set))
	for t := range set {
		tokens = append(tokens, t)
	}
	slices.Sort(tokens)
	return tokens
}

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

// holderGone ends the leases of a holder, oldest job first.
func (m *Machine) holderGone(h *holder) {
	h.grace = false
	ids := make([]job.ID, 0, len(h.jobs))
	for id := range h.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		e := m.loadRef(record.JobRef{Queue: h.jobs[id], ID: id})
		delete(h.jobs, id) // it may come back as a new lease of a wait begun in the grace
		if e == nil || e.State != job.Leased || e.Lease.Holder != h.id {
			continue // removed with its queue
		}
		m.count(e.q, job.CountEnded)
		if e.Lease.OnEnd == job.EndFail {
			m.failed(e, job.Failure{Kind: job.FailedByEnd}, nil)
		} else {
			m.leave(e)
			m.makeReady(e, job.PlaceOld)
		}
		m.serveWakes()
	}
	m.forgetHolder(h)
}

// restart applies section 8: no holder has survived, nor has any ephemeral job.
func (m *Machine) restart() {
	for _, q := range m.queuesInOrder() {
		if q.Counts[job.Leased] == 0 {
			continue
		}
		lo, hi := record.BoundLeases(q.ID)
		for _, id := range m.idsOf(lo, hi, 0) {
			e := m.mustLoad(q, id)
			m.count(q, job.CountEnded)
			m.count(q, job.CountRestarted)
			m.leave(e)
			m.makeReady(e, job.PlaceOld)
			m.serveWakes()
		}
	}
	for _, ref := range m.ephemerals() {
		if e := m.loadRef(ref); e != nil {
			m.count(e.q, job.CountCancelled)
			m.remove(e)
			m.succeeded(e)
		}
	}
	m.serveWakes()
}

// ephemerals returns the jobs that were pushed for one caller.
func (m *Machine) ephemerals() []record.JobRef {
	var refs []record.JobRef
	lo, hi := record.EphemeralSpan()
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		refs = append(refs, record.ParseEphemeralKey(key))
		return true
	})
	return refs
}
