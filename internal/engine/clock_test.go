package engine_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// Timers fire at their time, to the microsecond, over days, without anybody asking.
func TestTimersFireOnTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup []job.Command
		after time.Duration
		queue string
		what  job.Command // the wait that ends at that time
	}{
		"schedule": {
			[]job.Command{&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Delay: 72 * time.Hour}}},
			72 * time.Hour, "q", fetch("q", 1000*time.Hour),
		},
		"lease": {
			[]job.Command{&job.Push{Spec: job.Spec{
				Namespace: "ns", Queue: "q",
				Policy: job.Policy{Lease: 90 * time.Minute},
			}}, fetch("q", 0)},
			90 * time.Minute, "q", fetch("q", 1000*time.Hour),
		},
		"ttl": {
			[]job.Command{&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", TTL: 240 * time.Hour}}},
			240 * time.Hour, "q", &job.Await{Ref: job.ByID("ns", "q", 1), Wait: 1000 * time.Hour},
		},
		"backoff": {
			[]job.Command{
				&job.Push{Spec: job.Spec{
					Namespace: "ns", Queue: "q",
					Policy: job.Policy{Backoff: job.Backoff{Unit: time.Hour, Power: 1}},
				}},
				&job.Fail{Ref: job.ByID("ns", "q", 1), Need: job.NeedAny},
			},
			time.Hour, "q", fetch("q", 1000*time.Hour),
		},
		"pause": {
			[]job.Command{push("q", ""), &job.Pause{Namespace: "ns", Queue: "q", For: 48 * time.Hour}},
			48 * time.Hour, "q", fetch("q", 1000*time.Hour),
		},
		"grace": {
			[]job.Command{
				push("q", ""),
				&job.Fetch{
					Namespace: "ns", Queues: []string{"q"}, Max: 1, Holder: job.Holder{Num: 1},
					OnEnd: job.EndRelease,
				},
				&job.EndHolder{Holder: job.Holder{Num: 1}, Grace: 36 * time.Hour},
			},
			36 * time.Hour, "q", fetch("q", 1000*time.Hour),
		},
		"wait": {nil, 13 * time.Hour, "q", fetch("q", 13*time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := open(t, memstore.New(), engine.DurabilityFsync)
				if len(test.setup) > 0 {
					do(t, e, test.setup...).wants(t)
				}
				start := time.Now()
				var took time.Duration
				done := make(chan struct{})
				r := &engine.Request{Commands: []job.Command{test.what}, Done: func(*engine.Request) {
					took = time.Since(start)
					close(done)
				}}
				e.Submit(r)
				<-done
				if took < test.after || took > test.after+time.Microsecond {
					t.Errorf("after %v, want %v", took, test.after)
				}
			})
		})
	}
}

// A timer that was far ahead when it was set fires as well if an earlier one is set later.
func TestTimerIsReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		late, soon := push("q", "late"), push("q", "soon")
		late.Spec.Delay, soon.Spec.Delay = time.Hour, time.Second
		do(t, e, late, soon).wants(t)
		first := submit(e, fetch("q", 2*time.Hour))
		second := submit(e, fetch("q", 2*time.Hour))
		testkit.Advance(t, time.Second+time.Microsecond)
		first.wantsJobs(t, 2)
		second.wantsNothing(t)
		testkit.Advance(t, time.Hour)
		second.wantsJobs(t, 1)
	})
}

// An idle engine with ten thousand waiting callers wakes for none of them.
func TestIdleWaitersCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &tracking{Store: memstore.New()}
		e := open(t, s, engine.DurabilityFsync)
		calls := make([]*call, 10_000)
		for i := range calls {
			calls[i] = submit(e, fetch("q", job.WaitForever))
		}
		synctest.Wait()
		before := len(s.committed())
		testkit.Advance(t, 1000*time.Hour)
		if after := len(s.committed()); after != before {
			t.Errorf("%d commits while nothing happened", after-before)
		}
		if n := e.Stats().Waiters; n != len(calls) {
			t.Errorf("%d waiters", n)
		}
		e.Drain()
		synctest.Wait()
		for _, c := range calls {
			c.wants(t, job.Timeout)
		}
	})
}

