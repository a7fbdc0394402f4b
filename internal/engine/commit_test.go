package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// openGated opens an engine on a gated store, which is let go at the end.
func openGated(t *testing.T) (*engine.Engine, *gated) {
	t.Helper()
	g := newGated()
	e, err := engine.Open(engine.Options{Store: g})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.openGate()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, g
}

// INV-11: no answer precedes the commit of what it tells, for every verb that changes
// something.
func TestAnswerFollowsCommit(t *testing.T) {
	t.Parallel()
	ref := func(id job.ID) job.Ref { return job.ByPlace("ns", 1, id) }
	for name, test := range map[string]struct {
		before []job.Command // committed
		cmd    job.Command
	}{
		"push":    {nil, push("q", "")},
		"atomic":  {nil, &job.Atomic{Ops: []job.Command{push("q", "")}}},
		"firm":    {[]job.Command{push("q", "")}, firm("q", 0)},
		"ack":     {[]job.Command{push("q", ""), fetch("q", 0)}, ack(1)},
		"fail":    {[]job.Command{push("q", ""), fetch("q", 0)}, &job.Fail{Ref: ref(1), Need: job.NeedLeased}},
		"release": {[]job.Command{push("q", ""), fetch("q", 0)}, &job.Release{Ref: ref(1), Need: job.NeedLeased}},
		"return": {
			[]job.Command{push("q", ""), fetch("q", 0)},
			&job.Return{Refs: []job.Ref{job.ByID("ns", "q", 1)}},
		},
		"touch": {
			[]job.Command{push("q", ""), fetch("q", 0)},
			&job.Touch{Ref: ref(1), Need: job.NeedLeased, Until: job.Never - 1},
		},
		"bury": {[]job.Command{push("q", "")}, &job.Bury{Ref: ref(1), Need: job.NeedAny}},
		"kick": {
			[]job.Command{push("q", ""), &job.Bury{Ref: ref(1), Need: job.NeedAny}},
			&job.Kick{Ref: ref(1), One: true},
		},
		"delete":  {[]job.Command{push("q", "")}, &job.Delete{Ref: ref(1), Need: job.NeedAny}},
		"kill":    {[]job.Command{push("q", "")}, &job.Kill{Ref: ref(1)}},
		"promote": {[]job.Command{push("q", ""), &job.Kill{Ref: ref(1)}}, &job.Promote{Ref: ref(1)}},
		"respawn": {
			[]job.Command{push("q", ""), &job.Kill{Ref: ref(1)}},
			&job.Respawn{Namespace: "ns", Queue: "q", Limit: 1},
		},
		"respawned": {[]job.Command{push("q", ""), &job.Kill{Ref: ref(1)}}, &job.Respawn{Ref: ref(1), One: true}},
		"move":      {[]job.Command{push("q", "")}, &job.Move{Ref: ref(1), Queue: "r"}},
		"configure": {nil, &job.Configure{Namespace: "ns", Queue: "q"}},
		"pause":     {[]job.Command{push("q", "")}, &job.Pause{Namespace: "ns", Queue: "q"}},
		"resume": {
			[]job.Command{push("q", ""), &job.Pause{Namespace: "ns", Queue: "q"}},
			&job.Resume{Namespace: "ns", Queue: "q"},
		},
		"purge":  {[]job.Command{push("q", "")}, &job.Purge{Namespace: "ns", Queue: "q", State: job.Ready}},
		"remove": {[]job.Command{push("q", "")}, &job.Remove{Namespace: "ns", Queue: "q"}},
		"flush":  {[]job.Command{push("q", "")}, &job.Flush{Namespace: "ns"}},
		"all":    {[]job.Command{push("q", ""), fetch("q", 0)}, &job.ReleaseAll{Namespace: "ns", Queue: "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, g := openGated(t)
				if len(test.before) > 0 {
					c := do(t, e, test.before...)
					g.let(1)
					c.wants(t)
				}
				c := do(t, e, test.cmd)
				c.wantsNothing(t)
				g.let(1)
				c.wants(t)
			})
		})
	}
}

// While one commit runs the next batch fills: all that came meanwhile share it.
func TestCommandsShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		first := do(t, e, push("q", ""))
		var calls []*call
		for range 100 {
			calls = append(calls, do(t, e, push("q", "")))
		}
		first.wantsNothing(t)
		g.let(1)
		first.wants(t)
		for _, c := range calls {
			c.wantsNothing(t)
		}
		g.let(1)
		for i, c := range calls {
			c.wants(t)
			if got, want := c.Results[0].ID, job.ID(i+2); got != want {
				t.Fatalf("push %d got id %d", want, got)
			}
		}
		if n := g.commits.Load(); n != 2 {
			t.Errorf("%d commits for 101 pushes", n)
		}
		if s := e.Stats(); s.Commands != 101 || s.Commits != 2 || s.Batched != 101 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// INV-11: with several batches on their way each answer waits for the one that it tells of, and for none that came
