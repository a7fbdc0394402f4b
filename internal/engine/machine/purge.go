package machine

import (
	"bytes"
	"math"

	"millrace/internal/job"
	"millrace/internal/record"
)

// A purge takes effect at once: the list is dropped with one range delete, the
// count is zero, and a mark on the queue says that jobs which entered the state
// before are gone (record.Queue.Gone). Their records are dropped afterwards, in
// bounded steps, by range deletes over runs of them: only what other key ranges say
// about them (keys, numbers, dependants) is deleted one by one. A queue of which no
// job is named elsewhere needs no such pass when it is removed whole.

// sweep is the clean-up of the records that a purge left behind. It is stored, and moves on in the
// same batch as what it has cleaned up: a crash neither repeats nor skips a job.
type sweep struct {
	id   record.QueueID
	next job.ID // where to go on
	// dropped is the namespace of a queue that was removed whole, else empty.
	dropped string
}

// purge deletes the jobs of one state. Few of them are deleted one by one. Many leave at once by a
// range delete, and a sweep follows. With a limit, and for leased jobs, it is one piece per step
// (limitToStep): the first cannot be told by a mark on the queue, and the second have holders,
// groups and slots, which must learn of each.
func (m *Machine) purge(c *job.Purge, res *job.Result) {
	q := m.findQueue(c.Namespace, c.Queue)
	if q == nil || c.State == 0 || int(c.State) >= job.StateCount {
		return
	}
	if c.Limit > 0 || c.State == job.Leased {
		res.Count = m.limitToStep(q.Counts[c.State], c.Limit, res)
		m.purgeFew(q, c.State, res.Count)
		return
	}
	res.Count = int(min(q.Counts[c.State], math.MaxInt32))
	if res.Count <= m.opt.Few {
		m.purgeFew(q, c.State, res.Count)
		return
	}
	m.purgeAll(q, c.State)
	m.startSweep(q)
	m.wakeRoom(q)
}

// purgeFew deletes the first n jobs of a list one by one. Dependants are released when all of them
// are gone: one that is purged itself must not become ready on the way.
func (m *Machine) purgeFew(q *queue, s job.State, n int) {
	ids := m.stateIDs(q, s, n)
	gone := make([]*entry, 0, len(ids))
	for _, id := range ids {
		e := m.mustLoad(q, id)
		m.countDeleted(q, s, 1)
		m.remove(e)
		gone = append(gone, e)
	}
	for _, e := range gone { // only now: those that waited for each other are gone too
		m.releaseDependants(e)
		m.serveWakes()
	}
}

// stateIDs returns the first n jobs of a state. Ready jobs are in two lists, with and without a
// group.
func (m *Machine) stateIDs(q *queue, s job.State, n int) []job.ID {
	if n == 0 {
		return nil
	}
	if s != job.Ready {
		list := record.List(s)
		return m.idsOf(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), n)
	}
	ids := m.idsOf(record.ListStart(nil, q.ID, record.ListReady), record.ListEnd(nil, q.ID, record.ListReady), n)
	more := m.idsOf(record.ListStart(nil, q.ID, record.ListGrouped), record.ListEnd(nil, q.ID, record.ListGrouped), n)
	if len(more) == 0 {
		return ids
	}
	return m.mergeReady(q, ids, more, n)
}

// mergeReady merges two lists of ready jobs by their order, which is in the jobs and not in the
// ids.
func (m *Machine) mergeReady(q *queue, a, b []job.ID, n int) []job.ID {
	var out []job.ID
	for len(out) < n && (len(a) > 0 || len(b) > 0) {
		switch {
		case len(b) == 0 || (len(a) > 0 && m.mustLoad(q, a[0]).Order.Before(m.mustLoad(q, b[0]).Order)):
			out, a = append(out, a[0]), a[1:]
		default:
			out, b = append(out, b[0]), b[1:]
		}
	}
	return out
}

