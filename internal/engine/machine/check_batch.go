package machine

import (
	"bytes"
	"cmp"
	"errors"
	"hash/fnv"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// What jobs of any queue share is checked in portions of a size that fits into memory, each against
// all jobs.
const (
	locksAtOnce   = 1 << 20
	batchesAtOnce = 1 << 16
)

// taker is a job that has taken a lock, which is known by the hash of its key: a million keys would
// not fit into memory.
type taker struct {
	id   job.ID
	lock uint64
}

// hashOf returns the hash under which a lock is compared. Two keys with the same hash could hide a
// fault and never report one.
func hashOf(key []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key) // it never fails
	return h.Sum64()
}

// checkLocks asserts that who has taken a lock names it, as long as it is there (INV-13).
func (c *checker) checkLocks() error {
	lo, hi := record.AllLocks()
	for lo != nil {
		takers, next, err := c.takers(lo, hi)
		if err == nil && len(takers) > 0 {
			err = c.checkTakers(takers)
		}
		if err != nil {
			return err
		}
		lo = next
	}
	return nil
}

// takers reads a portion of the locks. It returns by id who has taken them, and where the
// next portion begins, nil if this is the last.
func (c *checker) takers(lo, hi []byte) (takers []taker, next []byte, err error) {
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		// The portion is full, and the next one begins with this key.
		if len(takers) == c.locks {
			next = bytes.Clone(key)
			return false
		}
		_, _, ok := record.ParseLockKey(key)
		l, derr := record.DecodeLock(value)
		if !ok || derr != nil {
			err = broken(13, "malformed lock %x: %v", key, derr)
			return false
		}
		takers = append(takers, taker{l.Taker, hashOf(key)})
		err = c.checkForget(l.Until, l.Taker, key)
		return err == nil
	})
	slices.SortFunc(takers, func(a, b taker) int { return cmp.Compare(a.id, b.id) })
	return takers, next, err
}

// checkTakers compares what jobs name with the locks that they have taken. A job that names a lock
// without being its taker has lost it to time, which is allowed.
func (c *checker) checkTakers(takers []taker) error {
	var key []byte
	return c.walkAll(func(s *storedJob) error {
		q := c.byID[s.queue]
		if q == nil || q.Gone(&s.Job) || s.Flags.Has(job.FlagTombstone) {
			return nil
		}
		i, found := slices.BinarySearchFunc(takers, s.ID, func(t taker, id job.ID) int { return cmp.Compare(t.id, id) })
		if !found {
			return nil
		}
		key = record.LockKey(key[:0], q.namespace, s.Lock)
		for ; i < len(takers) && takers[i].id == s.ID; i++ {
			if takers[i].lock != hashOf(key) {
				return broken(13, "job %d has taken a lock other than %q, which it names", s.ID, s.Lock)
			}
		}
		return nil
	})
}

// checkOutcomes asserts that what became of jobs is to be forgotten (INV-15).
func (c *checker) checkOutcomes() error {
	var err error
	lo, hi := record.AllOutcomes()
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		o, derr := record.DecodeOutcome(value)
		if _, _, ok := record.ParseOutcomeKey(key); !ok || derr != nil {
			err = broken(15, "malformed outcome %x: %v", key, derr)
			return false
		}
		err = c.checkForget(o.Until, o.ID, key)
		return err == nil
	})
	return err
}

// checkForget asserts that a record stands in the list of what is to be forgotten.
func (c *checker) checkForget(at job.Time, id job.ID, key []byte) error {
	if at == job.Never {
		return nil
	}
	listed, _, ok := c.store.Get(nil, record.ForgetKey(nil, at, id, key))
	switch {
	case !ok || !bytes.Equal(listed, key):
		return broken(15, "%q of job %d is not listed to be forgotten at %d", key, id, at)
	case at < c.forgetAt:
		return broken(15, "%q is to be forgotten at %d, and nothing is thought to be before %d", key, at, c.forgetAt)
	}
	return nil
}

// checkBatches compares the counters of batches with jobs and with other batches (INV-14).
func (c *checker) checkBatches() error {
	for from, more := job.BatchID(0), true; more; {
		batches, next, err := c.someBatches(from)
		if err == nil && len(batches) > 0 {
			err = c.compareBatches(batches)
		}
		if err != nil {
			return err
		}
		from, more = next, next != 0
	}
	return nil
}

