package record

import (
	"reflect"
	"testing"

	"millrace/internal/job"
	"millrace/internal/testkit"
)

// again asserts that what was decoded is encoded to something that decodes to the same.
func again[T any](t *testing.T, v T, encode func(T) []byte, decode func([]byte) (T, error)) {
	t.Helper()
	got, err := decode(encode(v))
	if err != nil {
		t.Fatalf("%+v cannot be read back: %v", v, err)
	}
	if !reflect.DeepEqual(got, v) {
		t.Fatalf("%+v comes back as %+v", v, got)
	}
}

// bounded decodes b, and asserts that no length in it was believed.
func bounded[T any](t *testing.T, b []byte, decode func([]byte) (T, error)) (v T, err error) {
	t.Helper()
	testkit.Bounded(t, len(b), func() { v, err = decode(b) })
	return v, err
}

func FuzzDecodeMeta(f *testing.F) {
	for seed := range uint64(20) {
		j := newGen(seed).meta()
		f.Add(AppendMeta(nil, &j))
	}
	decode := func(b []byte) (j job.Job, err error) { return j, DecodeMeta(b, &j) }
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := bounded(t, b, decode)
		if texts := len(j.Key) + len(j.Group) + len(j.Lock); cap(j.Blockers) > len(b) || texts > len(b) {
			t.Fatalf("%d bytes make %d blockers and texts of %d bytes", len(b), cap(j.Blockers), texts)
		}
		if err != nil || j.Created <= 0 {
			return // times are relative to a creation after 1970
		}
		mend(&j.Policy)
		again(t, j, func(j job.Job) []byte { return AppendMeta(nil, &j) }, decode)
	})
}

// mend makes a policy that was read one that could have been written: without a unit
// there is no back-off.
func mend(p *job.Policy) {
	if p.Backoff.Unit == 0 {
		p.Backoff = job.Backoff{Floor: p.Backoff.Floor}
	}
}

