package machine

import (
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// restart is what is left to do because the process was started. After a restart no holder exists
// except for those that are kept, and nobody waits for the result of a job that was pushed for one
// caller (section 8). The leases and jobs concerned are those from before the restart: sequence
// numbers and ids tell them from newer ones, and they are dealt with in pieces. Nothing of this is
// stored: another restart finds out again.
type restart struct {
	seq   uint64 // leases from before it have lost their holder, or are still to be adopted
	id    job.ID // ephemeral jobs before it have lost their caller
	leads []record.QueueID
	from  []byte // where to go on among the leases of the first of them; nil: at their beginning
	next  []byte // where to go on among the ephemeral jobs; nil: all are done
}

// beginRestart finds out what a restart has to deal with, and deals with the first of it. It reads
// the counts of the queues only. The order of the queues is that of their numbers, not of a map.
func (m *Machine) beginRestart() {
	m.restart = restart{seq: m.shard.NextSeq, id: m.shard.NextID}
	for _, q := range m.queuesInOrder() {
		if q.Counts[job.Leased] > 0 {
			m.restart.leads = append(m.restart.leads, q.ID)
		}
	}
	m.restart.next, _ = record.EphemeralSpan()
	m.continueRestart()
}

// continueRestart releases some more leases whose holders are gone, and then withdraws some more
// jobs whose callers are. Commands are applied in between, and see the jobs as leased until their
// turn has come.
func (m *Machine) continueRestart() {
	r := &m.restart
	if len(r.leads) == 0 && r.next == nil {
		return
	}
	m.beginTransition()
	for len(r.leads) > 0 && m.leaseBudget > 0 {
		if q := m.byID[r.leads[0]]; q == nil || m.releaseBound(q) {
			r.leads, r.from = r.leads[1:], nil
		}
	}
	if len(r.leads) == 0 && m.leaseBudget > 0 {
		m.withdrawStale()
	}
	m.endTransition()
}

// releaseBound releases leases of a queue from before the restart that were to end with their
// holders, or gives them back to those that are kept, and reports whether none is left. These
// leases come first in the list, in the order of leasing: those of workers that have come since the
// restart are behind them.
func (m *Machine) releaseBound(q *queue) (done bool) {
	lo, hi := record.BoundLeases(q.ID)
	if m.restart.from != nil {
		lo = m.restart.from
	}
	ids := m.idsOf(lo, hi, m.leaseBudget)
	for _, id := range ids {
		e := m.mustLoad(q, id)
		if plant.LeasesForgotten.On() || e.Entered >= m.restart.seq && !plant.NewerReleased.On() {
			return true // so are all that follow
		}
		m.leaseBudget--
		if m.adoptLease(e) {
			m.restart.from = append(record.ListKey(nil, q.ID, record.ListLeased, &e.Job), 0)
			continue
		}
		m.count(q, job.CountEnded)
		m.count(q, job.CountRestarted)
		m.leave(e)
		m.makeReady(e, plant.Or(job.PlaceOld, plant.ReleasedLast, job.PlaceTail))
		m.serveWakes()
	}
	return m.leaseBudget > 0
}

// withdrawStale withdraws ephemeral jobs from before the restart. One that a worker has got since
// then runs on, and goes when it ends: a release would withdraw it (withdrawIfAbandoned).
func (m *Machine) withdrawStale() {
	_, hi := record.EphemeralSpan()
	var refs []record.JobRef
	m.store.Scan(m.restart.next, hi, false, func(key, _ []byte) bool {
		refs = append(refs, record.ParseEphemeralKey(key))
		return len(refs) < m.opt.lookMax()
	})
	for _, ref := range refs {
		e := m.loadRef(ref)
		if ref.ID >= m.restart.id || e == nil {
			continue
		}
		if m.leaseBudget == 0 {
			m.restart.next = record.EphemeralKey(nil, ref.Queue, ref.ID)
			return
		}
		m.leaseBudget--
		// Also if a worker had it before the restart: its caller is gone, and nobody else may see
		// the result.
		if e.State != job.Leased || e.Entered < m.restart.seq {
			m.count(e.q, job.CountCancelled)
			m.remove(e)
			m.releaseDependants(e)
			m.serveWakes()
		}
	}
	m.restart.next = nil
	if n := len(refs); n == m.opt.lookMax() {
		m.restart.next = record.EphemeralKey(nil, refs[n-1].Queue, refs[n-1].ID+1)
	}
}
