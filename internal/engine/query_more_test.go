package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// Values are there once they are answered, in order of their names, page by page, and
// after a restart.
func TestValues(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	e, err := engine.Open(engine.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	c := e.NewCaller()
	for _, name := range []string{"c", "a", "b\x00", "b"} {
		r := c.Do(t.Context(), &job.SetValue{Space: "s", Name: name, Value: []byte("value of " + name), IfAbsent: true})
		if r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		if v, ok, err := e.Value("s", name); err != nil || !ok || string(v) != "value of "+name {
			t.Errorf("%q is %q, %v, %v", name, v, ok, err)
		}
	}
	r := c.Do(t.Context(), &job.SetValue{Space: "s", Name: "a", IfAbsent: true}, &job.DropValue{Space: "s", Name: "c"},
		&job.SetValue{Space: "t"})
	if r[0].Err != job.ErrHasValue || r[1].Count != 1 || r[2].Err != nil {
		t.Errorf("answers: %+v", r)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = engine.Open(engine.Options{Store: s}); err != nil {
		t.Fatal(err)
	}
	var got []engine.NamedValue
	for after := ""; ; after = got[len(got)-1].Name {
		page, err := e.Values("s", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	want := []engine.NamedValue{
		{"a", []byte("value of a")},
		{"b", []byte("value of b")},
		{"b\x00", []byte("value of b\x00")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Value("s", "a"); !errors.Is(err, job.ErrDraining) {
		t.Errorf("after the end: %v", err)
	}
}

// Under the floor of free space no value and no schedule is set and no batch is made; they can be
// dropped and committed.
func TestFreeFloorOfValuesAndBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &tracking{Store: memstore.New(), free: 1000}
		e, err := engine.Open(engine.Options{Store: s, FreeFloor: 500})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		set := &job.SetValue{Space: "s", Name: "n", Value: []byte("v")}
		batch := &job.NewBatch{Namespace: "ns", OpenFor: time.Hour, KeepFor: time.Hour, KeepDone: time.Hour}
		do(t, e, set, batch).wants(t)
		s.setFree(499)
		testkit.Advance(t, 2*time.Second)
		do(t, e, set).wants(t) // this one finds out
		cron := &job.SetSchedules{Entries: []job.Schedule{
			{Namespace: "ns", Name: "s", When: "@daily", Job: job.Spec{Queue: "q"}},
		}}
		do(t, e, set, batch, cron, &job.Atomic{Ops: []job.Command{cron}}).wants(t,
			job.NoSpace, job.NoSpace, job.NoSpace, job.NoSpace)
		do(t, e, &job.SetSchedules{Replace: true}).wants(t)
		do(t, e, &job.OpenBatch{Namespace: "ns", Batch: 1}, &job.CommitBatch{Namespace: "ns", Batch: 1}).wants(t)
		do(t, e, &job.DropValue{Space: "s", Name: "n"}, &job.Report{Namespace: "ns", Key: "k"}).wants(t)
	})
}

// A batch is read as it stands, alone and in the list of its namespace, until its time.
func TestBatchReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		created := e.Now()
		for i := range 3 {
			made := do(t, e, &job.NewBatch{
				Namespace: "ns", Parent: 1, Text: fmt.Sprint("batch ", i+1), OpenFor: time.Minute, KeepFor: time.Hour,
				KeepDone: time.Second,
				Success:  &job.Spec{Namespace: "ns", Queue: "callbacks", Body: []byte("body"), BodyKind: job.BodyBytes},
			})
			made.wants(t)
			if got := made.Results[0].Batch; got != job.BatchID(i+1) {
				t.Errorf("batch %d", got)
			}
		}
		spec := push("q", "").Spec
		spec.Batch = 2
		do(t, e, &job.Push{Spec: spec}, &job.CommitBatch{Namespace: "ns", Batch: 2}).wants(t)
		want := job.BatchInfo{
			ID: 2, Namespace: "ns", Parent: 1, Text: "batch 2", Created: created, Total: 1, Pending: 1,
			ForgetAt: created.Add(time.Hour),
		}
		got, ok, err := e.Batch("ns", 2)
		if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
			t.Errorf("%v, %v (-want +got):\n%s", ok, err, diff)
		}
		do(t, e, fetch("q", 0), ack(4)).wants(t)
		if got, _, _ = e.Batch("ns", 2); got.Pending != 0 || got.Complete != job.CallbackAcked ||
			got.Success != job.CallbackPushed {
			t.Errorf("after the ack: %+v", got)
		}
		if j, err := e.Get(job.ByID("ns", "callbacks", 5)); err != nil || j.Batch != 2 ||
			!j.Flags.Has(job.FlagOnSuccess) || string(j.Body) != "body" {
			t.Errorf("callback: %+v, %v", j, err)
		}
		list := func(ns string, after job.BatchID, limit int) (ids []job.BatchID) {
			t.Helper()
			infos, err := e.Batches(ns, after, limit)
			if err != nil {
				t.Error(err)
			}
			for i := range infos {
				ids = append(ids, infos[i].ID)
			}
			return ids
		}
		if diff := cmp.Diff([][]job.BatchID{{1, 2, 3}, {2}, {3}, nil}, [][]job.BatchID{
			list("ns", 0, 0), list("ns", 1, 1), list("ns", 2, 5), list("other", 0, 0),
		}); diff != "" {
			t.Errorf("lists (-want +got):\n%s", diff)
		}
		if _, ok, err := e.Batch("other", 2); ok || err != nil {
			t.Errorf("in another namespace: %v, %v", ok, err)
		}
		testkit.Advance(t, time.Second)
		if _, ok, err := e.Batch("ns", 2); ok || err != nil {
			t.Errorf("after its time: %v, %v", ok, err)
		}
		testkit.Advance(t, time.Minute)
		if ids := list("ns", 0, 0); ids != nil {
			t.Errorf("never committed, but still there: %v", ids)
		}
	})
}