// With DurabilityFsync every push is committed before it is answered. The others hold what they have answered for at
// most half of the interval, because the log takes the other half, and leave an idle store alone.
func TestDurability(t *testing.T) {
	t.Parallel()
	const interval = 250 * time.Millisecond
	for _, d := range []engine.Durability{engine.DurabilityFsync, engine.DurabilityInterval, engine.DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &tracking{Store: memstore.New()}
				e, err := engine.Open(engine.Options{Store: s, Durability: d, SyncInterval: interval})
				if err != nil {
					t.Fatal(err)
				}
				var pushes []time.Time
				for range 10 {
					for range 20 {
						do(t, e, push("q", "")).wants(t)
						pushes = append(pushes, time.Now())
						testkit.Advance(t, interval/10)
					}
					testkit.Advance(t, 10*interval)
				}
				commits := s.committed()
				if d == engine.DurabilityFsync {
					if len(commits) != len(pushes) {
						t.Errorf("%d commits for %d pushes", len(commits), len(pushes))
					}
				} else if len(commits) < 10 || len(commits) > 60 {
					t.Errorf("%d commits for ten bursts of two intervals each", len(commits))
				}
				for _, pushed := range pushes {
					at := slices.IndexFunc(commits, func(c time.Time) bool { return !c.Before(pushed) })
					if at < 0 || commits[at].Sub(pushed) > interval/2 {
						t.Fatalf("what was pushed at %v was held for too long: %v", pushed, commits)
					}
				}
				do(t, e, push("q", "")).wants(t)
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if n := len(s.committed()); n != len(commits)+1 {
					t.Errorf("%d commits at the end", n-len(commits))
				}
			})
		})
	}
}

// Under the floor of free space pushes are refused; what frees space goes on; and when
// there is space again pushes are taken, without a restart.
func TestFreeFloor(t *testing.T) {
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
		for range 4 {
			do(t, e, push("q", "")).wants(t)
		}
		s.setFree(499)
		testkit.Advance(t, 2*time.Second)
		do(t, e, push("q", "")).wants(t) // this one finds out
		run := &job.Run{Spec: push("q", "").Spec, Wait: time.Hour}
		atomicPush := &job.Atomic{Ops: []job.Command{ack(1), push("q", "")}}
		for range 3 {
			for _, cmd := range []job.Command{push("q", ""), run, atomicPush} {
				do(t, e, cmd).wants(t, job.NoSpace)
			}
			testkit.Advance(t, time.Second)
		}
		if st := e.Stats(); !st.NoSpace || st.Refused != 9 {
			t.Errorf("stats are %+v", st)
		}
		got := do(t, e, fetch("q", 0))
		got.wantsJobs(t, 1)
		do(t, e, ack(1)).wants(t)
		do(t, e, fetch("q", 0), &job.Release{Ref: job.ByID("ns", "q", 2), Need: job.NeedLeased}).wants(t)
		do(t, e, &job.Delete{Ref: job.ByID("ns", "q", 2), Need: job.NeedAny}).wants(t)
		do(t, e, &job.Atomic{Ops: []job.Command{&job.Delete{Ref: job.ByID("ns", "q", 3), Need: job.NeedAny}}}).wants(t)
		do(t, e, push("q", ""), fetch("q", 0)).wants(t, job.NoSpace) // of a unit only the push
		s.setFree(500)
		testkit.Advance(t, time.Second)
		do(t, e, push("q", "")).wants(t)
		if st := e.Stats(); st.NoSpace {
			t.Errorf("stats are %+v", st)
		}
		// And down again.
		s.setFree(0)
		testkit.Advance(t, 2*time.Second)
		do(t, e, push("q", "")).wants(t)
		do(t, e, push("q", "")).wants(t, job.NoSpace)
	})
}

// A server that starts on a full disk refuses the first push.
func TestFreeFloorAtOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &tracking{Store: memstore.New(), free: 1}
		e, err := engine.Open(engine.Options{Store: s, FreeFloor: 2})
		if err != nil {
			t.Fatal(err)
		}
		do(t, e, push("q", "")).wants(t, job.NoSpace)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// The engine's time follows the wall clock at its start and never goes back.
// Who sets the time forward has the clock look, and what is due by then happens.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() job.Time { return job.TimeOf(time.Now().Add(time.Duration(ahead.Load()))) }
		e, err := engine.Open(engine.Options{Store: memstore.New(), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		do(t, e, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Delay: time.Hour}}).wants(t)
		synctest.Wait()
		ahead.Store(int64(2 * time.Hour))
		e.Wake()
		synctest.Wait()
		do(t, e, fetch("q", 0)).wantsJobs(t, 1)
	})
}

func TestNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		if got, want := e.Now(), job.TimeOf(time.Now()); got != want {
			t.Errorf("now is %d, want %d", got, want)
		}
		testkit.Advance(t, 1000*time.Hour)
		if got, want := e.Now(), job.TimeOf(time.Now()); got != want {
			t.Errorf("now is %d, want %d", got, want)
		}
	})
}
