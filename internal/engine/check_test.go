package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// aged is a store on which an engine has run: jobs in several states, one of them held
// by a caller that has gone with it.
func aged(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, s, engine.DurabilityFsync)
		later := push("q", "later")
		later.Spec.Delay = time.Hour
		waiting := push("q", "waiting")
		waiting.Spec.BlockedBy = []job.Blocker{{QueueNum: 1, ID: 1}}
		do(t, e, push("q", "first"), push("q", "second"), later, waiting)
		held := fetch("q", 0)
		held.OnEnd, held.Holder = job.EndRelease, e.NewHolder()
		do(t, e, held).wantsJobs(t, 1)
	})
	return s
}

func TestCheckSound(t *testing.T) {
	t.Parallel()
	s := aged(t)
	n, err := engine.CheckRecords(s, nil)
	if err != nil || n < 8 {
		t.Errorf("%d records, %v", n, err)
	}
	if err := engine.CheckInvariants(s, job.TimeOf(time.Now()), nil); err != nil {
		t.Error(err)
	}
	info, _, err := engine.NewQuery(s).Queue("ns", "q")
	if err != nil || info.Counts[job.Leased] != 1 || info.Counts[job.Blocked] != 1 {
		t.Errorf("the check has changed the store: %v, %v", info.Counts, err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	set := func(key, value []byte) func(*store.Batch) { return func(b *store.Batch) { b.Set(key, value) } }
	del := func(key []byte) func(*store.Batch) { return func(b *store.Batch) { b.Delete(key) } }
	for _, c := range []struct {
		name       string
		damage     func(*store.Batch)
		records    string // what the check of records says; empty: nothing
		invariants string
	}{
		{
			"unreadable job", set(record.JobKey(nil, 1, 2, record.PartFirst), []byte("?")), "malformed record",
			"unreadable job",
		},
		{"record of nothing we know", set([]byte("zebra"), nil), "malformed record", ""},
		{"job that is gone", del(record.JobKey(nil, 1, 2, record.PartFirst)), "", "INV-"},
		{"state of no job", set(record.JobKey(nil, 1, 0, record.PartState),
			record.AppendMeta(nil, &job.Job{State: job.Ready})), "", "INV-1"},
		{
			"list entry of no job", set(record.ListKey(nil, 1, record.List(job.Dead), &job.Job{ID: 99}), nil), "",
			"INV-1",
		},
		{"dependant that is not listed", del(record.DependantKey(nil, 1, 1, 4)), "", "INV-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := aged(t)
			var b store.Batch
			c.damage(&b)
			if err := store.CommitNow(s, &b); err != nil {
				t.Fatal(err)
			}
			_, records := engine.CheckRecords(s, nil)
			wantDamage(t, "records", records, c.records)
			wantDamage(t, "invariants", engine.CheckInvariants(s, job.TimeOf(time.Now()), nil), c.invariants)
		})
	}
}

func wantDamage(t *testing.T, what string, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case text != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: %v, want damage: %q", what, err, text)
	}
}

// Progress is told of as many records as there are, now and then.
func TestCheckProgress(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var b store.Batch
	const count = 50_000
	for i := range count {
		b.Set(record.ValueKey(nil, "space", fmt.Sprint(i)), nil)
	}
	if err := store.CommitNow(s, &b); err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	n, err := engine.CheckRecords(s, func(n uint64) { seen = append(seen, n) })
	if err != nil || n != count {
		t.Errorf("%d records, %v", n, err)
	}
	if len(seen) != 3 || seen[0] != 1<<14 || seen[2] != 3<<14 {
		t.Errorf("progress %v", seen)
	}
}

// A backup of an engine that is closing, or has failed, is refused.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	e, err := engine.Open(engine.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Backup(t.TempDir() + "/b"); !errors.Is(err, job.ErrDraining) {
		t.Errorf("backup after Close: %v", err)
	}
}
