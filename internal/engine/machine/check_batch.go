package machine

import (
	"bytes"

	"millrace/internal/job"
	"millrace/internal/record"
)

// checkShared checks what jobs of whatever queue share: locks (INV-13), batches (INV-14),
// and what is to be forgotten (INV-15).
func (m *Machine) checkShared() error {
	if err := m.checkOutcomes(); err != nil {
		return err
	}
	if !m.some(record.AllLocks()) && !m.some(record.AllBatches()) {
		return nil
	}
	jobs := m.everyJob()
	if err := m.checkLocks(jobs); err != nil {
		return err
	}
	return m.checkBatches(jobs)
}

// everyJob returns how the jobs of all queues stand, those purged and not swept yet
// included: their batches still count them.
func (m *Machine) everyJob() map[record.JobRef]*job.Job {
	jobs := map[record.JobRef]*job.Job{}
	lo, hi := record.JobsFrom(nil, 0, 0), record.JobsFrom(nil, 1<<32-1, 0)
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		q, id, part, _ := record.ParseJobKey(key)
		ref := record.JobRef{Queue: q, ID: id}
		switch part {
		case record.PartFirst:
			jobs[ref] = &job.Job{ID: id}
			corrupt("job", record.DecodeFirst(append([]byte(nil), value...), jobs[ref]))
		case record.PartState:
			corrupt("job", record.DecodeMeta(value, jobs[ref]))
		case record.PartBody, record.PartFailures, record.PartResult, record.PartProgress:
		}
		return true
	})
	return jobs
}

func (m *Machine) checkLocks(jobs map[record.JobRef]*job.Job) error {
	type name struct{ namespace, lock string }
	named := map[job.ID]name{}
	for ref, j := range jobs {
		q := m.byID[ref.Queue]
		if q == nil || q.Gone(j) || j.Flags.Has(job.FlagTombstone) {
			continue
		}
		if j.Lock != "" && j.LockUntil == job.LockUntilFetch && j.State == job.Leased {
			return broken(13, "job %d was delivered and names lock %q", j.ID, j.Lock)
		}
		named[j.ID] = name{q.namespace, j.Lock}
	}
	var err error
	lo, hi := record.AllLocks()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		namespace, lock, ok := record.ParseLockKey(key)
		l, derr := record.DecodeLock(value)
		taker, alive := named[l.Taker]
		switch {
		case !ok || derr != nil:
			err = broken(13, "malformed lock %x: %v", key, derr)
		case alive && taker != name{namespace, lock}:
			err = broken(13, "lock %q was taken by job %d, which names %q", lock, l.Taker, taker.lock)
		default:
			err = m.checkForget(l.Until, l.Taker, key)
		}
		return err == nil
	})
	return err
}

func (m *Machine) checkOutcomes() error {
	var err error
	lo, hi := record.AllOutcomes()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		o, derr := record.DecodeOutcome(value)
		if _, _, ok := record.ParseOutcomeKey(key); !ok || derr != nil {
			err = broken(15, "malformed outcome %x: %v", key, derr)
			return false
		}
		err = m.checkForget(o.Until, o.ID, key)
		return err == nil
	})
	return err
}

// checkForget asserts that a record stands in the list of what is to be forgotten.
func (m *Machine) checkForget(at job.Time, id job.ID, key []byte) error {
	if at == job.Never {
		return nil
	}
	listed, _, ok := m.store.Get(nil, record.ForgetKey(nil, at, id, key))
	switch {
	case !ok || !bytes.Equal(listed, key):
		return broken(15, "%q of job %d is not listed to be forgotten at %d", key, id, at)
	case at < m.forgetAt:
		return broken(15, "%q is to be forgotten at %d, and nothing is thought to be before %d", key, at, m.forgetAt)
	}
	return nil
}

// checkBatches compares the counters of batches with jobs and with other batches.
func (m *Machine) checkBatches(jobs map[record.JobRef]*job.Job) error {
	batches, err := m.everyBatch()
	if err != nil {
		return err
	}
	want := map[job.BatchID]*record.Batch{}
	for id := range batches {
		want[id] = &record.Batch{}
	}
	for _, j := range jobs {
		if w := want[j.Batch]; w != nil && j.Flags&callbacks == 0 {
			w.Pending++
			if j.Flags.Has(job.FlagTried) {
				w.Failed++
			} else if j.Fails > 0 || j.State == job.Dead {
				return broken(14, "job %d has failed and does not count as such in batch %d", j.ID, j.Batch)
			}
		}
	}
	for _, b := range batches {
		if w := want[b.Parent]; w != nil {
			if b.Complete != job.CallbackAcked {
				w.Incomplete++
			}
			if b.Success != job.CallbackAcked {
				w.Unsuccessful++
			}
			if b.Success == job.CallbackWaiting {
				w.Children++
			}
		}
	}
	for id, b := range batches {
		if err := m.checkBatch(b, want[id]); err != nil {
			return err
		}
	}
	return nil
}

// checkBatch compares a batch with what its jobs and children say.
func (m *Machine) checkBatch(b *batch, want *record.Batch) error {
	lost := b.Pending - want.Pending // pending ones that are gone have failed
	if b.Pending < want.Pending || b.Failed != want.Failed+lost || b.Pending > b.Total {
		return broken(14, "batch %d has %d jobs, %d pending, %d failed; its jobs make %d and %d",
			b.id, b.Total, b.Pending, b.Failed, want.Pending, want.Failed)
	}
	if b.Incomplete != want.Incomplete || b.Unsuccessful != want.Unsuccessful || b.Children != want.Children {
		return broken(14, "batch %d counts its children as %d, %d, %d; they make %d, %d, %d", b.id,
			b.Incomplete, b.Unsuccessful, b.Children, want.Incomplete, want.Unsuccessful, want.Children)
	}
	if b.completes() || b.succeeds() {
		return broken(14, "batch %d could reach a stage", b.id)
	}
	if t := b.timer(); t.at != 0 {
		if _, _, ok := m.store.Get(nil, record.TimerKey(nil, t.at, t.q, t.id)); !ok {
			return broken(15, "batch %d is not listed to be forgotten at %d", b.id, t.at)
		}
		return m.checkTimerLoaded(t)
	}
	return nil
}

func (m *Machine) everyBatch() (map[job.BatchID]*batch, error) {
	batches := map[job.BatchID]*batch{}
	var err error
	lo, hi := record.AllBatches()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		id, part, ok := record.ParseBatchKey(key)
		if !ok {
			err = broken(14, "malformed key of a batch %x", key)
			return false
		}
		if part == record.BatchState {
			b, derr := record.DecodeBatch(value)
			corrupt("batch", derr)
			batches[id] = &batch{b, id}
		} else if batches[id] == nil {
			err = broken(14, "batch %d is defined and does not exist", id)
		}
		return err == nil
	})
	for id, b := range batches {
		if _, _, ok := m.store.Get(nil, record.BatchesKey(nil, b.Namespace, id)); !ok {
			return nil, broken(14, "batch %d is not listed in its namespace", id)
		}
		m.batchDef(id)
	}
	return batches, err
}
