package engine_test

import (
	"errors"
	"fmt"
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
