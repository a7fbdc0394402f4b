package engine

import (
	"fmt"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// NamedValue is a value that SetValue keeps, and its name.
type NamedValue struct {
	Name  string
	Value []byte
}

// Value returns what SetValue has put under a name.
func (q Query) Value(space, name string) (value []byte, ok bool, err error) {
	return q.r.Get(nil, record.ValueKey(nil, space, name))
}

// Values returns up to limit values of a space after a name, in byte order of their
// names; a limit of zero or less is all.
func (q Query) Values(space, after string, limit int) (values []NamedValue, err error) {
	lo, hi := record.ValuesSpan(space)
	if after != "" {
		lo = append(record.ValueKey(nil, space, after), 0)
	}
	var inner error
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		_, name, ok := record.ParseValueKey(key)
		if !ok {
			inner = fmt.Errorf("value key %x: %w", key, record.ErrFormat)
			return false
		}
		values = append(values, NamedValue{name, append([]byte(nil), value...)})
		return limit <= 0 || len(values) < limit
	})
	if err == nil {
		err = inner
	}
	return values, err
}

// Value returns what SetValue has put under a name; see Query.Value.
func (e *Engine) Value(space, name string) (value []byte, ok bool, err error) {
	err = e.Read(func(q *View) error {
		value, ok, err = q.Value(space, name)
		return err
	})
	return value, ok, err
}

// Values returns the values of a space in byte order of their names; see Query.Values.
func (e *Engine) Values(space, after string, limit int) (values []NamedValue, err error) {
	err = e.Read(func(q *View) error {
		values, err = q.Values(space, after, limit)
		return err
	})
	return values, err
}

// Batch returns what is known about a batch of a namespace.
func (q Query) Batch(namespace string, id job.BatchID) (info job.BatchInfo, ok bool, err error) {
	if flushed, err := q.flushedBatches(namespace); err != nil || id < flushed {
		return info, false, err
	}
	p, ok, err := q.r.Get(nil, record.BatchKey(nil, id, record.BatchState))
	if err != nil || !ok {
		return info, false, err
	}
	b, err := record.DecodeBatch(p)
	if err != nil || b.Namespace != namespace {
		return info, false, err
	}
	p, ok, err = q.r.Get(nil, record.BatchKey(nil, id, record.BatchFixed))
	if err == nil && !ok {
		err = fmt.Errorf("batch %d has no definition: %w", id, store.ErrCorrupt)
	}
	if err != nil {
		return info, false, err
	}
	def, err := record.DecodeBatchDef(p)
	return job.BatchInfo{
		ID: id, Namespace: b.Namespace, Parent: b.Parent, Text: def.Text, Created: b.Created, Open: b.Open,
		Total: b.Total, Pending: b.Pending, Failed: b.Failed, Children: b.Children,
		Complete: b.Complete, Success: b.Success, ForgetAt: b.ForgetAt,
	}, err == nil, err
}

// flushedBatches returns the first id above the batches of a namespace that a flush under way
// removes. They are gone for the machine (flushedBatch), and so they are here.
func (q Query) flushedBatches(namespace string) (job.BatchID, error) {
	b, ok, err := q.r.Get(nil, record.FlushKey())
	if err != nil || !ok {
		return 0, err
	}
	f, err := record.DecodeFlush(b)
	if err != nil || f.Namespace != namespace {
		return 0, err
	}
	return f.Batches, nil
}

// Batches returns up to limit batches of a namespace after an id, in order of their
// ids; a limit of zero or less is all.
func (q Query) Batches(namespace string, after job.BatchID, limit int) (infos []job.BatchInfo, err error) {
	flushed, err := q.flushedBatches(namespace)
	if err != nil {
		return nil, err
	}
	_, hi := record.BatchesSpan(namespace)
	var ids []job.BatchID
	lo := record.BatchesKey(nil, namespace, max(after+1, flushed))
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, _ []byte) bool {
		ids = append(ids, job.BatchID(record.EntryID(key)))
		return limit <= 0 || len(ids) < limit
	})
	for _, id := range ids {
		if err != nil {
			return nil, err
		}
		var info job.BatchInfo
		var ok bool
		info, ok, err = q.Batch(namespace, id)
		if err == nil && !ok {
			err = fmt.Errorf("the list of %q names batch %d: %w", namespace, id, store.ErrCorrupt)
		}
		infos = append(infos, info)
	}
	return infos, err
}

// Progress returns what is known at a time about the tracked job that a key names: one that is
// alive, else one that ended lately. Which one a key means is decided as by Report.
func (q Query) Progress(namespace, key string, now job.Time) (p job.Progress, ok bool, err error) {
	refs, err := q.resolve(job.ByKey(namespace, key))
	if err != nil {
		return p, false, err
	}
	var named machine.Reportable
	var at found
	// The same choice as in the machine, by the same type: a report and its reader must mean the
	// same job.
	for _, r := range refs {
		j, ok, err := q.meta(&r.rec, r.id)
		if err != nil {
			return p, false, err
		}
		if ok && named.Offer(&j) {
			at = r
		}
	}
	switch {
	case named.Job != nil && named.Job.Flags.Has(job.FlagTracked):
		return q.reported(&at, named.Job)
	case named.Tracked:
		return p, false, nil
	default:
		return q.outcome(namespace, key, now)
	}
}

// reported returns what has been reported of a job that is alive.
func (q Query) reported(at *found, j *job.Job) (job.Progress, bool, error) {
	b, ok, err := q.r.Get(nil, record.JobKey(nil, at.rec.ID, j.ID, record.PartProgress))
	if err != nil {
		return job.Progress{}, false, err
	}
	var told record.Progress
	if ok {
		if told, err = record.DecodeProgress(b); err != nil {
			return job.Progress{}, false, err
		}
	}
	p := progress(&told)
	p.State, p.Updated = j.State, max(j.Since, told.At)
	return p, true, nil
}

// outcome returns how a job has ended.
func (q Query) outcome(namespace, key string, now job.Time) (job.Progress, bool, error) {
	b, ok, err := q.r.Get(nil, record.OutcomeKey(nil, namespace, key))
	if err != nil || !ok {
		return job.Progress{}, false, err
	}
	o, err := record.DecodeOutcome(b)
	// The record stays for a while after its time (forgetSome), and does not count then.
	if err != nil || o.Until <= now {
		return job.Progress{}, false, err
	}
	p := progress(&o.Progress)
	p.Outcome = o.How
	return p, true, nil
}

// progress returns what was reported.
func progress(told *record.Progress) job.Progress {
	return job.Progress{Percent: told.Percent, HasPercent: told.HasPercent, Text: told.Text, Updated: told.At}
}

// Batch returns what is known about a batch; see Query.Batch.
func (e *Engine) Batch(namespace string, id job.BatchID) (info job.BatchInfo, ok bool, err error) {
	err = e.Read(func(q *View) error {
		info, ok, err = q.Batch(namespace, id)
		return err
	})
	return info, ok, err
}

// Batches returns batches in order of their ids; see Query.Batches.
func (e *Engine) Batches(namespace string, after job.BatchID, limit int) (infos []job.BatchInfo, err error) {
	err = e.Read(func(q *View) error {
		infos, err = q.Batches(namespace, after, limit)
		return err
	})
	return infos, err
}

// Progress returns what is known about a tracked job; see Query.Progress.
func (e *Engine) Progress(namespace, key string) (p job.Progress, ok bool, err error) {
	err = e.Read(func(q *View) error {
		p, ok, err = q.Progress(namespace, key, e.Now())
		return err
	})
	return p, ok, err
}