// purgeAll drops the list of a state, and marks its jobs as gone: those that entered the state up
// to this moment (record.Queue.Gone). The mark is what makes a purge of any size one bounded step.
// What is in memory of the list goes with it (INV-6).
func (m *Machine) purgeAll(q *queue, s job.State) {
	m.countDeleted(q, s, q.Counts[s])
	q.clearCount(s)
	q.Purged[s] = m.nextSeq()
	m.markDirty(q)
	lists := []record.List{record.List(s)}
	if s == job.Ready {
		// All lists that name ready jobs go together, or INV-1 and INV-4 would break.
		lists = append(lists, record.ListGrouped, record.ListFirst, record.ListPerGroup, record.ListTurn)
		m.showFreed() // groups go from memory
		m.forgetReady(q)
		q.ungrouped = window{whole: true}
		q.firsts, q.turns = noFirsts, noFirsts
		q.Turn, q.Credit = 0, 0
	}
	for _, list := range lists {
		m.dropSpan(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list))
	}
	// Their records still have turns, and are written again in pieces; until then current leaves
	// them out.
	if s == job.Ready && q.Turns {
		m.rewriteGroups(q)
	}
}

// forgetReady lets all ready jobs of a queue go from memory, with its groups, which are a cache.
func (m *Machine) forgetReady(q *queue) {
	for _, e := range q.ungrouped.items[q.ungrouped.head:] {
		m.dropResident(e)
	}
	for _, w := range []*window{q.firsts, q.turns} {
		if w != nil {
			for _, e := range w.items[w.head:] {
				m.dropResident(e)
			}
		}
	}
	for _, g := range q.groups {
		for _, e := range g.ready.items[g.ready.head:] {
			m.dropResident(e)
		}
	}
	q.groups = nil
}

// removeQueue removes a queue with all its jobs. With ReadyOnly only the ready ones go, and the
// queue is hidden from lists until the next push.
func (m *Machine) removeQueue(c *job.Remove, res *job.Result) {
	q := m.findQueue(c.Namespace, c.Queue)
	if q == nil {
		res.Err = job.ErrNoQueue
		return
	}
	if c.IfIdle {
		switch {
		case !q.waiters.empty():
			res.Err = job.ErrWaiting
			return
		case q.Counts[job.Leased] > 0:
			res.Err = job.ErrBusy
			return
		}
	}
	if c.ReadyOnly {
		q.setHidden(true)
		m.markDirty(q)
		m.purge(&job.Purge{Namespace: c.Namespace, Queue: c.Queue, State: job.Ready}, res)
		m.unpause(q)
		return
	}
	res.Count = int(min(q.total(), math.MaxInt32))
	m.forgetLeases(q)
	m.dropQueue(q, c.KeepQueue)
}

// forgetLeases lets the leased jobs of queues that are removed go from memory, in one pass over the
// jobs that are there: a pass for each queue would be too much for a flush of many. The sweep has
// their holders forget them. Options.Resident bounds the pass.
func (m *Machine) forgetLeases(qs ...*queue) {
	m.mark++
	some := false
	for _, q := range qs {
		if q.Counts[job.Leased] > 0 {
			q.mark, some = m.mark, true
		}
	}
	if !some {
		return
	}
	for _, e := range m.jobs {
		if e.q.mark == m.mark {
			m.dropResident(e)
		}
	}
}

// dropQueue removes a queue with all its jobs; the caller has called forgetLeases. With keep a new,
// empty queue takes over its settings and counters, under a new number: the records of the old one
// are swept under theirs. It reads nothing: a flush of many queues makes a batch that is slow to
// read.
func (m *Machine) dropQueue(q *queue, keep bool) {
	// Those who await results are told now and not by the sweep, which may be far behind.
	m.endJobWaits(q)
	old := q.ID
	m.forgetReady(q)
	if q.total() > 0 || q.sweep != nil || q.Limits.GroupRate > 0 || q.Regroup != 0 {
		m.dropJobs(q)
	}
	delete(m.byID, old)
	q.removeFromSums()
	q.sweep = nil
	m.del(record.QueueKey(nil, q.namespace, q.name))
	m.del(record.QueueNameKey(nil, old))
	rec := q.Queue
	q.Queue = record.Queue{}
	q.ungrouped, q.firsts, q.turns, q.groups, q.regroupFrom = window{whole: true}, nil, nil, nil, nil
	m.clearAlarm(q.alarm)
	q.alarm = nil
	m.rebuildLimiter(q)
	if keep {
		m.makeQueue(q.namespace, q.name)
		id := q.ID
		q.removeFromSums()
		q.Queue = rec
		q.ID, q.Linked = id, false
		q.Turn, q.Credit, q.Regroup = 0, 0, 0
		q.Counts = [job.StateCount]uint64{}
		q.Purged = [job.StateCount]uint64{}
		q.addToSums()
		// The lifetime counters stay, so that the jobs that were removed are counted. addToSums came
		// before, because it takes the counters as they are.
		for s, n := range rec.Counts {
			m.countDeleted(q, job.State(s), n)
		}
		m.armPause(q)
		m.rebuildLimiter(q)
	} else {
		m.noteGone(q)
	}
	m.wakeRoom(q)
	m.forgetQueue(q)
}