// How a tracked job has ended is known for half an hour of the engine's time, however
// long its record stays.
func TestProgressLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		spec := push("q", "").Spec
		spec.Key, spec.Tracked = "k", true
		do(t, e, &job.Push{Spec: spec}, &job.Report{Namespace: "ns", Key: "k", Percent: 5, SetPercent: true}).wants(t)
		pushed := e.Now()
		if p, ok, err := e.Progress("ns", "k"); err != nil || !ok ||
			p != (job.Progress{State: job.Ready, Percent: 5, HasPercent: true, Updated: pushed}) {
			t.Errorf("alive: %+v, %v, %v", p, ok, err)
		}
		testkit.Advance(t, time.Second)
		do(t, e, fetch("q", 0)).wants(t)
		leased := e.Now()
		if p, _, err := e.Progress("ns", "k"); err != nil ||
			p != (job.Progress{State: job.Leased, Percent: 5, HasPercent: true, Updated: leased}) {
			t.Errorf("leased: %+v, %v", p, err)
		}
		do(t, e, ack(1)).wants(t)
		ended := job.Progress{Outcome: job.Succeeded, Percent: 5, HasPercent: true, Updated: leased}
		testkit.Advance(t, 30*time.Minute-time.Microsecond)
		if p, ok, err := e.Progress("ns", "k"); err != nil || !ok || p != ended {
			t.Errorf("ended: %+v, %v, %v", p, ok, err)
		}
		testkit.Advance(t, time.Microsecond)
		if p, ok, err := e.Progress("ns", "k"); err != nil || ok {
			t.Errorf("lapsed: %+v, %v, %v", p, ok, err)
		}
	})
}

// A damaged record is an error, and not something that is not there.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	batch := record.Batch{Namespace: "ns", Created: 1}
	ref := record.KeyRef{JobRef: record.JobRef{Queue: 1, ID: 1}}
	live := job.Job{State: job.Ready, Created: 1, Entered: 1, Flags: job.FlagTracked | job.FlagInline}
	damage := []byte{0xff}
	var b store.Batch
	b.Set(record.BatchKey(nil, 1, record.BatchState), damage)
	b.Set(record.BatchKey(nil, 2, record.BatchState), record.AppendBatch(nil, &batch)) // without a definition
	b.Set(record.BatchesKey(nil, "ns", 3), nil)                                        // without a batch
	b.Set(record.BatchKey(nil, 4, record.BatchState), record.AppendBatch(nil, &batch))
	b.Set(record.BatchKey(nil, 4, record.BatchFixed), damage)
	b.Set(record.OutcomeKey(nil, "ns", "ended"), damage)
	b.Set(record.KeyKey(nil, "ns", "alive"), record.AppendKeyRef(nil, ref))
	b.Set(record.KeyKey(nil, "ns", "key"), damage)
	b.Set(record.QueueKey(nil, "ns", "q"), record.AppendQueue(nil, &record.Queue{ID: 1}))
	b.Set(record.QueueNameKey(nil, 1), record.QueueKey(nil, "ns", "q"))
	b.Set(record.JobKey(nil, 1, 1, record.PartFirst), record.AppendFirst(nil, &live))
	b.Set(record.JobKey(nil, 1, 1, record.PartProgress), damage)
	if err := store.CommitNow(s, &b); err != nil {
		t.Fatal(err)
	}
	q := engine.NewQuery(s)
	for id := job.BatchID(1); id <= 4; id++ {
		if id == 3 {
			continue
		}
		if info, ok, err := q.Batch("ns", id); err == nil {
			t.Errorf("batch %d: %+v, %v", id, info, ok)
		}
	}
	if infos, err := q.Batches("ns", 0, 0); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("batches: %+v, %v", infos, err)
	}
	for _, key := range []string{"ended", "alive", "key"} {
		if p, ok, err := q.Progress("ns", key, 5); err == nil {
			t.Errorf("progress of %s: %+v, %v", key, p, ok)
		}
	}
}
