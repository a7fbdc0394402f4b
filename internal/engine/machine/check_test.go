package machine_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// pair is a record.
type pair struct{ key, value []byte }

// everything returns the records of a store with something of each kind: jobs in all
// states, with groups, keys, numbers, serials, fingerprints, locks, batches and progress.
func everything(t *testing.T) []pair {
	t.Helper()
	s := memstore.New()
	core, err := engine.OpenCore(s, start, engine.CoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := uint64(0)
	do := func(cmd job.Command) job.Result {
		t.Helper()
		token++
		var res job.Result
		if answered, _ := core.Apply(start, 1, token, cmd, &res); !answered || res.Err != nil {
			t.Fatalf("%T: answered %v, %v", cmd, answered, res.Err)
		}
		return res
	}
	push := func(change func(*job.Spec)) job.ID {
		t.Helper()
		spec := job.Spec{Namespace: namespace, Queue: "q", Body: []byte("body")}
		change(&spec)
		return do(&job.Push{Spec: spec}).ID
	}
	in := func(queue string) func(*job.Spec) { return func(s *job.Spec) { s.Queue = queue } }
	ref := func(id job.ID, queue uint32) job.Ref { return job.ByPlace(namespace, queue, id) }
	fetch := func(queue string) {
		t.Helper()
		do(&job.Fetch{
			Namespace: namespace, Queues: []string{queue}, Max: 1, DefaultLease: time.Hour,
			OnEnd: job.EndKeep,
		})
	}

	leased := push(in("q"))
	fetch("q")
	push(func(s *job.Spec) { s.Body = bytes.Repeat([]byte("large"), 2000) })
	push(func(s *job.Spec) { s.Delay = time.Hour })
	push(func(s *job.Spec) { s.BlockedBy = []job.Blocker{{QueueNum: 1, ID: leased}} })
	push(func(s *job.Spec) { s.Key = "alone" })
	push(func(s *job.Spec) { s.Key = "shared" })
	push(func(s *job.Spec) { s.Key = "shared" })
	push(func(s *job.Spec) { s.Numbered = true })
	push(func(s *job.Spec) { s.Fingerprint = job.Digest{1} })
	push(func(s *job.Spec) { s.Lock, s.LockFor = "lock", time.Hour })
	push(func(s *job.Spec) { s.Lock, s.LockFor = "second lock", time.Hour })
	push(func(s *job.Spec) { s.TTL = time.Hour })
	do(&job.Bury{Ref: ref(push(in("q")), 1), Need: job.NeedAny})
	do(&job.Kill{Ref: ref(push(in("q")), 1)})
	do(&job.Ack{Ref: ref(push(in("q")), 1), Need: job.NeedAny, Keep: true, Result: []byte("done")})
	do(&job.Fail{
		Ref:     ref(push(func(s *job.Spec) { s.Policy.MaxFails, s.Policy.Exhaust = 1, job.ExhaustKeep }), 1),
		Need:    job.NeedAny,
		Failure: job.Failure{Message: "no"}, Result: []byte("failed"),
	})
	do(&job.Fail{Ref: ref(push(func(s *job.Spec) {
		s.Policy.Backoff = job.Backoff{Unit: time.Second, Base: time.Hour}
	}), 1), Need: job.NeedAny})

	for range 3 {
		push(func(s *job.Spec) { s.Queue, s.Group = "grouped", "busy" })
		push(func(s *job.Spec) { s.Queue, s.Group = "grouped", "free" })
	}
	fetch("grouped")
	do(&job.Configure{Namespace: namespace, Queue: "serial", Settings: job.Settings{Serials: true}})
	push(in("serial"))

	ended := push(func(s *job.Spec) { s.Key, s.Tracked = "ended", true })
	do(&job.Report{Namespace: namespace, Key: "ended", Percent: 50})
	do(&job.Ack{Ref: ref(ended, 1), Need: job.NeedAny})
	parent := do(&job.NewBatch{
		Namespace: namespace, Complete: &job.Spec{Namespace: namespace, Queue: "q"},
		OpenFor: time.Hour,
	}).Batch
	child := do(&job.NewBatch{
		Namespace: namespace, Parent: parent, OpenFor: time.Hour, KeepFor: time.Hour,
		KeepDone: time.Hour,
	}).Batch
	push(func(s *job.Spec) { s.Batch = parent })
	push(func(s *job.Spec) { s.Batch = child })
	do(&job.CommitBatch{Namespace: namespace, Batch: child})

	b, _ := core.Seal()
	if err := store.CommitNow(s, b); err != nil {
		t.Fatal(err)
	}
	var all []pair
	err = s.Scan(store.Range{}, func(key, value []byte) bool {
		all = append(all, pair{bytes.Clone(key), bytes.Clone(value)})
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// stored returns a store with these records.
func stored(t *testing.T, records []pair) store.Store {
	t.Helper()
	s := memstore.New()
	var b store.Batch
	for _, p := range records {
		b.Set(p.key, p.value)
	}
	if err := store.CommitNow(s, &b); err != nil {
		t.Fatal(err)
	}
	return s
}

// checked returns what the check says about a store with these records.
func checked(t *testing.T, records []pair) error {
	t.Helper()
	return engine.CheckInvariants(stored(t, records), start, nil)
}

// space returns what all keys of the kind of this one begin with.
func space(key []byte) byte { return key[0] }

// Whatever record is missing, something does not fit any more. Nothing else tells that a
// lock was taken, or how a job that is gone has ended.
func TestCheckFindsMissingRecords(t *testing.T) {
	t.Parallel()
	all := everything(t)
	if err := checked(t, all); err != nil {
		t.Fatalf("all records are there: %v", err)
	}
	for i, p := range all {
		alone := space(p.key) == space(record.LockKey(nil, "", "")) ||
			space(p.key) == space(record.OutcomeKey(nil, "", ""))
		if err := checked(t, slices.Concat(all[:i], all[i+1:])); (err == nil) != alone {
			t.Errorf("without record %q: %v", p.key, err)
		}
	}
}

// An entry that leads to a job of another place is found, wherever it stands.
func TestCheckFindsStrayEntries(t *testing.T) {
	t.Parallel()
	kinds := map[byte]bool{}
	for _, key := range [][]byte{
		record.ListStart(nil, 0, record.ListReady), record.TimerFrom(nil, 0), record.GroupKey(nil, 0, ""),
		record.KeyKey(nil, "", ""),
		record.MoreKey(nil, "", "", 0), record.NumberKey(nil, 0), record.SerialKey(nil, 0, 0),
		record.AlikeKey(nil, 0, job.Digest{}, 0),
		record.DependantKey(nil, 0, 0, 0), record.QueueNameKey(nil, 0),
	} {
		kinds[space(key)] = false
	}
	all := everything(t)
	for _, p := range all {
		if _, listed := kinds[space(p.key)]; !listed {
			continue
		}
		kinds[space(p.key)] = true
		stray := bytes.Clone(p.key)
		stray[len(stray)-1] ^= 0x40
		if err := checked(t, append(slices.Clone(all), pair{stray, p.value})); err == nil {
			t.Errorf("record %q stands again at %q", p.key, stray)
		}
	}
	for kind, seen := range kinds {
		if !seen {
			t.Errorf("no entry of kind %q", kind)
		}
	}
}

// Two jobs cannot have taken one lock, nor one job two.
func TestCheckFindsForeignLock(t *testing.T) {
	t.Parallel()
	all := everything(t)
	i := slices.IndexFunc(all, func(p pair) bool { return space(p.key) == space(record.LockKey(nil, "", "")) })
	l, err := record.DecodeLock(all[i].value)
	if err != nil {
		t.Fatal(err)
	}
	other := record.LockKey(nil, namespace, "other")
	err = checked(t, append(slices.Clone(all), pair{other, all[i].value}))
	if err == nil {
		t.Error("a job has taken two locks")
	}
	l.Taker = 2 // which names none
	all[i].value = record.AppendLock(nil, l)
	all = append(all, pair{record.ForgetKey(nil, l.Until, l.Taker, all[i].key), all[i].key})
	if err := checked(t, all); err == nil || !strings.Contains(err.Error(), "INV-13") {
		t.Errorf("a lock has a taker that does not name it: %v", err)
	}
}

// What does not fit into memory at once is checked in portions, each as the whole is.
func TestCheckInPortions(t *testing.T) {
	t.Parallel()
	all := everything(t)
	check := func(records []pair) error {
		core, err := engine.OpenCore(stored(t, records), start, engine.CoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return machine.New(core.Storage(), start, machine.Options{}).CheckInPortions(1)
	}
	if err := check(all); err != nil {
		t.Fatal(err)
	}
	batches := 0
	for i, p := range all {
		changed := slices.Clone(all)
		switch space(p.key) {
		case space(record.LockKey(nil, "", "")):
			l, err := record.DecodeLock(p.value)
			if err != nil {
				t.Fatal(err)
			}
			l.Taker = 2 // which names none
			changed[i].value = record.AppendLock(nil, l)
			changed = append(changed, pair{record.ForgetKey(nil, l.Until, l.Taker, p.key), p.key})
		case space(record.BatchKey(nil, 0, record.BatchState)):
			if _, part, _ := record.ParseBatchKey(p.key); part != record.BatchState {
				continue
			}
			b, err := record.DecodeBatch(p.value)
			if err != nil {
				t.Fatal(err)
			}
			batches++
			b.Pending++
			changed[i].value = record.AppendBatch(nil, &b)
		default:
			continue
		}
		if err := check(changed); err == nil || !strings.Contains(err.Error(), "INV-1") {
			t.Errorf("record %q has changed: %v", p.key, err)
		}
	}
	if batches != 2 {
		t.Errorf("%d batches, want a parent and a child", batches)
	}
}
