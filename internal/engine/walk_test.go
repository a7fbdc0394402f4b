package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// walkQueues is a fetch that takes several steps.
func walkQueues(wait time.Duration) *job.Fetch {
	f := fetch("q", wait)
	for i := range 1000 {
		f.Queues = append(f.Queues, fmt.Sprint("other", i))
	}
	return f
}

// A fetch from many queues takes several steps, in which it is like any other: it is
// answered once, finds what is there, waits, and can be cancelled.
func TestFetchFromManyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		last := "other999"
		unit := submit(e, walkQueues(0), push(last, ""), walkQueues(0), walkQueues(time.Minute))
		synctest.Wait()
		unit.wantsNothing(t)
		e.Cancel(&unit.Request)
		synctest.Wait()
		unit.wants(t, job.Timeout, job.Canceled)
		if n := len(unit.Results[2].Jobs); n != 1 {
			t.Errorf("%d jobs are found in the last queue", n)
		}
		waits := submit(e, walkQueues(time.Minute))
		synctest.Wait()
		waits.wantsNothing(t)
		submit(e, push(last, ""))
		synctest.Wait()
		waits.wantsJobs(t, 2)
		late := submit(e, walkQueues(time.Minute))
		testkit.Advance(t, time.Minute)
		synctest.Wait()
		late.wants(t, job.Timeout)
	})
}

// Fetches from many queues that are under way when the engine stops are answered.
func TestStopWhileFetchesLook(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated()
			e, err := engine.Open(engine.Options{Store: g})
			if err != nil {
				t.Fatal(err)
			}
			calls := make(chan *call)
			for i := range 20 {
				go func() { calls <- submit(e, push(fmt.Sprint("p", i), ""), walkQueues(time.Hour)) }()
			}
			if fails {
				g.gate <- errors.New("the disk is gone")
			} else {
				go e.Drain()
			}
			var all []*call
			for range 20 {
				all = append(all, <-calls)
			}
			g.openGate()
			if err := e.Close(); (err != nil) != fails {
				t.Errorf("close: %v", err)
			}
			synctest.Wait()
			for _, c := range all {
				if n := c.answers.Load(); n != 1 {
					t.Errorf("a call is answered %d times", n)
				}
			}
		})
	}
}

// Fetches from many queues come and go while jobs arrive in these queues: every job is
// given to exactly one of them, and none is lost.
func TestManyFetchesFromManyQueues(t *testing.T) {
	t.Parallel()
	const producers, workers, jobs, queues = 4, 16, 500, 64
	e, err := engine.Open(engine.Options{
		Store: memstore.New(),
		Core:  engine.CoreOptions{NamesPerStep: 4, StepWork: 2, WaitNames: 600},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprint("q", i%queues) }
	var left atomic.Int64
	left.Store(producers * jobs)
	seen := make([]atomic.Int32, producers*jobs+1)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(p), 8))
			c := e.NewCaller()
			for range jobs {
				if r := c.Do(t.Context(), push(name(rnd.IntN(queues)), "")); r[0].Err != nil {
					t.Errorf("producer %d: %v", p, r[0].Err)
				}
			}
		})
	}
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 9))
			c := e.NewCaller()
			f := &job.Fetch{Namespace: "ns", Max: 1 + w%3, Pick: job.Pick(w % 3)}
			first := rnd.IntN(queues)
			for i := range queues {
				f.Queues = append(f.Queues, name(first+i))
			}
			for left.Load() > 0 {
				f.Wait = time.Duration(rnd.IntN(3)) * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(2000))*time.Microsecond)
				for _, j := range c.Do(ctx, f)[0].Jobs {
					seen[j.ID].Add(1)
					left.Add(-1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for id := range seen[1:] {
		if n := seen[id+1].Load(); n != 1 {
			t.Errorf("job %d was given out %d times", id+1, n)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
