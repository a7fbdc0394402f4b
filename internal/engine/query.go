package engine

import (
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Query reads jobs and queues from a store or a snapshot of one: committed data
// only, so nothing that it shows can be lost. It never touches the machine.
type Query struct{ r store.Reader }

// NewQuery returns a Query on a reader. For several reads that must agree, the
// reader should be a snapshot.
func NewQuery(r store.Reader) Query { return Query{r} }

// view runs f on a snapshot that has everything that was answered before. A store may show a batch before it is on stable
// storage: what the snapshot may have seen of one is waited for (INV-11).
func (e *Engine) view(f func(Query) error) error {
	e.readers.RLock()
	defer e.readers.RUnlock()
	e.barrier()
	if e.stopping.Load() {
		return job.ErrDraining
	}
	s, err := e.opt.Store.Snapshot()
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	if done := e.inflight.Load(); done != nil {
		<-*done
	}
	err = f(Query{stoppable{s, &e.stopping}})
	if cerr := s.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close a snapshot: %w", cerr)
	}
	return err
}

// stoppable ends long scans when the engine is closed.
type stoppable struct {
	store.Reader
	stop *atomic.Bool
}

func (s stoppable) Scan(r store.Range, visit func(key, value []byte) bool) error {
	stopped := false
	err := s.Reader.Scan(r, func(key, value []byte) bool {
		stopped = s.stop.Load()
		return !stopped && visit(key, value)
	})
	if err == nil && stopped {
		return job.ErrDraining
	}
	return err
}

// Queue returns what is known about a queue.
func (e *Engine) Queue(namespace, name string) (info job.QueueInfo, ok bool, err error) {
	err = e.view(func(q Query) error {
		info, ok, err = q.Queue(namespace, name)
		return err
	})
	return info, ok, err
}

// Queues returns up to limit queues of a namespace after a name, in byte order of
// their names; a limit of zero or less is all, an empty namespace every one. Only Queue
// knows OldestReady.
func (e *Engine) Queues(namespace, after string, limit int) (infos []job.QueueInfo, err error) {
	err = e.view(func(q Query) error {
		infos, err = q.Queues(namespace, after, limit)
		return err
	})
	return infos, err
}

// Get returns a job with everything that belongs to it.
func (e *Engine) Get(ref job.Ref) (j job.Job, err error) {
	err = e.view(func(q Query) error {
		j, err = q.Get(ref)
		return err
	})
	return j, err
}

// List returns a page of one state of a queue, in the order of its list.
func (e *Engine) List(o ListOptions) (p Page, err error) {
	err = e.view(func(q Query) error {
		p, err = q.List(o)
		return err
	})
	return p, err
}

// Queue returns what is known about a queue.
func (q Query) Queue(namespace, name string) (job.QueueInfo, bool, error) {
	rec, ok, err := q.record(namespace, name)
	if err != nil || !ok {
		return job.QueueInfo{}, false, err
	}
	info := queueInfo(namespace, name, &rec)
	if rec.Counts[job.Ready] > 0 {
		first, err := q.readyIDs(&rec, nil, 0, 1, false)
		if err != nil || len(first) == 0 {
			return info, true, err
		}
		j, ok, err := q.meta(&rec, first[0].id)
		if err != nil {
			return info, true, err
		}
		if ok {
			info.OldestReady = j.Since
		}
	}
	return info, true, nil
}

func (q Query) record(namespace, name string) (rec record.Queue, ok bool, err error) {
	b, ok, err := q.r.Get(nil, record.QueueKey(nil, namespace, name))
	if err != nil || !ok {
		return rec, false, err
	}
	rec, err = record.DecodeQueue(b)
	return rec, err == nil, err
}

func queueInfo(namespace, name string, rec *record.Queue) job.QueueInfo {
	return job.QueueInfo{
		Namespace: namespace, Name: name, Counts: rec.Counts, Totals: rec.Totals, Paused: rec.Paused,
		PausedUntil: rec.PausedTill, Configured: rec.Configured, Hidden: rec.Hidden, Settings: rec.Settings,
		Created: rec.Created,
	}
}

// Queues returns queues in byte order of their names.
func (q Query) Queues(namespace, after string, limit int) (infos []job.QueueInfo, err error) {
	lo, hi := record.QueuesSpan(namespace)
	if after != "" && namespace != "" {
		lo = append(record.QueueKey(nil, namespace, after), 0)
	}
	var inner error
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
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
		infos = append(infos, queueInfo(ns, name, &rec))
		return limit <= 0 || len(infos) < limit
	})
	if err == nil {
		err = inner
	}
	return infos, err
}

// meta reads how a job stands; not ok if there is none or it was purged.
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
	j.ID = id
	return j, !rec.Gone(&j), nil
}

// rest reads what else belongs to a job.
func (q Query) rest(rec *record.Queue, j *job.Job) error {
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
	refs, err := q.resolve(ref)
	if err != nil {
		return job.Job{}, err
	}
	for _, r := range refs {
		j, ok, err := q.meta(&r.rec, r.id)
		if err != nil {
			return job.Job{}, err
		}
		if !ok || j.Flags.Has(job.FlagTombstone) {
			continue
		}
		j.Namespace, j.Queue = ref.Namespace, r.name
		return j, q.rest(&r.rec, &j)
	}
	return job.Job{}, job.ErrNotFound
}

// found is where a job may be.
type found struct {
	name string
	rec  record.Queue
	id   job.ID
}

func (q Query) resolve(ref job.Ref) ([]found, error) {
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
		want, err = q.byNumber(ref.Number)
	case job.RefID: // in whatever queue of the namespace
	case job.RefSerial: // done above
	}
	if err != nil {
		return nil, err
	}
	return q.inQueues(ref, want)
}

