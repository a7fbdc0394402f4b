package machine

import (
	"math"
	"slices"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// block makes a new job wait for its blockers, each of which learns that it has dependants (INV-8).
// Put and not save writes a blocker, because neither its state nor its timer changes. Both queues
// are marked as linked: when one of them is removed, the sweep has to find these entries.
func (m *Machine) block(e *entry, blockers []*entry) {
	for _, b := range blockers {
		e.Blockers = append(e.Blockers, b.ID)
		if !b.Flags.Has(job.FlagDependants) {
			b.q.Linked = true
			m.markDirty(b.q)
			b.Flags |= job.FlagDependants
			m.put(b)
		}
	}
	m.listBlocked(e)
}

// listBlocked lists a blocked job with each of its blockers, in the order of queues and ids in
// which they are dealt with when the blocker ends (section 6).
func (m *Machine) listBlocked(e *entry) {
	for _, id := range e.Blockers {
		m.keyBuf = record.DependantKey(m.keyBuf[:0], id, e.q.ID, e.ID)
		m.set(m.keyBuf, nil)
	}
	e.q.Linked = true
}

// unblock strikes a job that is no longer blocked off the lists of its blockers. leave calls it.
func (m *Machine) unblock(e *entry) {
	for _, id := range e.Blockers {
		m.keyBuf = record.DependantKey(m.keyBuf[:0], id, e.q.ID, e.ID)
		m.del(m.keyBuf)
	}
	e.Blockers = nil
}

// A job that ends may have any number of dependants, and when it fails, these have
// dependants of their own. One transition releases or fails at most Options.StepWork of
// them. What is left over is stored with the batch as an ending, and continued by later
// steps, between which commands get their turn. An ending moves on in the same batch as
// the jobs that it has dealt with, so that a crash neither repeats nor skips one.

// ending is what is to be done for the dependants of a job that has ended.
type ending struct {
	record.Ending
	id  job.ID
	seq uint64 // zero: not stored
}

// releaseDependants releases the jobs that wait for one that has left its list: it has succeeded,
// or is gone without having failed. The flag spares jobs without dependants a look into the store.
func (m *Machine) releaseDependants(e *entry) {
	if e.Flags.Has(job.FlagDependants) {
		m.endDependants(e.ID, false)
	}
}

// endAndFailDependants ends a job by end, and then fails every job that waits for it, directly or
// through others (section 6). The flag is read before, because end may erase the job, and what its
// end set free is given out before its dependants are touched.
func (m *Machine) endAndFailDependants(e *entry, end func()) {
	awaited := e.Flags.Has(job.FlagDependants)
	end()
	m.serveWakes()
	if awaited {
		m.endDependants(e.ID, true)
	}
}

// endDependants releases or fails the jobs that wait for one that has ended, as many as this
// transition may. First those that wait for it directly, in the order of their queues and ids, then
// those that wait for these. Called from within itself, for a dependant that has failed, it only
// queues up: a chain of any length needs no deeper stack. Jobs pushed from now on wait for what the
// job has become, and are not meant (Before).
func (m *Machine) endDependants(id job.ID, failed bool) {
	m.serveWakes() // what its own end set free comes first
	m.endings = append(m.endings, &ending{id: id, Ending: record.Ending{Failed: failed, Before: m.shard.NextID}})
	if !m.settlingEndings {
		m.settlingEndings = true
		m.settleEndings()
		m.settlingEndings = false
	}
}

// settleEndings deals with the endings that are queued up, and stores what is too much for this
// transition. The record of an ending is written or deleted in the batch that has what was done for
// it.
func (m *Machine) settleEndings() {
	for len(m.endings) > 0 {
		x := m.endings[0]
		m.endings = m.endings[1:]
		if x.seq == 0 && m.endingLeft(x.id) && !plant.SecondEndFirst.On() {
			m.putEnding(x) // behind the one that is left from the last time the job ended
			continue
		}
		refs, more := m.dependants(x)
		for _, ref := range refs {
			m.endDependant(x, ref)
		}
		switch {
		case more:
			m.putEnding(x)
		case x.seq != 0:
			m.del(record.EndingKey(nil, x.id, x.seq))
		}
	}
	m.endings = nil
}

// dependants takes the next jobs of an ending, as many as this transition may deal with, and
// reports whether there are more. Entries of purged jobs are passed over, and those of jobs pushed
// later; they cost a look, of which there are lookMax. Next names the first that was not taken.
func (m *Machine) dependants(x *ending) (refs []record.JobRef, more bool) {
	lo, hi := record.DependantSpan(x.id)
	if x.Next != (record.JobRef{}) {
		lo = record.DependantKey(nil, x.id, x.Next.Queue, x.Next.ID)
	}
	var seen []record.JobRef
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		q, id, ok := record.ParseDependantKey(key)
		if !ok {
			corrupt("dependant", record.ErrFormat)
		}
		seen = append(seen, record.JobRef{Queue: q, ID: id})
		return len(seen) < m.opt.lookMax()
	})
	for _, ref := range seen {
		switch {
		// Pushed after the job ended, or gone: not meant.
		case ref.ID >= x.Before || m.isPurged(ref):
		case len(refs) == m.dependantBudget:
			x.Next = ref
			if plant.DependantSkipped.On() {
				x.Next.ID++
			}
			m.dependantBudget = 0
			return refs, true
		default:
			refs = append(refs, ref)
		}
	}
	m.dependantBudget -= len(refs)
	// The whole list was seen.
	if len(seen) < m.opt.lookMax() {
		return refs, false
	}
	x.Next = seen[len(seen)-1]
	x.Next.ID++
	return refs, true
}