func FuzzDecodeProgress(f *testing.F) {
	for seed := range uint64(5) {
		p := newGen(seed).progress()
		f.Add(AppendProgress(nil, &p))
		f.Add(AppendOutcome(nil, &Outcome{Progress: p, How: job.Died, ID: 1, Until: 2}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := bounded(t, b, DecodeProgress); err == nil {
			again(t, p, func(p Progress) []byte { return AppendProgress(nil, &p) }, DecodeProgress)
		}
		o, err := bounded(t, b, DecodeOutcome)
		if len(o.Text) > len(b) {
			t.Fatalf("%d bytes make %d", len(b), len(o.Text))
		}
		if err == nil {
			again(t, o, func(o Outcome) []byte { return AppendOutcome(nil, &o) }, DecodeOutcome)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	for seed := range uint64(5) {
		b := newGen(seed).batch()
		f.Add(AppendBatch(nil, &b))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := bounded(t, p, DecodeBatch)
		if len(b.Namespace) > len(p) {
			t.Fatalf("%d bytes make %d", len(p), len(b.Namespace))
		}
		if err == nil && b.Created > 0 {
			again(t, b, func(b Batch) []byte { return AppendBatch(nil, &b) }, DecodeBatch)
		}
	})
}

func FuzzDecodeBatchDef(f *testing.F) {
	for seed := range uint64(10) {
		b := newGen(seed).batchDef()
		f.Add(AppendBatchDef(nil, &b))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := bounded(t, p, DecodeBatchDef)
		size := len(b.Text)
		for _, s := range []*job.Spec{b.Complete, b.Success} {
			if s != nil {
				size += len(s.Body) + len(s.Extra) + len(s.Queue) + len(s.BlockedBy)
				mend(&s.Policy)
			}
		}
		if size > len(p) {
			t.Fatalf("%d bytes make %d", len(p), size)
		}
		if err == nil {
			again(t, b, func(b BatchDef) []byte { return AppendBatchDef(nil, &b) }, DecodeBatchDef)
		}
	})
}

func FuzzDecodeSchedule(f *testing.F) {
	for seed := range uint64(5) {
		s, def := newGen(seed).schedule(), newGen(seed).scheduleDef()
		f.Add(AppendSchedule(nil, &s))
		f.Add(AppendScheduleDef(nil, &def))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := bounded(t, p, DecodeSchedule)
		if len(s.Name)+len(s.Namespace)+len(s.Runs) > len(p) {
			t.Fatalf("%d bytes make %d", len(p), len(s.Name)+len(s.Namespace)+len(s.Runs))
		}
		if err == nil && s.Created > 0 {
			again(t, s, func(s Schedule) []byte { return AppendSchedule(nil, &s) }, DecodeSchedule)
		}
		def, err := bounded(t, p, DecodeScheduleDef)
		if n := len(def.Name) + len(def.When) + len(def.Job.Body) + len(def.Job.BlockedBy); n > len(p) {
			t.Fatalf("%d bytes make %d", len(p), n)
		}
		if mend(&def.Job.Policy); err == nil {
			again(t, def, func(s job.Schedule) []byte { return AppendScheduleDef(nil, &s) }, DecodeScheduleDef)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	f.Add(AppendBody(nil, &job.Job{BodyKind: job.BodyBytes, Type: "t", Extra: []byte("x"), Body: []byte("body")}))
	decode := func(b []byte) (j job.Job, err error) { return j, DecodeBody(b, &j) }
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := bounded(t, b, decode)
		if len(j.Type)+len(j.Extra)+len(j.Body) > len(b) {
			t.Fatalf("%d bytes make %d", len(b), len(j.Type)+len(j.Extra)+len(j.Body))
		}
		if err == nil {
			again(t, j, func(j job.Job) []byte { return AppendBody(nil, &j) }, decode)
		}
	})
}

func FuzzDecodeFirst(f *testing.F) {
	for seed := range uint64(20) {
		j := newGen(seed).meta()
		j.Flags |= job.FlagInline
		j.BodyKind, j.Body = job.BodyBytes, []byte("body")
		f.Add(AppendFirst(nil, &j))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, body job.Job
		if DecodeFirst(b, &whole) != nil || !whole.Flags.Has(job.FlagInline) {
			return
		}
		if err := DecodeInline(b, &body); err != nil || string(body.Body) != string(whole.Body) ||
			body.Type != whole.Type {
			t.Fatalf("alone the body is %+v, %v, with the rest %+v", body, err, whole)
		}
		if len(whole.Type)+len(whole.Extra)+len(whole.Body) > len(b) {
			t.Fatalf("%d bytes make %d", len(b), len(whole.Type)+len(whole.Extra)+len(whole.Body))
		}
	})
}

func FuzzDecodeFailures(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(AppendFailures(nil, newGen(seed).failures()))
	}
	f.Add([]byte{1, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		fs, err := bounded(t, b, DecodeFailures)
		size := len(fs)
		for i := range fs {
			size += len(fs[i].Type) + len(fs[i].Message) + len(fs[i].Backtrace)
		}
		if size > len(b) {
			t.Fatalf("%d bytes make %d", len(b), size)
		}
		if err == nil {
			again(t, fs, func(fs []job.Failure) []byte { return AppendFailures(nil, fs) }, DecodeFailures)
		}
	})
}

func FuzzDecodeQueue(f *testing.F) {
	for seed := range uint64(5) {
		q := newGen(seed).queue()
		f.Add(AppendQueue(nil, &q))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := bounded(t, b, DecodeQueue)
		if len(q.Settings.Attrs) > len(b) {
			t.Fatalf("%d bytes make %d", len(b), len(q.Settings.Attrs))
		}
		if err == nil && q.Created > 0 {
			again(t, q, func(q Queue) []byte { return AppendQueue(nil, &q) }, DecodeQueue)
		}
	})
}

