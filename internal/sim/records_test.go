package sim

import (
	"errors"
	"fmt"
	"slices"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// records reads the records of a machine, those not committed yet included.
type records interface {
	Get(dst, key []byte) (value []byte, pending, ok bool)
	Scan(lo, hi []byte, reverse bool, visit func(key, value []byte) bool)
}

// stored is the state of a machine as its records tell it: unlike what the machine
// answers from memory, this is what a restart would find.
type stored struct {
	source records
	infos  []job.QueueInfo
	ids    map[queueName]record.QueueID
	shard  record.Shard
	format uint64
}

func readStored(src records) (s stored, err error) {
	s = stored{source: src, ids: map[queueName]record.QueueID{}, format: record.FormatBase}
	lo, hi := record.QueuesSpan("")
	src.Scan(lo, hi, false, func(key, value []byte) bool {
		ns, name, ok := record.ParseQueueKey(key)
		q, derr := record.DecodeQueue(value)
		if !ok || derr != nil {
			err = fmt.Errorf("queue record %q: %w", key, derr)
			return false
		}
		s.ids[queueName{ns, name}] = q.ID
		s.infos = append(s.infos, job.QueueInfo{
			Namespace: ns, Name: name, Counts: q.Counts, Totals: q.Totals, Expired: q.Expired, Doors: q.Doors,
			Paused: q.Paused, PausedAt: q.PausedAt, PausedUntil: q.PausedTill,
			Configured: q.Configured, Hidden: q.Hidden,
			Settings: q.Settings, Limits: q.Limits, Bucket: q.Bucket, Fairness: q.Fairness, Created: q.Created,
		})
		return true
	})
	if b, _, ok := src.Get(nil, record.MetaKey()); ok && err == nil {
		s.shard, err = record.DecodeShard(b)
	}
	if b, _, ok := src.Get(nil, record.FormatKey()); ok && err == nil {
		s.format, err = record.DecodeFormat(b)
	}
	return s, err
}

// job reads one job with all its parts.
func (s stored) job(name queueName, id job.ID) (job.Job, bool) {
	q := s.ids[name]
	b, _, ok := s.source.Get(nil, record.JobKey(nil, q, id, record.PartFirst))
	if !ok {
		return job.Job{}, false
	}
	var j job.Job
	if err := record.DecodeFirst(b, &j); err != nil {
		panic(err)
	}
	if b, _, ok := s.source.Get(nil, record.JobKey(nil, q, id, record.PartState)); ok {
		if err := record.DecodeMeta(b, &j); err != nil {
			panic(err)
		}
	}
	if j.Flags.Has(job.FlagTombstone) {
		j.Type, j.Body, j.BodyKind, j.Extra, j.Trace, j.Origin = "", nil, 0, nil, "", 0
	}
	j.ID, j.Namespace, j.Queue, j.QueueNum = id, name.ns, name.name, uint32(q)
	if b, _, ok := s.source.Get(nil, record.JobKey(nil, q, id, record.PartBody)); ok {
		if err := record.DecodeBody(b, &j); err != nil {
			panic(err)
		}
	}
	if b, _, ok := s.source.Get(nil, record.JobKey(nil, q, id, record.PartFailures)); ok {
		fs, err := record.DecodeFailures(b)
		if err != nil {
			panic(err)
		}
		j.Failures = fs
	}
	if b, _, ok := s.source.Get(nil, record.JobKey(nil, q, id, record.PartResult)); ok {
		j.Result = b
	}
	return j, true
}

// runAt returns when a job is due.
func (s stored) runAt(id job.ID) (job.Time, bool) {
	for name := range s.ids {
		if j, ok := s.job(name, id); ok {
			return j.RunAt, true
		}
	}
	return 0, false
}

// list returns one state of a queue in order.
func (s stored) list(ns, queue string, st job.State) []job.Job {
	name := queueName{ns, queue}
	lists := []record.List{record.List(st)}
	if st == job.Ready {
		lists = append(lists, record.ListGrouped)
	}
	var out []job.Job
	for _, list := range lists {
		s.source.Scan(record.ListStart(nil, s.ids[name], list), record.ListEnd(nil, s.ids[name], list), false,
			func(key, _ []byte) bool {
				j, ok := s.job(name, record.EntryID(key))
				if !ok {
					j = job.Job{ID: record.EntryID(key), Type: "listed, but there is no such job"}
				}
				out = append(out, j)
				return true
			})
	}
	if st == job.Ready {
		slices.SortStableFunc(out, func(a, b job.Job) int {
			if a.Order.Before(b.Order) {
				return -1
			}
			return 1
		})
	}
	return out
}

// differ says what is stored that the model does not have, and the other way round.
func (s stored) differ(v View, m *Model) string {
	d := diff(v.Dump(), m.Dump())
	if m.Gated && s.format != m.format { // else nobody can tell
		d += fmt.Sprintf("\n  machine: format %d\n  model:   format %d", s.format, m.format)
	}
	return d
}

// view returns the state as of now, with what is known under these keys.
func (s stored) view(now job.Time, keys map[keyName]bool) (View, error) {
	type list struct {
		queueName

		state job.State
	}
	read := map[list][]job.Job{}
	v := View{Queues: s.infos, List: func(ns, queue string, st job.State) []job.Job {
		l := list{queueName{ns, queue}, st}
		jobs, ok := read[l]
		if !ok {
			jobs = s.list(ns, queue, st)
			read[l] = jobs
		}
		return jobs
	}}
	for i := range v.Queues {
		q := &v.Queues[i]
		q.Bucket = q.Limits.Fill(q.Bucket, now)
		if ready := v.List(q.Namespace, q.Name, job.Ready); len(ready) > 0 {
			q.OldestReady = ready[0].Since
		}
	}
	err := errors.Join(s.locks(&v, now), s.outcomes(&v, now))
	return v, errors.Join(err, readMore(&v, engine.NewQuery(reader{s.source}), now, keys))
}

// locks reads the locks that have not lapsed.
func (s stored) locks(v *View, now job.Time) (err error) {
	lo, hi := record.AllLocks()
	s.source.Scan(lo, hi, false, func(key, value []byte) bool {
		ns, name, ok := record.ParseLockKey(key)
		l, derr := record.DecodeLock(value)
		if !ok || derr != nil {
			err = fmt.Errorf("lock %q: %w", key, derr)
			return false
		}
		if now < l.Until {
			v.Locks = append(v.Locks, Lock{ns, name, l.Taker, l.Until})
		}
		return true
	})
	return err
}

// outcomes reads the outcomes that are known.
func (s stored) outcomes(v *View, now job.Time) (err error) {
	lo, hi := record.AllOutcomes()
	s.source.Scan(lo, hi, false, func(k, value []byte) bool {
		ns, key, ok := record.ParseOutcomeKey(k)
		o, derr := record.DecodeOutcome(value)
		if !ok || derr != nil {
			err = fmt.Errorf("outcome %q: %w", k, derr)
			return false
		}
		if now < o.Until {
			v.Outcomes = append(v.Outcomes, Outcome{ns, key, o.How, o.Until})
		}
		return true
	})
	return err
}

// reader lets a Query read what is not committed yet.
type reader struct{ records }

func (r reader) Get(dst, key []byte) ([]byte, bool, error) {
	value, _, ok := r.records.Get(dst, key)
	return value, ok, nil
}

func (r reader) Scan(span store.Range, visit func(key, value []byte) bool) error {
	r.records.Scan(span.Lo, span.Hi, span.Reverse, visit)
	return nil
}

// readMore reads what belongs to no queue.
func readMore(v *View, q engine.Query, now job.Time, keys map[keyName]bool) error {
	for _, space := range spaces {
		values, err := q.Values(space, "", 0)
		if err != nil {
			return err
		}
		for _, n := range values {
			v.Values = append(v.Values, Value{space, n.Name, n.Value})
		}
	}
	for name := range keys {
		p, ok, err := q.Progress(name.ns, name.key, now)
		if err != nil {
			return err
		}
		if ok {
			v.Progress = append(v.Progress, Progress{p, name.ns, name.key})
		}
	}
	for _, ns := range namespaces {
		infos, err := q.Batches(ns, 0, 0)
		if err != nil {
			return err
		}
		v.Batches = append(v.Batches, infos...)
	}
	schedules, err := q.Schedules("")
	if err != nil {
		return err
	}
	v.Schedules = schedules
	if v.Hooks, err = q.Hooks(""); err != nil {
		return err
	}
	v.Kept, err = q.KeptHolders()
	return err
}
