package engine_test

import (
	"context"
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

// Waiters are cancelled while pushes arrive: every job is given to exactly one caller
// that has not gone, or is still there (INV-10).
func TestCancelRaces(t *testing.T) {
	t.Parallel()
	const producers, workers, jobs = 4, 16, 1000
	e := open(t, memstore.New(), engine.DurabilityFsync)
	var left atomic.Int64 // jobs not seen yet
	left.Store(producers * jobs)
	seen := make([]atomic.Int32, producers*jobs+1)
	var cancelled, raced atomic.Int64
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			c := e.NewCaller()
			for range jobs {
				if r := c.Do(t.Context(), push("q", "")); r[0].Err != nil {
					t.Errorf("producer %d: %v", p, r[0].Err)
					return
				}
			}
		})
	}
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 9))
			c := e.NewCaller()
			for left.Load() > 0 {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, cancel)
				r := c.Do(ctx, fetch("q", time.Second))
				timer.Stop()
				gone := ctx.Err() != nil
				cancel()
				if err := r[0].Err; err != nil {
					if err.Kind != job.Canceled && err.Kind != job.Timeout {
						t.Errorf("worker %d: %v", w, err)
						return
					}
					if len(r[0].Jobs) > 0 {
						t.Errorf("worker %d: a cancelled wait got a job", w)
					}
					cancelled.Add(1)
					continue
				}
				if gone {
					raced.Add(1)
				}
				id := r[0].Jobs[0].ID
				if n := seen[id].Add(1); n != 1 {
					t.Errorf("job %d was delivered %d times", id, n)
				}
				left.Add(-1)
				if r := c.Do(t.Context(), ack(id)); r[0].Err != nil {
					t.Errorf("ack of job %d: %v", id, r[0].Err)
				}
			}
		})
	}
	wg.Wait()
	if n := left.Load(); n != 0 {
		t.Errorf("%d jobs were not delivered", n)
	}
	if cancelled.Load() == 0 || raced.Load() == 0 {
		t.Errorf("no race was seen: %d cancelled, %d won by the job", cancelled.Load(), raced.Load())
	}
	info, _, err := e.Queue("ns", "q")
	if err != nil {
		t.Fatal(err)
	}
	if info.Total() != 0 || info.Totals[job.CountAcked] != producers*jobs {
		t.Errorf("queue is %+v", info)
	}
}

// Cancel ends a wait once; on an answered request it does nothing.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		c := do(t, e, fetch("q", time.Hour))
		c.wantsNothing(t)
		e.Cancel(&c.Request)
		e.Cancel(&c.Request)
		synctest.Wait()
		c.wants(t, job.Canceled)
		e.Cancel(&c.Request)
		synctest.Wait()
		c.wants(t, job.Canceled)
		do(t, e, push("q", "")).wants(t)
		if n := counts(t, e, "q", job.Ready)[0]; n != 1 {
			t.Errorf("%d ready jobs, want the one that nobody waited for", n)
		}
		// A late cancel must not hit the next use of the request.
		got := do(t, e, fetch("q", time.Hour))
		got.wantsJobs(t, 1)
		e.Cancel(&got.Request)
		got.answers.Store(0)
		e.Submit(&got.Request)
		synctest.Wait()
		got.wantsNothing(t)
		do(t, e, push("q", "")).wants(t)
		got.wantsJobs(t, 2)
	})
}

// A cancelled run takes its job back, which is a change that has to be committed although nothing else happens.
func TestCancelRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		c := do(t, e, &job.Run{Spec: job.Spec{Namespace: "ns", Queue: "q"}, Wait: time.Hour})
		c.wantsNothing(t)
		e.Cancel(&c.Request)
		synctest.Wait()
		c.wants(t, job.Canceled)
		if n := counts(t, e, "q", job.Ready)[0]; n != 0 {
			t.Errorf("%d jobs are left of a run that was cancelled", n)
		}
	})
}

// Do returns when the engine has let go, whether its context ends or not.
func TestDoWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		c := e.NewCaller()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if r := c.Do(ctx, fetch("q", time.Hour)); r[0].Err == nil || r[0].Err.Kind != job.Canceled {
			t.Errorf("answered %+v", r[0])
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("it took %v", d)
		}
		// With a context that is over already, what does not wait is done all the same.
		if r := c.Do(ctx, push("q", "")); r[0].Err != nil {
			t.Errorf("answered %+v", r[0])
		}
		if r := c.Do(ctx, fetch("q", time.Hour)); r[0].Err != nil || len(r[0].Jobs) != 1 {
			t.Errorf("answered %+v", r[0])
		}
	})
}

// A unit is applied in order without anything in between; only its last command waits.
func TestUnits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		c := do(t, e, push("q", "a"), push("q", "b"), fetch("q", 0), ack(1), ack(1), fetch("q", time.Hour))
		c.wants(t, job.NotFound)
		if len(c.Results) != 6 || c.Results[1].ID != 2 || c.Results[2].Jobs[0].ID != 1 || c.Results[4].Err == nil {
			t.Errorf("answered %+v", c.Results)
		}
		c.wants(t, job.NotFound)
		if id := c.Results[5].Jobs[0].ID; id != 2 {
			t.Errorf("the last fetch got job %d", id)
		}
		// A wait in the middle ends at once, and takes nothing with it.
		run := &job.Run{Spec: push("runs", "").Spec, Wait: time.Hour}
		c = do(t, e, fetch("empty", time.Hour), run, push("empty", ""), fetch("empty", time.Hour))
		c.wants(t, job.Timeout, job.Timeout)
		if len(c.Results[3].Jobs) != 1 {
			t.Errorf("the last fetch got %+v", c.Results[3])
		}
		if n := counts(t, e, "runs", job.Ready)[0]; n != 0 {
			t.Errorf("%d jobs of a run that did not wait", n)
		}
		// A wait at the end holds back the whole unit.
		c = do(t, e, push("other", ""), fetch("empty", time.Hour))
		c.wantsNothing(t)
		if n := counts(t, e, "other", job.Ready)[0]; n != 1 {
			t.Errorf("the push of a waiting unit has left %d jobs", n)
		}
		e.Cancel(&c.Request)
		synctest.Wait()
		c.wants(t, job.Canceled)
		// An empty unit is answered.
		do(t, e).wants(t)
		// Results are reused: nothing of an earlier answer is left.
		caller := e.NewCaller()
		caller.Do(t.Context(), push("x", "1"), push("x", "2"),
			&job.Fetch{Namespace: "ns", Queues: []string{"x"}, Max: 2})
		r := caller.Do(t.Context(), ack(99), fetch("x", 0))
		if len(r) != 2 || r[0].ID != 0 || r[0].Err == nil || len(r[1].Jobs) != 0 || r[1].Err == nil {
			t.Errorf("answered %+v", r)
		}
	})
}

// Holders are never given out twice, not even by the next run of the server.
func TestNewHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := map[job.Holder]bool{}
		for range 3 {
			e := open(t, memstore.New(), engine.DurabilityFsync)
			for range 1000 {
				h := e.NewHolder()
				if h == (job.Holder{}) || seen[h] {
					t.Fatalf("holder %v was there before", h)
				}
				seen[h] = true
			}
			testkit.Advance(t, time.Second) // a restart takes that long
		}
	})
}