// inQueues finds where the jobs wanted are; an id alone may be in any queue of the
// namespace.
func (q Query) inQueues(ref job.Ref, want []record.JobRef) ([]found, error) {
	if ref.Kind != job.RefID {
		return q.named(ref, want)
	}
	var out []found
	var inner error
	lo, hi := record.QueuesSpan(ref.Namespace)
	err := q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		rec, err := record.DecodeQueue(value)
		if err != nil {
			inner = err
			return false
		}
		_, name, _ := record.ParseQueueKey(key)
		out = append(out, found{name, rec, ref.ID})
		return true
	})
	if err == nil {
		err = inner
	}
	return out, err
}

// named returns where the wanted jobs are, as far as their queues are there.
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

func (q Query) serial(rec *record.Queue, serial uint64) (job.ID, error) {
	b, ok, err := q.r.Get(nil, record.SerialKey(nil, rec.ID, serial))
	if err != nil || !ok {
		return 0, err
	}
	id, err := record.DecodeUint(b)
	return job.ID(id), err
}

func (q Query) byNumber(number uint32) ([]record.JobRef, error) {
	b, ok, err := q.r.Get(nil, record.NumberKey(nil, number))
	if err != nil || !ok {
		return nil, err
	}
	r, err := record.DecodeRef(b)
	return []record.JobRef{r}, err
}

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
		if id, err := record.DecodeUint(v); err == nil {
			refs = append(refs, record.JobRef{Queue: record.QueueID(id), ID: record.EntryID(k)}) //nolint:gosec // written from a QueueID
		}
		return true
	})
	return refs, err
}

// ListOptions say which part of a list to read.
type ListOptions struct {
	Namespace string
	Queue     string
	State     job.State
	After     string // the Next of the page before
	Skip      int    // entries to pass over; they are not loaded
	Limit     int    // at most so many jobs; default 100
	Reverse   bool
	Bodies    bool // with body, failures and result
}

// Page is a part of a list. Next continues it; empty at the end.
type Page struct {
	Jobs []job.Job
	Next string
}

// List returns a page of one state of a queue.
func (q Query) List(o ListOptions) (Page, error) {
	rec, ok, err := q.record(o.Namespace, o.Queue)
	if err != nil {
		return Page{}, err
	}
	if !ok {
		return Page{}, job.ErrNoQueue
	}
	if o.Limit <= 0 {
		o.Limit = 100
	}
	after, err := hex.DecodeString(o.After)
	if err != nil {
		return Page{}, &job.Error{Kind: job.Invalid, Text: "malformed cursor"}
	}
	var ids []listed
	if o.State == job.Ready {
		ids, err = q.readyIDs(&rec, after, o.Skip, o.Limit, o.Reverse)
	} else {
		ids, err = q.listIDs(&rec, record.List(o.State), after, o.Skip, o.Limit, o.Reverse)
	}
	if err != nil {
		return Page{}, err
	}
	p := Page{Jobs: make([]job.Job, 0, len(ids))}
	for _, l := range ids {
		j, ok, err := q.meta(&rec, l.id)
		if err == nil && !ok {
			err = fmt.Errorf("list of %q names job %d: %w", o.Queue, l.id, store.ErrCorrupt)
		}
		if o.Bodies && err == nil {
			err = q.rest(&rec, &j)
		} else {
			j.Type, j.Body, j.BodyKind, j.Extra, j.Origin = "", nil, 0, nil, 0
		}
		if err != nil {
			return Page{}, err
		}
		j.Namespace, j.Queue = o.Namespace, o.Queue
		p.Jobs = append(p.Jobs, j)
	}
	if len(ids) == o.Limit {
		p.Next = hex.EncodeToString(ids[len(ids)-1].sort)
	}
	return p, nil
}

// listed is an entry of a list; sort is what follows the list's own prefix.
type listed struct {
	sort []byte
	id   job.ID
}

func (q Query) listIDs(rec *record.Queue, list record.List, after []byte, skip, limit int, reverse bool) ([]listed, error) {
	lo, hi := record.ListStart(nil, rec.ID, list), record.ListEnd(nil, rec.ID, list)
	prefix := len(lo)
	if len(after) > 0 {
		if reverse {
			hi = append(lo[:prefix:prefix], after...)
		} else {
			lo = append(append(lo[:prefix:prefix], after...), 0)
		}
	}
	var out []listed
	err := q.r.Scan(store.Range{Lo: lo, Hi: hi, Reverse: reverse}, func(key, _ []byte) bool {
		if skip > 0 {
			skip--
			return true
		}
		out = append(out, listed{append([]byte(nil), key[prefix:]...), record.EntryID(key)})
		return len(out) < limit
	})
	return out, err
}

// readyIDs merges the ready jobs without a group and those with one.
func (q Query) readyIDs(rec *record.Queue, after []byte, skip, limit int, reverse bool) ([]listed, error) {
	grouped, err := q.listIDs(rec, record.ListGrouped, after, 0, skip+limit, reverse)
	if err != nil {
		return nil, err
	}
	if len(grouped) == 0 {
		return q.listIDs(rec, record.ListReady, after, skip, limit, reverse)
	}
	plain, err := q.listIDs(rec, record.ListReady, after, 0, skip+limit, reverse)
	if err != nil {
		return nil, err
	}
	var out []listed
	for len(out) < skip+limit && (len(plain) > 0 || len(grouped) > 0) {
		if len(grouped) == 0 || (len(plain) > 0 && (string(plain[0].sort) < string(grouped[0].sort)) != reverse) {
			out, plain = append(out, plain[0]), plain[1:]
		} else {
			out, grouped = append(out, grouped[0]), grouped[1:]
		}
	}
	return out[min(skip, len(out)):], nil
}