// someBatches reads a portion of the batches. It returns where the next one begins, zero
// if this is the last.
func (c *checker) someBatches(from job.BatchID) (batches map[job.BatchID]*batch, next job.BatchID, err error) {
	batches = map[job.BatchID]*batch{}
	err = c.scanBatches(from, func(id job.BatchID, part record.BatchPart, value []byte) error {
		switch {
		case part == record.BatchState && len(batches) == c.batches:
			next = id
			return errStop
		case part == record.BatchState:
			b, err := record.DecodeBatch(value)
			corrupt("batch", err)
			batches[id] = &batch{b, id}
		case batches[id] == nil:
			return broken(14, "batch %d is defined and does not exist", id)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for id, b := range batches {
		if _, _, ok := c.store.Get(nil, record.BatchesKey(nil, b.Namespace, id)); !ok {
			return nil, 0, broken(14, "batch %d is not listed in its namespace", id)
		}
		c.batchDef(id)
	}
	return batches, next, nil
}

// errStop ends a scan that need not go on.
var errStop = errors.New("no more")

// scanBatches visits the records of batches from an id on until there is an error.
func (c *checker) scanBatches(from job.BatchID, visit func(job.BatchID, record.BatchPart, []byte) error) (err error) {
	_, hi := record.AllBatches()
	c.store.Scan(record.BatchKey(nil, from, record.BatchState), hi, false, func(key, value []byte) bool {
		id, part, ok := record.ParseBatchKey(key)
		if !ok {
			err = broken(14, "malformed key of a batch %x", key)
			return false
		}
		err = visit(id, part, value)
		return err == nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// compareBatches compares some batches with all jobs and all other batches.
func (c *checker) compareBatches(batches map[job.BatchID]*batch) error {
	want := make(map[job.BatchID]*record.Batch, len(batches))
	for id := range batches {
		want[id] = &record.Batch{}
	}
	// Those purged and not swept yet are included: their batches still count them.
	err := c.walkAll(func(s *storedJob) error {
		w := want[s.Batch]
		if w == nil || s.Flags&callbacks != 0 {
			return nil
		}
		// A job that names a batch has not been acked: the ack takes it out.
		w.Pending++
		if s.Flags.Has(job.FlagTried) {
			w.Failed++
		} else if s.Fails > 0 || s.State == job.Dead {
			return broken(14, "job %d has failed and does not count as such in batch %d", s.ID, s.Batch)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.scanBatches(0, func(_ job.BatchID, part record.BatchPart, value []byte) error {
		if part != record.BatchState {
			return nil
		}
		b, err := record.DecodeBatch(value)
		corrupt("batch", err)
		if w := want[b.Parent]; w != nil {
			countChild(w, &b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, b := range batches {
		if c.flushedBatch(b) {
			continue // its jobs do not count in it any more
		}
		if err := c.checkBatch(b, want[id]); err != nil {
			return err
		}
	}
	return nil
}

// countChild counts a batch with its parent.
func countChild(parent, b *record.Batch) {
	if b.Complete != job.CallbackAcked {
		parent.Incomplete++
	}
	if b.Success != job.CallbackAcked {
		parent.Unsuccessful++
	}
	if b.Success == job.CallbackWaiting {
		parent.Children++
	}
}

// checkBatch compares a batch with what its jobs and children say. Pending jobs that are gone have
// failed for ever, so that a batch may count more than there are, as many failed as pending.
func (c *checker) checkBatch(b *batch, want *record.Batch) error {
	lost := b.Pending - want.Pending // pending ones that are gone have failed
	if b.Pending < want.Pending || b.Failed != want.Failed+lost || b.Pending > b.Total {
		return broken(14, "batch %d has %d jobs, %d pending, %d failed; its jobs make %d and %d",
			b.id, b.Total, b.Pending, b.Failed, want.Pending, want.Failed)
	}
	if b.Incomplete != want.Incomplete || b.Unsuccessful != want.Unsuccessful || b.Children != want.Children {
		return broken(14, "batch %d counts its children as %d, %d, %d; they make %d, %d, %d", b.id,
			b.Incomplete, b.Unsuccessful, b.Children, want.Incomplete, want.Unsuccessful, want.Children)
	}
	// Between two steps no stage is left that could be reached: whatever changes a batch has it
	// looked at (markBatchDue).
	if b.canComplete() || b.canSucceed() {
		return broken(14, "batch %d could reach a stage", b.id)
	}
	// That it is counted in timed is what lets checkTimers find one that belongs to nothing.
	if t := b.timer(); t.at != 0 {
		c.timed++
		if _, _, ok := c.store.Get(nil, record.TimerKey(nil, t.at, t.q, t.id)); !ok {
			return broken(15, "batch %d is not listed to be forgotten at %d", b.id, t.at)
		}
		return c.checkTimerLoaded(t)
	}
	return nil
}
