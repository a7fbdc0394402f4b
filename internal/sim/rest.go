package sim

import (
	"cmp"
	"maps"
	"slices"

	"millrace/internal/job"
)

// One step does a bounded amount of work (section 13). What it leaves over is continued in
// pieces, one of each kind at a time.

// unsettled is what is left to do for the dependants of a job that has ended.
type unsettled struct {
	id     job.ID
	failed bool
	before job.ID
	kept   bool // it has been left over
	order  uint64
}

// orphan is a lease to be ended, because its holder has gone: the n-th entry of the job
// into a state.
type orphan struct {
	id      job.ID
	entered uint64
}

// flushing is a flush that is under way.
type flushing struct {
	ns      string
	door    job.Door
	batches int // how many are still to be removed; nobody sees them any more
	before  uint32
	next    uint32 // queues with lower numbers are done
	token   uint64
	kept    map[queueName]bool
}

// looks is how many entries a piece looks at.
func (m *Model) looks() int { return 16 + 2*m.StepWork }

// transition gives a command, a timer or a piece its share of work.
func (m *Model) transition() { m.links, m.leases = m.StepWork, m.StepWork }

// unfinished reports whether something is left over.
func (m *Model) unfinished() bool {
	return m.endsLeft || len(m.canceled) > 0 || len(m.orphans) > 0 || m.restarting || m.flush != nil
}

// piece continues each kind of what is left over.
func (m *Model) piece() {
	for _, do := range []func(){m.continueEnd, m.continueHolders, m.continueRestart, m.continueFlush} {
		m.transition()
		m.inPiece = true
		do()
		m.inPiece = false
		m.advance()
		m.serve()
	}
}

// Piece fires the timers that are due, and does one piece of what is left over.
func (m *Model) Piece(now job.Time, o Oracle) ([]Completion, error) {
	m.begin(now, o)
	m.fireDue()
	m.behind = m.behind && o.Behind()
	if m.unfinished() {
		m.piece()
	}
	m.serve()
	return m.end()
}

// endDependants releases or fails those that wait for a job that has ended, once what its
// own end set free has been given out.
func (m *Model) endDependants(id job.ID, failed bool) {
	m.follow()
	m.ends = append(m.ends, unsettled{id: id, failed: failed, before: m.lastID + 1})
	if !m.ending {
		m.settleEnds()
	}
}

func (m *Model) settleEnds() {
	m.ending = true
	for len(m.ends) > 0 {
		x := m.ends[0]
		m.ends = m.ends[1:]
		if !x.kept && slices.ContainsFunc(m.left, func(o unsettled) bool { return o.id == x.id }) {
			m.keepEnd(x)
			continue
		}
		waiting := m.dependants(x)
		now := waiting[:min(m.links, len(waiting))]
		m.links -= len(now)
		for _, id := range now {
			m.endDependant(x, id)
		}
		if len(waiting) > len(now) {
			m.keepEnd(x)
		}
	}
	m.ending = false
}

func (m *Model) keepEnd(x unsettled) {
	if !x.kept {
		x.kept = true
		m.entered++
		x.order = m.entered
	}
	m.left = append(m.left, x)
	slices.SortFunc(m.left, func(a, b unsettled) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.order, b.order))
	})
	m.endsLeft = true
}

// dependants returns the jobs that an end concerns, by queue and id.
func (m *Model) dependants(x unsettled) []job.ID {
	js := m.sorted(func(j *entry) bool { return j.ID < x.before && slices.Contains(j.Blockers, x.id) })
	slices.SortStableFunc(js, func(a, b *entry) int { return cmp.Compare(a.QueueNum, b.QueueNum) })
	var ids []job.ID
	for _, j := range js {
		ids = append(ids, j.ID)
	}
	return ids
}

func (m *Model) endDependant(x unsettled, id job.ID) {
	j := m.jobs[id]
	if j == nil || !slices.Contains(j.Blockers, x.id) {
		return
	}
	if x.failed {
		j.remember(job.Failure{At: m.now, Kind: job.FailedByBlocker})
		m.exhaustOne(j, nil)
		m.endDependants(id, true)
		return
	}
	j.Blockers = slices.DeleteFunc(slices.Clone(j.Blockers), func(b job.ID) bool { return b == x.id })
	switch {
	case len(j.Blockers) > 0:
	case j.RunAt > m.now:
		m.toScheduled(j)
	default:
		m.toReady(j, job.PlaceTail)
	}
}

// continueEnd goes on with the next job that has ended, in turn.
func (m *Model) continueEnd() {
	if len(m.left) == 0 {
		m.endsLeft, m.lastEnd = false, 0
		return
	}
	i := max(slices.IndexFunc(m.left, func(x unsettled) bool { return x.id > m.lastEnd }), 0)
	x := m.left[i]
	m.left = slices.Delete(slices.Clone(m.left), i, i+1)
	m.lastEnd = x.id
	m.ends = append(m.ends, x)
	m.settleEnds()
}

// settleBlockers deals with a blocked job as what is left of the ends of its blockers will.
func (m *Model) settleBlockers(j *entry) {
	for _, id := range slices.Clone(j.Blockers) {
		for _, x := range slices.Clone(m.left) {
			if x.id == id && j.ID < x.before {
				m.endDependant(x, j.ID)
			}
		}
	}
}

// continueHolders ends waits and leases of holders that have gone.
func (m *Model) continueHolders() {
	m.endCanceled()
	m.endOrphans()
}

