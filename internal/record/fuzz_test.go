package record

import (
	"reflect"
	"testing"

	"millrace/internal/job"
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

func FuzzDecodeMeta(f *testing.F) {
	for seed := range uint64(20) {
		j := newGen(seed).meta()
		f.Add(AppendMeta(nil, &j))
	}
	decode := func(b []byte) (j job.Job, err error) { return j, DecodeMeta(b, &j) }
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decode(b)
		if cap(j.Blockers) > len(b) || len(j.Key)+len(j.Group) > len(b) {
			t.Fatalf("%d bytes make %d blockers and texts of %d bytes", len(b), cap(j.Blockers), len(j.Key)+len(j.Group))
		}
		if err != nil || j.Created <= 0 {
			return // times are relative to a creation after 1970
		}
		if j.Policy.Backoff.Unit == 0 { // with the rest of a back-off it is read, but never written
			j.Policy.Backoff = job.Backoff{Floor: j.Policy.Backoff.Floor}
		}
		again(t, j, func(j job.Job) []byte { return AppendMeta(nil, &j) }, decode)
	})
}

func FuzzDecodeBody(f *testing.F) {
	f.Add(AppendBody(nil, &job.Job{BodyKind: job.BodyBytes, Type: "t", Extra: []byte("x"), Body: []byte("body")}))
	decode := func(b []byte) (j job.Job, err error) { return j, DecodeBody(b, &j) }
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decode(b)
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
		if err := DecodeInline(b, &body); err != nil || string(body.Body) != string(whole.Body) || body.Type != whole.Type {
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
		fs, err := DecodeFailures(b)
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
		q, err := DecodeQueue(b)
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
		if s, err := DecodeShard(b); err == nil {
			again(t, s, func(s Shard) []byte { return AppendShard(nil, &s) }, DecodeShard)
		}
	})
}

func FuzzDecodeSmall(f *testing.F) {
	f.Add(AppendRef(nil, JobRef{1, 2}))
	f.Add(AppendKeyRef(nil, KeyRef{JobRef{1, 2}, true}))
	f.Add(AppendSweep(nil, Sweep{5, "namespace"}))
	f.Add(AppendUint(nil, 1<<60))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeRef(b); err == nil {
			again(t, r, func(r JobRef) []byte { return AppendRef(nil, r) }, DecodeRef)
		}
		if r, err := DecodeKeyRef(b); err == nil {
			again(t, r, func(r KeyRef) []byte { return AppendKeyRef(nil, r) }, DecodeKeyRef)
		}
		if s, err := DecodeSweep(b); err == nil {
			again(t, s, func(s Sweep) []byte { return AppendSweep(nil, s) }, DecodeSweep)
		}
		if n, err := DecodeUint(b); err == nil {
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
		if namespace, name, ok := ParseQueueKey(key); ok {
			same(QueueKey(nil, namespace, name))
		}
	})
}