// after it.
func TestSeveralOnTheirWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const depth = 3
		d := &deep{Store: memstore.New(), depth: depth}
		e, err := engine.Open(engine.Options{Store: d})
		if err != nil {
			t.Fatal(err)
		}
		first := do(t, e, push("q", ""))
		// Each batch gathers twice as many callers as the one before it.
		more := func(n int) {
			for range n {
				do(t, e, push("other", ""))
			}
		}
		second := do(t, e, &job.Delete{Ref: job.ByPlace("ns", 1, 1), Need: job.NeedAny})
		more(1)
		refused := do(t, e, ack(1)) // it tells of the second
		third := do(t, e, push("q", ""))
		more(3)
		fourth := do(t, e, push("q", "")) // has to wait for room
		if n := d.underway(); n != depth {
			t.Fatalf("%d batches are on their way, want %d", n, depth)
		}
		for _, c := range []*call{first, second, refused, third, fourth} {
			c.wantsNothing(t)
		}
		d.land()
		first.wants(t)
		for _, c := range []*call{second, refused, third, fourth} {
			c.wantsNothing(t)
		}
		d.land()
		second.wants(t)
		refused.wants(t, job.NotFound)
		third.wantsNothing(t)
		fourth.wantsNothing(t)
		late := do(t, e, ack(1)) // nobody knows any more which batch it tells of: perhaps the last
		late.wantsNothing(t)
		d.land()
		third.wants(t)
		fourth.wantsNothing(t)
		late.wantsNothing(t)
		d.land()
		fourth.wants(t)
		late.wants(t, job.NotFound)
		if n := d.underway(); n != 0 {
			t.Errorf("%d batches are left", n)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// INV-11: a delivery waits for the push of the job and not for the lease.
func TestDeliveryNeedsOnlyThePush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		old := do(t, e, push("q", "old"))
		g.let(1)
		old.wants(t)
		// A commit is under way, and then the lease of an old job needs none.
		blocker := do(t, e, push("other", ""))
		got := do(t, e, fetch("q", 0))
		got.wantsJobs(t, old.Results[0].ID)
		if string(got.Results[0].Jobs[0].Body) != "old" {
			t.Errorf("body is %q", got.Results[0].Jobs[0].Body)
		}
		// A job whose push is in the running commit waits for that one only,
		late := do(t, e, fetch("other", 0))
		late.wantsNothing(t)
		// one whose push is behind it waits for the next.
		young := do(t, e, push("q", "young"))
		later := do(t, e, fetch("q", 0))
		later.wantsNothing(t)
		g.let(1)
		blocker.wants(t)
		late.wantsJobs(t, blocker.Results[0].ID)
		young.wantsNothing(t)
		later.wantsNothing(t)
		g.let(1)
		young.wants(t)
		later.wantsJobs(t, young.Results[0].ID)
	})
}

// A waiting caller gets the job when its push is durable, not before.
func TestWaiterGetsDurableJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		waiter := do(t, e, fetch("q", time.Hour))
		blocker := do(t, e, push("other", ""))
		pushed := do(t, e, push("q", ""))
		waiter.wantsNothing(t)
		g.let(1)
		blocker.wants(t)
		waiter.wantsNothing(t)
		g.let(1)
		pushed.wants(t)
		waiter.wantsJobs(t, pushed.Results[0].ID)
	})
}

// A firm lease is durable before it is told, also to somebody who waited.
func TestFirmLeaseIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		paused := do(t, e, push("q", ""), &job.Pause{Namespace: "ns", Queue: "q"})
		g.let(1)
		paused.wants(t)
		waiter := do(t, e, firm("q", time.Hour))
		blocker := do(t, e, push("other", ""))
		resumed := do(t, e, &job.Resume{Namespace: "ns", Queue: "q"})
		g.let(1)
		blocker.wants(t)
		waiter.wantsNothing(t) // its job was pushed long ago, but is leased in the commit that runs now
		g.let(1)
		resumed.wants(t)
		waiter.wantsJobs(t, paused.Results[0].ID)
	})
}

// What changes nothing is answered too, also when it comes while a commit runs and
// nothing else follows.
func TestAnswersWithoutChanges(t *testing.T) {
	t.Parallel()
	for name, cmd := range map[string]job.Command{
		"ack":    ack(99),
		"fetch":  fetch("nowhere", 0),
		"await":  &job.Await{Ref: job.ByPlace("ns", 1, 99)},
		"pause":  &job.Pause{Namespace: "ns", Queue: "nowhere"},
		"purge":  &job.Purge{Namespace: "ns", Queue: "nowhere", State: job.Ready},
		"cancel": &job.Cancel{Token: 99},
		"end":    &job.EndHolder{Holder: job.Holder{Num: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, g := openGated(t)
				idle := do(t, e, cmd)
				if n := idle.answers.Load(); n != 1 {
					t.Fatalf("on an idle engine: answered %d times", n)
				}
				running := do(t, e, push("q", ""))
				c := do(t, e, cmd)
				g.let(1)
				running.wants(t)
				if n := c.answers.Load(); n != 1 {
					t.Fatalf("after the commit: answered %d times", n)
				}
			})
		})
	}
}