func (m *Model) endCanceled() {
	for len(m.canceled) > 0 && m.leases > 0 {
		m.leases--
		w := m.waitOf(m.canceled[0])
		m.canceled = m.canceled[1:]
		if w != nil {
			m.giveUp(w, job.ErrCanceled)
		}
	}
}

func (m *Model) endOrphans() {
	for len(m.orphans) > 0 && m.leases > 0 {
		m.leases--
		o := m.orphans[0]
		m.orphans = m.orphans[1:]
		j := m.jobs[o.id]
		if j == nil || j.State != job.Leased || j.Entered != o.entered {
			continue
		}
		m.count(j, job.CountEnded)
		if j.Lease.OnEnd == job.EndFail {
			m.fail(j, job.Failure{Kind: job.FailedByEnd}, nil)
		} else {
			m.toReady(j, job.PlaceOld)
		}
	}
}

// orphaned reports whether the holder of a lease has gone.
func (m *Model) orphaned(j *entry) bool {
	return slices.Contains(m.orphans, orphan{j.ID, j.Entered}) || m.restarting &&
		j.Entered <= m.lastEntered && j.got == 0
}

// continueRestart releases leases from before the restart whose holders are gone, gives the others back to
// their holders, and then withdraws jobs whose callers are gone.
func (m *Model) continueRestart() {
	if !m.restarting {
		return
	}
	stale := m.sorted(func(j *entry) bool {
		return j.State == job.Leased && j.Lease.OnEnd != job.EndKeep && j.Entered <= m.lastEntered && j.got == 0
	})
	slices.SortFunc(stale, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.QueueNum, b.QueueNum), cmp.Compare(a.Entered, b.Entered))
	})
	for _, j := range stale[:min(m.leases, len(stale))] {
		m.leases--
		if m.keeps(j.Lease.Holder) {
			m.hold(j)
			continue
		}
		m.count(j, job.CountEnded)
		m.count(j, job.CountRestarted)
		m.toReady(j, job.PlaceOld)
	}
	if m.leases == 0 {
		return
	}
	runs := m.sorted(func(j *entry) bool {
		return j.Flags.Has(job.FlagEphemeral) && j.ID <= m.lastRun && !slices.Contains(m.passed, j.ID)
	})
	slices.SortStableFunc(runs, func(a, b *entry) int { return cmp.Compare(a.QueueNum, b.QueueNum) })
	for _, j := range runs {
		if m.jobs[j.ID] != j {
			continue // it went with one that it waited for
		}
		if m.leases == 0 {
			return
		}
		m.leases--
		m.passed = append(m.passed, j.ID)
		if j.State != job.Leased || j.Entered <= m.lastEntered {
			m.withdraw(j)
		}
	}
	m.restarting = false
}

// hold notes that a holder has come to hold a lease.
func (m *Model) hold(j *entry) {
	m.got++
	j.got = m.got
}

// beginFlush fixes what a flush means.
func (m *Model) beginFlush(token uint64, c *job.Flush) {
	n := len(m.batches)
	maps.DeleteFunc(m.batches, func(_ job.BatchID, b *batch) bool { return b.ns == c.Namespace })
	maps.DeleteFunc(m.locks, func(name lockName, _ lock) bool { return name.ns == c.Namespace })
	maps.DeleteFunc(m.outcomes, func(name keyName, _ outcome) bool { return name.ns == c.Namespace })
	m.flush = &flushing{
		ns: c.Namespace, door: c.Door, batches: n - len(m.batches), before: m.lastQueue + 1, token: token,
		kept: map[queueName]bool{},
	}
}

// flushSome removes some batches, or else some queues, and reports whether that was all.
func (m *Model) flushSome() bool {
	f := m.flush
	n := min(m.StepWork, f.batches)
	f.batches -= n
	if n == m.StepWork {
		return false
	}
	looks := m.looks()
	var doomed []*queue
	for ; f.next < f.before && len(doomed) < 1+(m.StepWork-n-1)/16 && looks > 0; f.next++ {
		looks--
		for _, q := range m.queues {
			if q.num == f.next && f.dooms(q) {
				doomed = append(doomed, q)
			}
		}
	}
	for _, q := range doomed {
		m.dropQueue(q.queueName)
		delete(m.queues, q.queueName)
	}
	return f.next >= f.before
}

// dooms reports whether a flush removes a queue.
func (f *flushing) dooms(q *queue) bool {
	return q.ns == f.ns && !f.kept[q.queueName] && (f.door == 0 || q.doors.Has(f.door))
}

// continueFlush goes on with a flush, and then with the next one.
func (m *Model) continueFlush() {
	if m.flush == nil || !m.flushSome() {
		return
	}
	if w := m.waitOf(m.flush.token); w != nil {
		m.complete(w, job.Result{})
	}
	m.flush = nil
	for _, w := range m.waits {
		if c, ok := w.cmd.(*job.Flush); ok {
			m.beginFlush(w.token, c)
			return
		}
	}
}

// flushBefore removes or spares a queue that is about to change, if a flush is still to
// come to it.
func (m *Model) flushBefore(name queueName) {
	q, f := m.queues[name], m.flush
	switch {
	case q == nil || f == nil || q.ns != f.ns || q.num < f.next || q.num >= f.before || f.kept[name]:
	case f.dooms(q):
		m.dropQueue(name)
		delete(m.queues, name)
	default:
		f.kept[name] = true
	}
}
