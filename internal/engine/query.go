package engine

import (
	"errors"
	"fmt"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Query reads jobs and queues from a store or a snapshot of one: committed data only, so nothing
// that it shows can be lost. It never touches the machine, so that a long list holds up nobody.
// What the machine keeps in memory follows from what is stored (INV-12), so that both see the same.
type Query struct{ r store.Reader }

// NewQuery returns a Query on a reader. For several reads that must agree, the
// reader should be a snapshot.
func NewQuery(r store.Reader) Query { return Query{r} }

// Queue returns what is known about a queue.
func (q Query) Queue(namespace, name string) (job.QueueInfo, bool, error) {
	rec, ok, err := q.record(namespace, name)
	if err != nil || !ok {
		return job.QueueInfo{}, false, err
	}
	return queueInfo(namespace, name, &rec), true, nil
}

// OldestReady finds out when the ready job of a queue that is first in order became ready, and
// tells it in info, which Queue or EachQueue have made: of a queue without ready jobs nothing is read.
func (q Query) OldestReady(info *job.QueueInfo) error {
	if info.Counts[job.Ready] == 0 {
		return nil
	}
	rec, ok, err := q.record(info.Namespace, info.Name)
	if err != nil || !ok {
		return err
	}
	first, err := q.part(&rec, nil, &ListOptions{State: job.Ready, Limit: 1})
	if err != nil || len(first) == 0 {
		return err
	}
	j, ok, err := q.meta(&rec, first[0].id)
	if ok {
		info.OldestReady = j.Since
	}
	return err
}

// record reads the record of a queue.
func (q Query) record(namespace, name string) (rec record.Queue, ok bool, err error) {
	b, ok, err := q.r.Get(nil, record.QueueKey(nil, namespace, name))
	if err != nil || !ok {
		return rec, false, err
	}
	rec, err = record.DecodeQueue(b)
	return rec, err == nil, err
}

// queueInfo returns the record of a queue in the form that readers see. Settings and fairness share
// memory with the record, which was decoded for this.
func queueInfo(namespace, name string, rec *record.Queue) job.QueueInfo {
	return job.QueueInfo{
		Namespace: namespace, Name: name, Created: rec.Created,
		Counts: rec.Counts, Totals: rec.Totals, Expired: rec.Expired, Doors: rec.Doors,
		Paused: rec.Paused, PausedAt: rec.PausedAt, PausedUntil: rec.PausedTill,
		Configured: rec.Configured, Hidden: rec.Hidden, Settings: rec.Settings,
		Limits: rec.Limits, Bucket: rec.Bucket, Fairness: rec.Fairness,
	}
}

// Queues returns up to limit queues of a namespace after a name, in byte order of
// their names; a limit of zero or less is all, an empty namespace every one.
func (q Query) Queues(namespace, after string, limit int) (infos []job.QueueInfo, err error) {
	err = q.EachQueue(namespace, after, func(info *job.QueueInfo) bool {
		infos = append(infos, *info)
		return limit <= 0 || len(infos) < limit
	})
	return infos, err
}

// EachQueue visits the queues that Queues would return, until visit returns false: one pass over a
// namespace of any size that collects nothing.
func (q Query) EachQueue(namespace, after string, visit func(*job.QueueInfo) bool) error {
	lo, hi := record.QueuesSpan(namespace)
	if after != "" && namespace != "" {
		lo = append(record.QueueKey(nil, namespace, after), 0)
	}
	return q.queues(lo, hi, visit)
}

// EachQueueFrom visits the queues of all namespaces, in order of namespace and name, from the one that is named on,
// until visit returns false. Without names it begins at the beginning.
func (q Query) EachQueueFrom(namespace, name string, visit func(*job.QueueInfo) bool) error {
	lo, hi := record.QueuesSpan("")
	if namespace != "" || name != "" {
		lo = record.QueueKey(nil, namespace, name)
	}
	return q.queues(lo, hi, visit)
}

// queues visits the queues of a range of keys.
func (q Query) queues(lo, hi []byte, visit func(*job.QueueInfo) bool) error {
	// Scan reports errors of the store only; what the visit finds is kept beside.
	var inner error
	err := q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		ns, name, ok := record.ParseQueueKey(key)
		if !ok {
			inner = fmt.Errorf("queue key %x: %w", key, record.ErrFormat)
			return false
		}
		rec, err := record.DecodeQueue(value)
		if err != nil {
			inner = err
			return false
		}
		info := queueInfo(ns, name, &rec)
		return visit(&info)
	})
	if err == nil {
		err = inner
	}
	return err
}