// dropJobs deletes the records of a queue that is removed. If other key ranges name its jobs, their
// own records stay until the sweep has read from them what to delete there.
func (m *Machine) dropJobs(q *queue) {
	if q.Linked {
		m.sweepAfter(q)
	}
	for _, span := range record.QueueSpan(q.ID) {
		// All other ranges go at once.
		if q.Linked && span[0][0] == record.JobsFrom(nil, q.ID, 0)[0] {
			continue // the sweep reads the jobs before it drops them
		}
		m.dropSpan(span[0], span[1])
	}
}

// dropSpan deletes a range of keys: one by one if there are few, because every deleted range costs
// whoever reads near it until it is compacted. It reads a few keys to find out.
func (m *Machine) dropSpan(lo, hi []byte) {
	var keys [][]byte
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return len(keys) <= spanKeys
	})
	if len(keys) > spanKeys {
		m.store.DeleteRange(lo, hi)
		return
	}
	for _, key := range keys {
		m.store.Delete(key)
	}
}

// spanKeys is how many keys are deleted one by one.
const spanKeys = 16

// startSweep begins the sweep of a queue, from the beginning if one is under way: it has passed
// jobs that are purged only now.
func (m *Machine) startSweep(q *queue) { m.saveSweep(m.sweepOf(q)) }

// sweepAfter begins the sweep of a queue that is removed.
func (m *Machine) sweepAfter(q *queue) {
	s := m.sweepOf(q)
	s.dropped = q.namespace
	m.saveSweep(s)
}

// sweepOf returns the sweep of a queue, set to its beginning. A queue has at most one.
func (m *Machine) sweepOf(q *queue) *sweep {
	if q.sweep == nil {
		q.sweep = &sweep{id: q.ID}
		m.sweeps = append(m.sweeps, q.sweep)
	}
	q.sweep.next = 0
	return q.sweep
}

// saveSweep stores how far a sweep has got.
func (m *Machine) saveSweep(s *sweep) {
	m.keyBuf = record.SweepKey(m.keyBuf[:0], s.id)
	m.set(m.keyBuf, record.AppendSweep(nil, record.Sweep{Next: s.next, Dropped: s.dropped}))
}

// loadSweep takes up a sweep that a crash or a shutdown has interrupted. Its queue may be gone.
func (m *Machine) loadSweep(key, value []byte) {
	rec, err := record.DecodeSweep(value)
	corrupt("sweep", err)
	s := &sweep{id: record.ParseSweepKey(key), next: rec.Next, dropped: rec.Dropped}
	m.sweeps = append(m.sweeps, s)
	if q := m.byID[s.id]; q != nil {
		q.sweep = s
	}
}

// sweepSome does one step of the clean-up and reports whether there is more. Sweeps follow each
// other. Each job is a transition of its own: the end of a purged job may release others and push
// callbacks. If that leaves work over, the step ends there: left-over work comes before the sweep,
// and a purge of many blockers must not pile it up.
func (m *Machine) sweepSome() bool {
	if len(m.sweeps) == 0 {
		return false
	}
	s := m.sweeps[0]
	q := m.byID[s.id]
	if q == nil && s.dropped == "" {
		m.endSweep(s)
		return len(m.sweeps) > 0
	}
	dead, next, done := m.sweepRead(s, q)
	for i, e := range dead {
		m.beginTransition()
		m.sweepJob(s, e)
		m.endTransition()
		if m.Unfinished() && i+1 < len(dead) { // that comes first
			next, done, dead = dead[i+1].ID, false, dead[:i+1]
			break
		}
	}
	for _, run := range idRanges(dead) {
		m.store.DeleteRange(record.JobsFrom(nil, s.id, run[0]), record.JobsFrom(nil, s.id, run[1]+1))
	}
	s.next = next
	if done {
		m.endSweep(s)
	} else {
		m.saveSweep(s)
	}
	return len(m.sweeps) > 0
}