// lookMax is how many entries a step looks at to find some that it has to deal with. It is more
// than StepWork, so that a step always gets on, even if most of what it sees does not count.
func (o *Options) lookMax() int { return 16 + 2*o.StepWork }

// isPurged reports whether a blocked job is gone and its records are still to be swept. Only a
// queue from which blocked jobs were purged has to be asked for the job.
func (m *Machine) isPurged(ref record.JobRef) bool {
	q := m.byID[ref.Queue]
	return q == nil || q.Purged[job.Blocked] != 0 && m.loadJob(q, ref.ID) == nil
}

// endDependant strikes an ended job off the list of one that waits for it, or fails that one. It
// does nothing to a job that does not wait any more: the entry may have been dealt with before a
// move.
func (m *Machine) endDependant(x *ending, ref record.JobRef) {
	d := m.loadRef(ref)
	if d == nil || d.State != job.Blocked || !slices.Contains(d.Blockers, x.id) {
		return
	}
	if x.Failed {
		awaited := d.Flags.Has(job.FlagDependants)
		// One blocker that fails is enough, whatever the job's own tries and the other blockers.
		m.remember(d, job.Failure{Kind: job.FailedByBlocker})
		m.exhaustOne(d, nil)
		m.serveWakes()
		if awaited {
			m.endDependants(d.ID, true)
		}
		return
	}
	m.keyBuf = record.DependantKey(m.keyBuf[:0], x.id, ref.Queue, ref.ID)
	m.del(m.keyBuf)
	// A copy, because an answer may share the slice.
	d.Blockers = slices.DeleteFunc(slices.Clone(d.Blockers), func(b job.ID) bool { return b == x.id })
	if len(d.Blockers) > plant.Or(0, plant.LastBlockerIgnored, 1) {
		m.save(d)
		return
	}
	m.leave(d)
	if d.RunAt > m.now {
		m.enter(d, job.Scheduled)
		m.save(d)
	} else {
		m.makeReady(d, job.PlaceTail)
	}
	m.serveWakes()
}

// settleBlockers deals with a blocked job as the endings that are left for its blockers will, and
// reports whether there was one. A move calls it first: an ending goes through its dependants by
// queue and id, and would miss a job that has changed queues meanwhile.
func (m *Machine) settleBlockers(e *entry) (settled bool) {
	if !m.endingsLeft || e.State != job.Blocked {
		return false
	}
	ref := record.JobRef{Queue: e.q.ID, ID: e.ID}
	for _, id := range slices.Clone(e.Blockers) {
		for _, x := range m.endingsOf(id, id, math.MaxInt) {
			if e.ID < x.Before {
				m.endDependant(x, ref)
				settled = true
			}
		}
	}
	return settled
}

// putEnding stores what is left of an ending. The first id among the stored ones is remembered, so
// that looking for the next does not pass the deleted records of all earlier ones.
func (m *Machine) putEnding(x *ending) {
	if x.seq == 0 {
		x.seq = m.nextSeq()
	}
	m.keyBuf = record.EndingKey(m.keyBuf[:0], x.id, x.seq)
	m.valueBuf = record.AppendEnding(m.valueBuf[:0], x.Ending)
	m.set(m.keyBuf, m.valueBuf)
	if !m.endingsLeft || x.id < m.firstEnding {
		m.firstEnding = x.id
	}
	m.endingsLeft = true
}

// endingLeft reports whether an earlier end of a job has left dependants over. A later end of the
// same job waits behind it.
func (m *Machine) endingLeft(id job.ID) bool {
	return m.endingsLeft && len(m.endingsOf(id, id, 1)) > 0
}

// endingsOf returns the first n stored endings of the jobs from one id to another.
func (m *Machine) endingsOf(from, to job.ID, n int) (xs []*ending) {
	lo, hi := record.EndingSpan(from, to)
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		id, seq, ok := record.ParseEndingKey(key)
		if !ok {
			corrupt("ending", record.ErrFormat)
		}
		rec, err := record.DecodeEnding(value)
		corrupt("ending", err)
		xs = append(xs, &ending{Ending: rec, id: id, seq: seq})
		return len(xs) < n
	})
	return xs
}

// continueEnding deals with some more dependants of one job. Jobs take turns, so that one with many
// dependants does not hold up the others: the next one behind the last, and from the first again.
func (m *Machine) continueEnding() {
	if !m.endingsLeft {
		return
	}
	xs := m.endingsOf(m.lastEnding+1, math.MaxUint64, 1)
	if len(xs) == 0 {
		xs = m.endingsOf(m.firstEnding, math.MaxUint64, 1)
		if len(xs) == 0 {
			m.endingsLeft, m.lastEnding = false, 0
			return
		}
		m.firstEnding = xs[0].id // those before it are done
	}
	m.lastEnding = xs[0].id
	m.beginTransition()
	m.settlingEndings = true
	m.endings = append(m.endings, xs[0])
	m.settleEndings()
	m.settlingEndings = false
	m.endTransition()
}