// meta reads how a job stands; not ok if there is none or it was purged. It is the counterpart of
// loadJob in the machine, and has to follow the same rules: the state record first, and no job that
// is marked as gone.
func (q Query) meta(rec *record.Queue, id job.ID) (j job.Job, ok bool, err error) {
	decode := record.DecodeMeta
	b, ok, err := q.r.Get(nil, record.JobKey(nil, rec.ID, id, record.PartState))
	if err == nil && !ok {
		decode = record.DecodeFirst
		b, ok, err = q.r.Get(nil, record.JobKey(nil, rec.ID, id, record.PartFirst))
	}
	if err != nil || !ok {
		return j, false, err
	}
	if err := decode(b, &j); err != nil {
		return j, false, err
	}
	j.ID, j.QueueNum = id, uint32(rec.ID)
	return j, !rec.Gone(&j), nil
}

// rest reads what else belongs to a job: body, failures, result.
func (q Query) rest(rec *record.Queue, j *job.Job) error {
	// A job that has not changed since its push was read from its first record, with its body if
	// that is in it.
	inline := j.Flags.Has(job.FlagInline)
	if !j.Flags.Has(job.FlagTombstone) && (!inline || j.Flags.Has(job.FlagState)) { // else meta has read it
		part, decode := record.PartBody, record.DecodeBody
		if inline {
			part, decode = record.PartFirst, record.DecodeInline
		}
		b, ok, err := q.r.Get(nil, record.JobKey(nil, rec.ID, j.ID, part))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("job %d has no body: %w", j.ID, store.ErrCorrupt)
		}
		if err := decode(b, j); err != nil {
			return err
		}
	}
	if j.Flags.Has(job.FlagFailures) {
		b, _, err := q.r.Get(nil, record.JobKey(nil, rec.ID, j.ID, record.PartFailures))
		if err != nil {
			return err
		}
		if j.Failures, err = record.DecodeFailures(b); err != nil {
			return err
		}
	}
	if j.Flags.Has(job.FlagResult) {
		b, _, err := q.r.Get(nil, record.JobKey(nil, rec.ID, j.ID, record.PartResult))
		if err != nil {
			return err
		}
		j.Result = b
	}
	return nil
}

// Get returns a job with everything that belongs to it. Of several jobs with one
// key it returns the oldest.
func (q Query) Get(ref job.Ref) (job.Job, error) {
	if ref.Kind == job.RefID && ref.Queue == "" {
		return q.anywhere(ref)
	}
	refs, err := q.resolve(ref)
	if err != nil {
		return job.Job{}, err
	}
	for _, r := range refs {
		j, ok, err := q.meta(&r.rec, r.id)
		if err != nil {
			return job.Job{}, err
		}
		// It was purged or moved since the entry was written, or only its slot is left: the next
		// one may be there.
		if !ok || j.Flags.Has(job.FlagTombstone) {
			continue
		}
		j.Namespace, j.Queue = ref.Namespace, r.name
		return j, q.rest(&r.rec, &j)
	}
	return job.Job{}, job.ErrNotFound
}