// swept is a job that was purged and whose records are still there.
type swept struct {
	job.Job
	alone bool // a live job precedes it directly
}

// sweepRead reads the next jobs of a queue, SweepStep of them or scanBytes, and returns those that
// were purged. Next is where the following step goes on. Bodies are passed over.
func (m *Machine) sweepRead(s *sweep, q *queue) (dead []*swept, next job.ID, done bool) {
	lo := record.JobsFrom(nil, s.id, s.next)
	hi := record.JobsFrom(nil, s.id+1, 0)
	var all []*swept
	done = true
	size := 0
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		_, id, part, ok := record.ParseJobKey(key)
		if !ok {
			corrupt("job key", record.ErrFormat)
		}
		size += len(value)
		switch part {
		case record.PartFirst:
			if len(all) == m.opt.SweepStep || size > scanBytes {
				next, done = id, false
				return false
			}
			j := &swept{}
			corrupt("job", record.DecodeFirst(value, &j.Job))
			j.ID, j.Body, j.Extra = id, nil, nil
			all = append(all, j)
		case record.PartState:
			corrupt("job", record.DecodeMeta(value, &all[len(all)-1].Job))
		case record.PartBody, record.PartFailures, record.PartResult, record.PartProgress:
		}
		return true
	})
	// The first of this portion is not joined to what came before it: a live job may lie between.
	alone := true
	for _, j := range all {
		if q != nil && !q.Gone(&j.Job) {
			alone = true
			continue
		}
		j.alone, alone = alone, false
		dead = append(dead, j)
	}
	return dead, next, done
}

// idRanges joins neighbours among the dead into ranges of ids, each of which is one range delete.
// Between two neighbours there is no live job, so that the range has none either.
func idRanges(dead []*swept) [][2]job.ID {
	var out [][2]job.ID
	for _, j := range dead {
		// A live job lies before it: a range must not reach over that.
		if j.alone || len(out) == 0 {
			out = append(out, [2]job.ID{j.ID, j.ID})
		} else {
			out[len(out)-1][1] = j.ID
		}
	}
	return out
}

// sweepJob deletes what is said about a purged job elsewhere, and does what its end causes. Its own
// records go with the range deletes of sweepSome. It works on a copy with a queue that has nothing
// but its number: the job is in no list, in no window and in no count any more.
func (m *Machine) sweepJob(s *sweep, j *swept) {
	namespace := s.dropped
	if q := m.byID[s.id]; q != nil {
		namespace = q.namespace
	}
	if j.Timer != 0 {
		m.keyBuf = record.TimerKey(m.keyBuf[:0], j.Timer, s.id, j.ID)
		m.del(m.keyBuf) // it may have fired meanwhile
	}
	e := &entry{Job: j.Job, q: &queue{Queue: record.Queue{ID: s.id}, namespace: namespace}}
	if s.dropped != "" { // these went with the queue
		e.Flags &^= job.FlagSerial
		e.Fingerprint = job.Digest{}
	}
	if e.Flags.Has(job.FlagNumbered) {
		// The number may belong to a newer job by now.
		if r, ok := m.getNumber(e.ID.Number()); !ok || r.ID != e.ID {
			e.Flags &^= job.FlagNumbered
		}
	}
	// Its holder still has it if the queue was removed whole.
	if e.State == job.Leased {
		m.releaseFromHolder(&e.Job)
	}
	m.countFailedInBatch(e)
	m.noteTickEnd(e, job.Removed)
	m.unlink(e)
	if e.State == job.Blocked {
		m.unblock(e)
	}
	m.releaseDependants(e)
	m.notifyGone(e)
}

// endSweep forgets the sweep that is done, which is the first one.
func (m *Machine) endSweep(s *sweep) {
	m.keyBuf = record.SweepKey(m.keyBuf[:0], s.id)
	m.del(m.keyBuf)
	m.sweeps = m.sweeps[1:]
	if q := m.byID[s.id]; q != nil {
		q.sweep = nil
	}
}