// An answer that tells of somebody else's change waits for it: here a job that is not
// there because its deletion is not durable.
func TestRefusalFollowsWhatItTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		do(t, e, push("q", ""))
		g.let(1)
		deleted := do(t, e, &job.Delete{Ref: job.ByPlace("ns", 1, 1), Need: job.NeedAny})
		refused := do(t, e, ack(1))
		deleted.wantsNothing(t)
		refused.wantsNothing(t)
		g.let(1)
		deleted.wants(t)
		refused.wants(t, job.NotFound)
	})
}

// Queries see committed data only.
func TestQueriesSeeCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		c := do(t, e, push("q", ""))
		seen := make(chan bool, 1)
		go func() {
			_, ok, err := e.Queue("ns", "q")
			if err != nil {
				t.Error(err)
			}
			seen <- ok
		}()
		synctest.Wait()
		select {
		case ok := <-seen:
			if ok {
				t.Error("a queue is seen that is not committed")
			}
		default: // it waits for the commit, and then sees the moment before
		}
		g.let(1)
		c.wants(t)
		if n := counts(t, e, "q", job.Ready)[0]; n != 1 {
			t.Errorf("%d ready", n)
		}
	})
}

// Callers whose answers do not wait for the commit wait when the store falls behind: what is gathered meanwhile has a
// bound, however large the jobs are.
func TestRoomWhileTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, most int }{
		"large jobs": {body: 1 << 20, most: 64},
		"small jobs": {body: 1, most: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGated()
				e, err := engine.Open(engine.Options{Store: g, Durability: engine.DurabilityNone})
				if err != nil {
					t.Fatal(err)
				}
				taken := 0
				done := make(chan struct{})
				go func() {
					defer close(done)
					for body := strings.Repeat("x", c.body); taken < c.most; taken++ {
						submit(e, push("q", body)).wants(t)
					}
				}()
				synctest.Wait()
				if taken == 0 || taken == c.most {
					t.Errorf("%d jobs were taken while the store took none", taken)
				}
				g.openGate()
				<-done
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Close commits everything that was submitted before and answers it.
func TestCloseCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		e, err := engine.Open(engine.Options{Store: s, Durability: engine.DurabilityNone})
		if err != nil {
			t.Fatal(err)
		}
		var calls []*call
		for range 500 {
			calls = append(calls, submit(e, push("q", "")))
		}
		waiter := submit(e, fetch("empty", time.Hour))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			c.wants(t)
		}
		waiter.wants(t, job.Timeout)
		submit(e, push("q", "")).wants(t, job.Draining)
		again := open(t, s, engine.DurabilityFsync)
		if n := counts(t, again, "q", job.Ready)[0]; n != 500 {
			t.Errorf("%d jobs after a restart, want 500", n)
		}
	})
}

// Drain answers every kind of wait, and later commands do not wait; others work.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		do(t, e, &job.Configure{Namespace: "ns", Queue: "full", Settings: job.Settings{Capacity: 1}}, push("full", ""),
			push("q", "")).wants(t)
		run := &job.Run{Spec: push("runs", "").Spec, Wait: time.Hour}
		room := push("full", "")
		room.RoomWait = time.Hour
		waits := map[string]job.Command{
			"fetch": fetch("empty", time.Hour), "run": run, "push": room,
			"await": &job.Await{Ref: job.ByID("ns", "q", 2), Wait: job.WaitForever},
		}
		var calls []*call
		for _, cmd := range waits {
			calls = append(calls, do(t, e, cmd))
		}
		if n := e.Stats().Waiters; n != 4 {
			t.Errorf("%d waiters", n)
		}
		for _, c := range calls {
			c.wantsNothing(t)
		}
		e.Drain()
		synctest.Wait()
		for _, c := range calls {
			c.wants(t, job.Timeout)
		}
		for name, cmd := range waits {
			c := do(t, e, cmd)
			if c.answers.Load() != 1 {
				t.Errorf("%s waits while the engine drains", name)
			}
			c.wants(t, job.Timeout)
		}
		do(t, e, push("q", "")).wants(t)
		got := do(t, e, fetch("q", time.Hour))
		got.wantsJobs(t, 2)
		do(t, e, &job.Ack{Ref: job.ByID("ns", "q", 2), Need: job.NeedLeased}).wants(t)
		if n := counts(t, e, "runs", job.Ready)[0]; n != 0 {
			t.Errorf("%d withdrawn runs are still there", n)
		}
		if n := e.Stats().Waiters; n != 0 {
			t.Errorf("%d waiters", n)
		}
	})
}