// Keyed returns the jobs of a namespace that have a key, the oldest first, without what is stored beside them: bodies,
// failures, results.
func (q Query) Keyed(namespace, key string) ([]job.Job, error) {
	refs, err := q.resolve(job.ByKey(namespace, key))
	if err != nil {
		return nil, err
	}
	var jobs []job.Job
	for _, r := range refs {
		j, ok, err := q.meta(&r.rec, r.id)
		if err != nil {
			return nil, err
		}
		if ok && !j.Flags.Has(job.FlagTombstone) {
			j.Namespace, j.Queue = namespace, r.name
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// NextID returns the id that the next job gets: all that there are have lower ones.
func (q Query) NextID() (job.ID, error) {
	b, ok, err := q.r.Get(nil, record.MetaKey())
	if err != nil || !ok {
		return 1, err
	}
	s, err := record.DecodeShard(b)
	return s.NextID, err
}

// found is where a job may be: the entry that leads there may be out of date.
type found struct {
	name string
	rec  record.Queue
	id   job.ID
}

// resolve returns where the jobs may be that a reference names, the oldest first. What a caller
// holds is not known here, so that a number finds only a job that was pushed with one.
func (q Query) resolve(ref job.Ref) ([]found, error) {
	// The queue is named: no other key range has to be asked.
	if ref.Kind == job.RefSerial || (ref.Kind == job.RefID && ref.Queue != "") {
		rec, ok, err := q.record(ref.Namespace, ref.Queue)
		if err != nil || !ok {
			return nil, err
		}
		id := ref.ID
		if ref.Kind == job.RefSerial {
			if id, err = q.serial(&rec, ref.Serial); err != nil {
				return nil, err
			}
		}
		return []found{{ref.Queue, rec, id}}, nil
	}
	var want []record.JobRef
	var err error
	switch ref.Kind {
	case job.RefKey:
		want, err = q.byKey(ref.Namespace, ref.Key)
	case job.RefNumber:
		want, err = q.byNumber(ref.Number, ref.ID)
	case job.RefPlace:
		want = []record.JobRef{{Queue: record.QueueID(ref.QueueNum), ID: ref.ID}}
	// Every kind is named, so that a new one is not forgotten here.
	case job.RefID, job.RefSerial: // done above, and by anywhere
	}
	if err != nil {
		return nil, err
	}
	return q.named(ref, want)
}

// anywhere returns the job that an id alone names, in any queue of the namespace. Unless the job
// has a number, it asks one queue after the other and collects nothing. Commands never do that;
// people do, and wait for it.
func (q Query) anywhere(ref job.Ref) (j job.Job, err error) {
	j, err = q.Get(job.Ref{Kind: job.RefNumber, Namespace: ref.Namespace, Number: ref.ID.Number(), ID: ref.ID})
	// Found by its number, or the store cannot be read. Otherwise the queues are asked.
	if !errors.Is(err, job.ErrNotFound) {
		return j, err
	}
	var inner error
	there := false
	lo, hi := record.QueuesSpan(ref.Namespace)
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		var rec record.Queue
		if rec, inner = record.DecodeQueue(value); inner != nil {
			return false
		}
		j, there, inner = q.meta(&rec, ref.ID)
		if there = there && !j.Flags.Has(job.FlagTombstone); there && inner == nil {
			j.Namespace = ref.Namespace
			_, j.Queue, _ = record.ParseQueueKey(key)
			inner = q.rest(&rec, &j)
		}
		return !there && inner == nil
	})
	if err == nil {
		err = inner
	}
	if err == nil && !there {
		err = job.ErrNotFound
	}
	return j, err
}

// named returns where the wanted jobs are, as far as their queues are there and are meant by the
// reference.
func (q Query) named(ref job.Ref, want []record.JobRef) ([]found, error) {
	var out []found
	for _, w := range want {
		key, ok, err := q.r.Get(nil, record.QueueNameKey(nil, w.Queue))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // the queue was removed, and the entry has not been swept yet
		}
		namespace, name, ok := record.ParseQueueKey(key)
		if !ok {
			return nil, fmt.Errorf("name of queue %d: %w", w.Queue, record.ErrFormat)
		}
		// Keys and numbers of other namespaces are nobody's business.
		if namespace != ref.Namespace || (ref.Queue != "" && name != ref.Queue) {
			continue
		}
		rec, ok, err := q.record(namespace, name)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, found{name, rec, w.ID})
		}
	}
	return out, nil
}

// serial returns the job that has a number within its queue; zero if there is none.
func (q Query) serial(rec *record.Queue, serial uint64) (job.ID, error) {
	b, ok, err := q.r.Get(nil, record.SerialKey(nil, rec.ID, serial))
	if err != nil || !ok {
		return 0, err
	}
	id, err := record.DecodeUint(b)
	return job.ID(id), err
}

// byNumber returns the job that has a number, and the id if that is not zero.
func (q Query) byNumber(number uint32, id job.ID) ([]record.JobRef, error) {
	b, ok, err := q.r.Get(nil, record.NumberKey(nil, number))
	if err != nil || !ok {
		return nil, err
	}
	r, err := record.DecodeRef(b)
	if id != 0 && r.ID != id {
		return nil, err
	}
	return []record.JobRef{r}, err
}

// byKey returns the jobs that have a key, oldest first, as many as a command would look at
// (machine.KeyLook).
func (q Query) byKey(namespace, key string) ([]record.JobRef, error) {
	b, ok, err := q.r.Get(nil, record.KeyKey(nil, namespace, key))
	if err != nil || !ok {
		return nil, err
	}
	r, err := record.DecodeKeyRef(b)
	if err != nil {
		return nil, err
	}
	refs := []record.JobRef{r.JobRef}
	if !r.More {
		return refs, nil
	}
	lo, hi := record.MoreSpan(namespace, key)
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(k, v []byte) bool {
		if r, err := record.DecodeMore(k, v); err == nil {
			refs = append(refs, r)
		}
		return len(refs) < machine.KeyLook
	})
	return refs, err
}
