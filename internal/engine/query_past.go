package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// PastBatch is a batch as the commands that make it again.
type PastBatch struct {
	ID   job.BatchID
	Make job.NewBatch // with a Past; Parent is the id of this server
	Rest job.BatchRest
}

// PastBatches returns up to limit batches of all namespaces behind an id, in order of their ids: a
// parent comes before its children, so that an import finds it. Last is where the next call goes
// on, zero at the end.
func (q Query) PastBatches(after job.BatchID, limit int) (out []PastBatch, last job.BatchID, err error) {
	_, hi := record.AllBatches()
	lo := record.BatchKey(nil, after+1, record.BatchState)
	var inner error
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		id, part, ok := record.ParseBatchKey(key)
		switch {
		case !ok:
			inner = fmt.Errorf("batch key %x: %w", key, record.ErrFormat)
		// The records of a batch follow each other: the one before is whole.
		case part == record.BatchState && len(out) == limit:
			last = out[limit-1].ID
			return false
		case part == record.BatchState:
			var b record.Batch
			b, inner = record.DecodeBatch(value)
			out = append(out, pastBatch(id, &b))
		case len(out) > 0 && out[len(out)-1].ID == id:
			inner = out[len(out)-1].define(value)
		}
		return inner == nil
	})
	if err == nil {
		err = inner
	}
	if err == nil {
		out, err = q.unflushed(out)
	}
	return out, last, err
}

// unflushed leaves out the batches that a flush under way removes.
func (q Query) unflushed(all []PastBatch) ([]PastBatch, error) {
	out := all[:0]
	for i := range all {
		flushed, err := q.flushedBatches(all[i].Make.Namespace)
		if err != nil {
			return nil, err
		}
		if all[i].ID >= flushed {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// pastBatch returns the commands that make a batch again: with what it has reached, and with the
// jobs that have been acked. Jobs that have not are exported one by one, and join it when they are
// imported.
func pastBatch(id job.BatchID, b *record.Batch) PastBatch {
	return PastBatch{
		ID: id,
		Make: job.NewBatch{Namespace: b.Namespace, Parent: b.Parent, Past: &job.BatchPast{
			Created: b.Created, Committed: b.Committed, Succeeded: b.Succeeded,
			Acked: b.Total - b.Pending, Complete: b.Complete, Success: b.Success,
		}},
		Rest: job.BatchRest{Total: b.Total, Open: b.Open},
	}
}

// define adds what is fixed about a batch.
func (p *PastBatch) define(value []byte) error {
	def, err := record.DecodeBatchDef(append([]byte(nil), value...))
	m := &p.Make
	m.Text, m.Complete, m.Success = def.Text, def.Complete, def.Success
	m.OpenFor, m.KeepFor, m.KeepDone = def.OpenFor, def.KeepFor, def.KeepDone
	return err
}

// LockedUntil returns when the lock of a job ends; zero if it has none, or has lost it to another
// job.
func (q Query) LockedUntil(j *job.Job) (job.Time, error) {
	if j.Lock == "" {
		return 0, nil
	}
	l, err := q.lock(j.Namespace, j.Lock)
	if l.Taker != j.ID {
		return 0, err
	}
	return l.Until, err
}

// Locked returns until when a lock is taken, by any job. That time may be over.
func (q Query) Locked(namespace, lock string) (job.Time, error) {
	l, err := q.lock(namespace, lock)
	return l.Until, err
}

// lock reads the record of a lock; a zero one if nobody has it.
func (q Query) lock(namespace, lock string) (record.Lock, error) {
	p, ok, err := q.r.Get(nil, record.LockKey(nil, namespace, lock))
	if err != nil || !ok {
		return record.Lock{}, err
	}
	return record.DecodeLock(p)
}

// BehindBlocked returns where the list of the blocked jobs of a queue goes on behind an id, for ListOptions.After: it
// is in order of ids.
func BehindBlocked(id job.ID) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(id)))
}
