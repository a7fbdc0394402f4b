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
	"millrace/internal/store/storetest"
)

var errDisk = errors.New("the disk is gone")

// wantFailed asserts that the engine has stopped for this reason and refuses all.
func wantFailed(t *testing.T, e *engine.Engine, want error) {
	t.Helper()
	select {
	case <-e.Failed():
	default:
		t.Fatal("the engine has not failed")
	}
	if err := e.Err(); !errors.Is(err, want) {
		t.Fatalf("the engine failed with %v, want %v", err, want)
	}
	for _, cmd := range []job.Command{push("q", ""), fetch("q", time.Hour), ack(1), &job.Flush{Namespace: "ns"}} {
		do(t, e, cmd).wants(t, job.Internal)
	}
	if err := e.Close(); !errors.Is(err, want) {
		t.Fatalf("closed with %v, want %v", err, want)
	}
}

// A commit that fails stops the engine: nothing is acknowledged after it, neither what
// was in the batch, nor what waited for it, nor what came behind.
func TestFailingCommit(t *testing.T) {
	t.Parallel()
	for round := range 20 { // which of two events the loop sees first is chance
		synctest.Test(t, func(t *testing.T) {
			g := newGated()
			e, err := engine.Open(engine.Options{Store: g, Seed: uint64(round + 1)})
			if err != nil {
				t.Fatal(err)
			}
			durable := do(t, e, push("old", ""))
			g.let(1)
			durable.wants(t)
			calls := map[string]*call{
				"in the batch":     do(t, e, push("q", "")),
				"late":             do(t, e, fetch("q", 0)),
				"in the open one":  do(t, e, push("q", "")),
				"of the open one":  do(t, e, fetch("q", 0)),
				"changes nothing":  do(t, e, ack(99)),
				"waits for a job":  do(t, e, fetch("empty", time.Hour)),
				"waits for result": do(t, e, &job.Await{Ref: job.ByPlace("ns", 1, 1), Wait: time.Hour}),
			}
			for name, c := range calls {
				if c.answers.Load() != 0 {
					t.Errorf("%s: answered early", name)
				}
			}
			g.gate <- errDisk
			synctest.Wait()
			for name, c := range calls {
				if n := c.answers.Load(); n != 1 || c.Results[0].Err == nil || c.Results[0].Err.Kind != job.Internal {
					t.Errorf("%s: answered %d times with %+v, want Internal", name, n, c.Results[0])
				}
			}
			wantFailed(t, e, errDisk)
			if n := g.commits.Load(); n != 2 {
				t.Errorf("%d commits, one of them after the failure", n)
			}
		})
	}
}

// A caller that is slow to take its answer holds up nobody, and keeps what it was told.
func TestFailingCommitMeetsASlowCaller(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			g := newGated()
			e, err := engine.Open(engine.Options{Store: g, Seed: uint64(round + 1)})
			if err != nil {
				t.Fatal(err)
			}
			do(t, e, push("old", ""), push("old", ""))
			g.let(1)
			pushed := do(t, e, push("q", ""))
			late := do(t, e, fetch("q", 0))
			late.wantsNothing(t)
			// The answer of a durable job is given at once, by whoever submits.
			stall := make(chan struct{})
			busy := &call{}
			busy.Commands = []job.Command{fetch("old", 0)}
			busy.Done = func(*engine.Request) {
				busy.answers.Add(1)
				<-stall
			}
			go e.Submit(&busy.Request)
			synctest.Wait()
			another := submit(e, fetch("old", 0))
			behind := []*call{submit(e, push("q", "")), submit(e, fetch("q", 0))}
			g.gate <- errDisk
			synctest.Wait()
			close(stall)
			synctest.Wait()
			busy.wantsJobs(t, 1) // before the failure
			another.wantsJobs(t, 2)
			for _, c := range append(behind, pushed, late) {
				c.wants(t, job.Internal)
			}
			wantFailed(t, e, errDisk)
		})
	}
}

// Commands that arrive together with a failure are refused or were answered before.
func TestFailingCommitUnderLoad(t *testing.T) {
	t.Parallel()
	f := storetest.NewFaulty(memstore.New())
	e, err := engine.Open(engine.Options{Store: f})
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(storetest.CallCommit, 50, errDisk)
	acked := make(chan job.ID, 1<<16)
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			c := e.NewCaller()
			for {
				r := c.Do(t.Context(), push("q", ""))
				if r[0].Err != nil {
					if r[0].Err.Kind != job.Internal {
						t.Errorf("refused with %v", r[0].Err)
					}
					return
				}
				acked <- r[0].ID
			}
		}()
	}
	for range 8 {
		<-done
	}
	close(acked)
	<-e.Failed()
	if err := e.Close(); !errors.Is(err, errDisk) {
		t.Errorf("closed with %v", err)
	}
	again := open(t, f.Store, engine.DurabilityFsync)
	for id := range acked {
		if _, err := again.Get(job.ByID("ns", "q", id)); err != nil {
			t.Fatalf("job %d was acknowledged and is gone: %v", id, err)
		}
	}
}