func FuzzDecodeShard(f *testing.F) {
	f.Add(AppendShard(nil, &Shard{1, 2, 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := bounded(t, b, DecodeShard); err == nil {
			again(t, s, func(s Shard) []byte { return AppendShard(nil, &s) }, DecodeShard)
		}
	})
}

func FuzzDecodeSmall(f *testing.F) {
	f.Add(AppendRef(nil, JobRef{1, 2}))
	f.Add(AppendKeyRef(nil, KeyRef{JobRef{1, 2}, true}))
	f.Add(AppendSweep(nil, Sweep{5, "namespace"}))
	f.Add(AppendEnding(nil, Ending{true, 5, JobRef{1, 2}}))
	f.Add(AppendFlush(nil, &Flush{Namespace: "namespace", Queues: 5}))
	f.Add(AppendUint(nil, 1<<60))
	f.Add(AppendLock(nil, Lock{5, 1e15}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := bounded(t, b, DecodeRef); err == nil {
			again(t, r, func(r JobRef) []byte { return AppendRef(nil, r) }, DecodeRef)
		}
		if r, err := bounded(t, b, DecodeKeyRef); err == nil {
			again(t, r, func(r KeyRef) []byte { return AppendKeyRef(nil, r) }, DecodeKeyRef)
		}
		if s, err := bounded(t, b, DecodeSweep); err == nil {
			again(t, s, func(s Sweep) []byte { return AppendSweep(nil, s) }, DecodeSweep)
		}
		if e, err := bounded(t, b, DecodeEnding); err == nil {
			again(t, e, func(e Ending) []byte { return AppendEnding(nil, e) }, DecodeEnding)
		}
		if f, err := bounded(t, b, DecodeFlush); err == nil {
			again(t, f, func(f Flush) []byte { return AppendFlush(nil, &f) }, DecodeFlush)
		}
		if l, err := bounded(t, b, DecodeLock); err == nil {
			again(t, l, func(l Lock) []byte { return AppendLock(nil, l) }, DecodeLock)
		}
		if n, err := bounded(t, b, DecodeUint); err == nil {
			again(t, n, func(n uint64) []byte { return AppendUint(nil, n) }, DecodeUint)
		}
	})
}

// A key that is parsed is the key of what it says.
func FuzzParseKeys(f *testing.F) {
	f.Add(JobKey(nil, 1, 2, PartBody))
	f.Add(TimerKey(nil, 1e15, 1, 2))
	f.Add(DependantKey(nil, 1, 2, 3))
	f.Add(EphemeralKey(nil, 1, 2))
	f.Add(QueueKey(nil, "a\x00b", "q"))
	f.Add(SweepKey(nil, 1))
	f.Add(EndingKey(nil, 1, 2))
	f.Add(FlushKeptKey(nil, 1))
	f.Add(ValueKey(nil, "space", "name"))
	f.Add(LockKey(nil, "a\x00b", "lock"))
	f.Add(OutcomeKey(nil, "ns", "key"))
	f.Add(BatchKey(nil, 5, BatchFixed))
	f.Add(ScheduleKey(nil, 5, BatchFixed))
	f.Add(ScheduleNameKey(nil, "a\x00b", "name"))
	f.Add(ForgetKey(nil, 1e15, 5, LockKey(nil, "ns", "lock")))
	f.Fuzz(func(t *testing.T, key []byte) {
		EntryID(key)
		same := func(k []byte) {
			t.Helper()
			if string(k) != string(key) {
				t.Fatalf("%x is parsed as the key %x", key, k)
			}
		}
		if q, id, part, ok := ParseJobKey(key); ok {
			same(JobKey(nil, q, id, part))
		}
		if at, q, id, ok := ParseTimerKey(key); ok {
			same(TimerKey(nil, at, q, id))
		}
		if q, id, ok := ParseDependantKey(key); ok && len(key) == 21 {
			blocker := EntryID(key[:9])
			same(DependantKey(nil, blocker, q, id))
		}
		if r := ParseEphemeralKey(key); r != (JobRef{}) && key[0] == spaceEphemeral {
			same(EphemeralKey(nil, r.Queue, r.ID))
		}
		if q := ParseSweepKey(key); q != 0 && key[0] == spaceSweep {
			same(SweepKey(nil, q))
		}
		if id, seq, ok := ParseEndingKey(key); ok {
			same(EndingKey(nil, id, seq))
		}
		if q, ok := ParseFlushKeptKey(key); ok {
			same(FlushKeptKey(nil, q))
		}
		if namespace, name, ok := ParseQueueKey(key); ok {
			same(QueueKey(nil, namespace, name))
		}
		if space, name, ok := ParseValueKey(key); ok {
			same(ValueKey(nil, space, name))
		}
		if namespace, lock, ok := ParseLockKey(key); ok {
			same(LockKey(nil, namespace, lock))
		}
		if namespace, k, ok := ParseOutcomeKey(key); ok {
			same(OutcomeKey(nil, namespace, k))
		}
		if id, part, ok := ParseScheduleKey(key); ok {
			same(ScheduleKey(nil, id, part))
		}
		if namespace, name, ok := ParseScheduleNameKey(key); ok {
			same(ScheduleNameKey(nil, namespace, name))
		}
		if id, part, ok := ParseBatchKey(key); ok {
			same(BatchKey(nil, id, part))
		}
		if at, id, lock, ok := ParseForgetKey(key); ok {
			about := OutcomeKey(nil, "", "")
			if lock {
				about = LockKey(nil, "", "")
			}
			same(ForgetKey(nil, at, id, about))
		}
	})
}
