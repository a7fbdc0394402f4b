package machine

import (
	"bytes"
	"math"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// checkParts asserts that a job has the records that its flags say it has, and an id that has been
// given out: an id from the future would be given out again.
func (c *checker) checkParts(s *storedJob) error {
	for _, p := range [...]struct {
		part record.Part
		has  bool
	}{
		{record.PartBody, s.Flags&(job.FlagTombstone|job.FlagInline) == 0},
		{record.PartFailures, s.Flags.Has(job.FlagFailures)},
		{record.PartResult, s.Flags.Has(job.FlagResult)},
	} {
		if s.parts[p.part] != p.has {
			return broken(1, "part %d is there: %v, flags %b", p.part, s.parts[p.part], s.Flags)
		}
	}
	if s.ID >= c.shard.NextID {
		return broken(12, "the next id is %d", c.shard.NextID)
	}
	return nil
}

// checkJob asserts what holds of one job, and that it is found where it must be. That nothing else
// is found there follows from the counts, which are compared later.
func (c *checker) checkJob(e *entry) error {
	// What is in memory must be what a restart would read.
	if r := c.jobs[e.ID]; r != nil {
		a, b := record.AppendMeta(nil, &e.Job), record.AppendMeta(nil, &r.Job)
		if !bytes.Equal(a, b) || r.q != e.q {
			return broken(12, "memory says %+v, the store %+v", r.Job, e.Job)
		}
	}
	if (e.State == job.Leased) != (e.Lease != job.Lease{}) && e.State != job.Leased {
		return broken(2, "%v with lease %+v", e.State, e.Lease)
	}
	// A lease that ends with its holder is known to the holder, with its end, or its holder has
	// gone and it is still to be ended.
	if e.State == job.Leased && e.Lease.OnEnd != job.EndKeep {
		h := c.holders[e.Lease.Holder]
		if known := h != nil && h.leases[e.ID] != nil && h.leases[e.ID].entered == e.Entered; !known && !c.orphaned(e) {
			return broken(2, "its holder %v does not know", e.Lease.Holder)
		} else if known && !endsAt(h, h.leases[e.ID], e.Lease.Until) {
			return broken(2, "its holder %v knows another end", e.Lease.Holder)
		}
	}
	if e.Flags.Has(job.FlagBuriedLast) && e.State != job.Buried {
		return broken(1, "%v, and last of those that are buried", e.State)
	}
	if e.Timer != timerOf(e) {
		return broken(7, "timer %d, should be %d", e.Timer, timerOf(e))
	}
	if e.Timer != 0 {
		c.timed++
		if _, _, ok := c.store.Get(nil, record.TimerKey(nil, e.Timer, e.q.ID, e.ID)); !ok {
			return broken(7, "timer %d is not stored", e.Timer)
		}
		if err := c.checkTimerLoaded(timerItem{e.Timer, e.q.ID, e.ID}); err != nil {
			return err
		}
	}
	if !c.listed(e, listOf(e)) {
		return broken(1, "not in list %d", listOf(e))
	}
	if e.Group != "" {
		if err := c.checkGroup(e); err != nil {
			return err
		}
	}
	if (e.State == job.Blocked) != (len(e.Blockers) > 0) {
		return broken(8, "%v with blockers %v", e.State, e.Blockers)
	}
	for _, id := range e.Blockers {
		b := c.anyJob(e.q, id)
		// It was purged, and the sweep that releases its dependants has not come to it.
		if b == nil && len(c.sweeps) > 0 {
			continue
		}
		if (b == nil || b.State.Finished() || !b.Flags.Has(job.FlagDependants)) && !c.endingOf(id, e) {
			return broken(8, "blocker %d is gone, finished or does not know", id)
		}
		if _, _, ok := c.store.Get(nil, record.DependantKey(nil, id, e.q.ID, e.ID)); !ok {
			return broken(8, "not listed as a dependant of %d", id)
		}
	}
	return c.checkNamed(e)
}

// checkGroup asserts that a job that is ready is found under its group, and that the group of
// a leased one knows of it.
func (c *checker) checkGroup(e *entry) error {
	switch e.State {
	case job.Ready:
		if !c.listed(e, record.ListPerGroup) {
			return broken(1, "not listed by its group %q", e.Group)
		}
	case job.Leased:
		if g := c.storedGroup(e.q, e.Group); g.Running == 0 {
			return broken(4, "leased, and its group %q has no job that is", e.Group)
		}
	case job.Scheduled, job.Blocked, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead:
	}
	return nil
}

// endsAt reports whether a holder knows when time ends a lease; zero is never.
func endsAt(h *holder, l *holderLease, at job.Time) bool {
	if l.index < 0 {
		return at == 0
	}
	return l.at == at && l.index < len(h.ends) && h.ends[l.index] == l
}

// orphaned reports whether a lease is still to be ended because its holder has gone, or was lost in
// a restart.
func (c *checker) orphaned(e *entry) bool {
	for _, l := range c.orphans.items[c.orphans.head:] {
		for ; l != nil; l = l.next {
			if l.ref.ID == e.ID && l.entered == e.Entered {
				return true
			}
		}
	}
	return slices.Contains(c.restart.leads, e.q.ID) && e.Entered < c.restart.seq
}

// endingOf reports whether a blocked job is still to learn that a blocker has ended: an ending is
// stored that means the job and has not come to it.
func (c *checker) endingOf(blocker job.ID, e *entry) bool {
	return slices.ContainsFunc(c.endingsOf(blocker, blocker, math.MaxInt), func(x *ending) bool {
		// An ending deals with its dependants in the order of queues and ids.
		passed := e.q.ID < x.Next.Queue || e.q.ID == x.Next.Queue && e.ID < x.Next.ID
		return e.ID < x.Before && !passed
	})
}

// anyJob loads a job whose queue is not known but likely this one: blockers are named by their ids
// alone.
func (c *checker) anyJob(likely *queue, id job.ID) *entry {
	if e := c.loadJob(likely, id); e != nil {
		return e
	}
	// A blocker is nearly always in the queue of its dependant. Only a check may look into all of
	// them.
	for _, q := range c.byID { // at most one of them has it
		if e := c.loadJob(q, id); e != nil {
			return e
		}
	}
	return nil
}

// checkTimerLoaded asserts that a timer will fire (INV-7): it is in the heap, or behind the horizon
// and not earlier than memory thinks anything is there.
func (c *checker) checkTimerLoaded(t timerItem) error {
	if t.before(c.horizon) {
		if _, found := slices.BinarySearchFunc(c.inMemory, t, orderTimers); !found {
			return broken(7, "timer %d is before the horizon and not in memory", t.at)
		}
	}
	if !t.before(c.horizon) && t.at < c.earliestBeyond {
		return broken(7, "timer %d is beyond the horizon, where nothing is thought to be before %d",
			t.at, c.earliestBeyond)
	}
	return nil
}

// checkNamed asserts that a job is found under what it can be named by (INV-9), and counts what it
// is named by for checkLinks.
func (c *checker) checkNamed(e *entry) error {
	for i, l := range links {
		c.linked[i] += l.count(e)
	}
	if mustHaveKey(e) && !c.underKey(e) {
		return broken(9, "not found under its key %q", e.Key)
	}
	if e.Flags.Has(job.FlagNumbered) {
		if r, ok := c.getNumber(e.ID.Number()); !ok || r.ID != e.ID || r.Queue != e.q.ID {
			return broken(9, "not found under its number")
		}
	}
	if e.Flags.Has(job.FlagSerial) {
		ref := job.BySerial(e.q.namespace, e.q.name, e.Serial)
		if o := c.bySerial(&ref); o == nil || o.ID != e.ID {
			return broken(9, "not found under its serial %d", e.Serial)
		}
	}
	if e.Fingerprint != (job.Digest{}) {
		if _, _, ok := c.store.Get(nil, record.AlikeKey(nil, e.q.ID, e.Fingerprint, e.ID)); !ok {
			return broken(9, "not found under what it is about")
		}
	}
	if e.Lock != "" && e.LockUntil == job.LockUntilFetch && e.State == job.Leased {
		return broken(13, "delivered, and names lock %q", e.Lock)
	}
	return nil
}

// mustHaveKey reports whether a job must be found under its client-given key.
func mustHaveKey(e *entry) bool { return e.Key != "" && !e.Flags.Has(job.FlagTombstone) }

// underKey reports whether a job is found under its client-given key.
func (c *checker) underKey(e *entry) bool {
	r, ok := c.getKey(e.q.namespace, e.Key)
	if !ok || r.ID == e.ID {
		return ok && r.Queue == e.q.ID
	}
	b, _, ok := c.store.Get(nil, record.MoreKey(nil, e.q.namespace, e.Key, e.ID))
	q, err := record.DecodeUint(b)
	return ok && r.More && err == nil && record.QueueID(q) == e.q.ID //nolint:gosec // compared only
}

// checkTimers looks for timers that belong to nothing (INV-7), unless there are as many
// as have been found.
func (c *checker) checkTimers() error {
	if c.size(record.TimerFrom(nil, 0)) == c.timed {
		return nil
	}
	var err error
	c.store.Scan(record.TimerFrom(nil, 0), record.TimerEnd(), false, func(key, _ []byte) bool {
		at, qid, id, ok := record.ParseTimerKey(key)
		if !ok {
			err = broken(7, "malformed timer %x", key)
			return false
		}
		if qid == 0 {
			b, s := c.readBatch(job.BatchID(id)), c.readTicker(job.BatchID(id))
			if (b == nil || b.ForgetAt != at) && (s == nil || s.Next != at) {
				err = broken(7, "timer %d of batch or schedule %d, which does not have it", at, id)
			}
			return err == nil
		}
		q := c.byID[qid]
		// A purge leaves timers to the sweep, or to fireTimer.
		if q == nil || q.Purged != [job.StateCount]uint64{} {
			return true // left by a purge
		}
		if e := c.loadJob(q, id); e == nil || e.Timer != at {
			err = broken(7, "timer %d of job %d, which does not have it", at, id)
		}
		return err == nil
	})
	return err
}