// An unreadable store stops the engine as well; everybody is answered.
func TestUnreadableStore(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"get", "scan", "corrupt"} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := storetest.NewFaulty(memstore.New())
				first := open(t, f, engine.DurabilityFsync)
				do(t, first, push("q", "")).wants(t)
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				e, err := engine.Open(engine.Options{Store: f})
				if err != nil {
					t.Fatal(err)
				}
				waiter := do(t, e, fetch("empty", time.Hour))
				want := errDisk
				switch damage {
				case "get":
					f.Fail(storetest.CallGet, 1, errDisk)
				case "scan":
					f.Fail(storetest.CallScan, 1, errDisk)
				case "corrupt":
					want = store.ErrCorrupt
					storetest.Commit(t, f, func(b *store.Batch) {
						b.Set(record.JobKey(nil, 1, 1, record.PartFirst), []byte("nonsense"))
					})
				}
				// Several at once: the one that meets the fault, and those behind it.
				calls := []*call{
					submit(e, push("other", "")), submit(e, fetch("q", 0)), submit(e, push("other", "")),
					submit(e, fetch("q", time.Hour)),
				}
				synctest.Wait()
				waiter.wants(t, job.Internal)
				for i, c := range calls[1:] {
					if c.answers.Load() != 1 {
						t.Fatalf("call %d was answered %d times", i+1, c.answers.Load())
					}
					c.wants(t, job.Internal)
				}
				if n := calls[0].answers.Load(); n != 1 {
					t.Fatalf("the push before it was answered %d times", n)
				}
				wantFailed(t, e, want)
			})
		})
	}
}

// A store that holds damaged records is not opened.
func TestOpenRefusesDamage(t *testing.T) {
	t.Parallel()
	healthy := func(t *testing.T) *memstore.Store {
		t.Helper()
		s := memstore.New()
		e := open(t, s, engine.DurabilityFsync)
		caller := e.NewCaller()
		leased := push("q", "")
		for _, cmd := range []job.Command{
			leased,
			&job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1, OnEnd: job.EndRelease},
		} {
			if r := caller.Do(t.Context(), cmd); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, damage := range map[string]func(b *store.Batch){
		"shard":       func(b *store.Batch) { b.Set(record.MetaKey(), []byte{1, 2}) },
		"newer shard": func(b *store.Batch) { b.Set(record.MetaKey(), []byte{200}) },
		"queue":       func(b *store.Batch) { b.Set(record.QueueKey(nil, "ns", "q"), []byte{1}) },
		"queue key":   func(b *store.Batch) { b.Set([]byte("qx"), []byte{1}) },
		"leased job":  func(b *store.Batch) { b.Set(record.JobKey(nil, 1, 1, record.PartState), []byte{1, 77}) },
		"lost job": func(b *store.Batch) {
			b.DeleteRange(record.JobsFrom(nil, 1, 1), record.JobsFrom(nil, 1, 2))
		},
		"sweep": func(b *store.Batch) { b.Set(record.SweepKey(nil, 1), []byte{0x80}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			storetest.Commit(t, s, damage)
			if e, err := engine.Open(engine.Options{Store: s}); !errors.Is(err, store.ErrCorrupt) {
				if err == nil {
					err = e.Close()
				}
				t.Errorf("opened with %v, want %v", err, store.ErrCorrupt)
			}
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		f := storetest.NewFaulty(healthy(t))
		f.FailAll(errDisk)
		if _, err := engine.Open(engine.Options{Store: f}); !errors.Is(err, errDisk) {
			t.Errorf("opened with %v, want %v", err, errDisk)
		}
	})
}

// Queries report what is damaged instead of guessing.
func TestQueriesReportDamage(t *testing.T) {
	t.Parallel()
	f := storetest.NewFaulty(memstore.New())
	e := open(t, f, engine.DurabilityFsync)
	large := strings.Repeat("x", record.InlineMax+1)
	if r := e.NewCaller().Do(t.Context(), push("q", large)); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	list := engine.ListOptions{Namespace: "ns", Queue: "q", State: job.Ready, Bodies: true}
	for i, damage := range []func(b *store.Batch){
		func(b *store.Batch) { b.Delete(record.JobKey(nil, 1, 1, record.PartBody)) },
		func(b *store.Batch) { b.Set(record.JobKey(nil, 1, 1, record.PartBody), []byte{99}) },
		func(b *store.Batch) { b.Delete(record.JobKey(nil, 1, 1, record.PartFirst)) },
		func(b *store.Batch) { b.Set(record.JobKey(nil, 1, 1, record.PartFirst), []byte{99}) },
	} {
		storetest.Commit(t, f, damage)
		if p, err := e.List(list); err == nil {
			t.Errorf("damage %d: listed %+v", i, p)
		}
	}
	storetest.Commit(t, f, func(b *store.Batch) { b.Set(record.QueueKey(nil, "ns", "q"), []byte{99}) })
	if _, _, err := e.Queue("ns", "q"); !errors.Is(err, record.ErrFormat) {
		t.Errorf("a damaged queue: %v", err)
	}
	if _, err := e.Queues("", "", 0); !errors.Is(err, record.ErrFormat) {
		t.Errorf("a damaged queue in the list: %v", err)
	}
	f.Fail(storetest.CallSnapshot, 1, errDisk)
	if _, err := e.Get(job.ByID("ns", "q", 1)); !errors.Is(err, errDisk) {
		t.Errorf("an unreadable store: %v", err)
	}
	// The record that Close would rewrite must not hide the damage.
	storetest.Commit(t, f, func(b *store.Batch) { b.Delete(record.QueueKey(nil, "ns", "q")) })
}

func TestParseDurability(t *testing.T) {
	t.Parallel()
	for _, d := range []engine.Durability{engine.DurabilityFsync, engine.DurabilityInterval, engine.DurabilityNone} {
		if got, err := engine.ParseDurability(fmt.Sprint(d)); got != d || err != nil {
			t.Errorf("%v is parsed as %v, %v", d, got, err)
		}
	}
	if _, err := engine.ParseDurability("maybe"); err == nil {
		t.Error("maybe is a durability")
	}
}
