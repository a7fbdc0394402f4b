package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// inBubble runs a test on an engine in a bubble.
func inBubble(t *testing.T, o engine.Options, test func(t *testing.T, e *engine.Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Store = memstore.New()
		e, err := engine.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, e)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

func spec(queue, body string) job.Spec {
	return job.Spec{Namespace: "ns", Queue: queue, Body: []byte(body)}
}

// All kinds of waiting calls count together. One too many is refused and leaves nothing behind, and who does not have
// to wait is served.
func TestWaitersMax(t *testing.T) {
	t.Parallel()
	inBubble(t, engine.Options{MaxWaiters: 2}, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		do(t, e, &job.Configure{Namespace: "ns", Queue: "full", Settings: job.Settings{Capacity: 1}}).wants(t)
		kept := do(t, e, &job.Push{Spec: spec("full", "")})
		kept.wants(t)
		one, two := submit(e, fetch("a", time.Minute)), submit(e,
			&job.Push{Spec: spec("full", ""), RoomWait: time.Minute})
		for _, cmd := range []job.Command{
			fetch("b", time.Minute), &job.Push{Spec: spec("full", ""), RoomWait: time.Minute},
			&job.Run{Spec: spec("b", ""), Wait: time.Minute},
			&job.Await{Ref: job.ByID("ns", "full", kept.Results[0].ID), Wait: time.Minute},
		} {
			do(t, e, cmd).wants(t, job.Overloaded)
		}
		if got := e.Stats(); got.Waiters != 2 || got.WaitsRefused != 4 || got.WaitersMax != 2 {
			t.Errorf("%+v", got)
		}
		pushed := do(t, e, &job.Push{Spec: spec("b", "")})
		do(t, e, fetch("b", time.Minute)).wantsJobs(t, pushed.Results[0].ID) // neither the run nor the fetch is there
		one.wantsNothing(t)
		two.wantsNothing(t)
		testkit.Advance(t, time.Minute)
		one.wants(t, job.Timeout)
		two.wants(t, job.Timeout)
		if got := e.Stats(); got.Waiters != 0 || got.WaiterBytes != 0 {
			t.Errorf("after the waits: %+v", got)
		}
		submit(e, fetch("b", time.Second)).wantsNothing(t)
	})
}

// What waiting calls hold counts, too: bodies, and names of queues.
func TestWaiterBytesMax(t *testing.T) {
	t.Parallel()
	inBubble(t, engine.Options{MaxWaiterBytes: 1 << 20}, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		large := string(make([]byte, 600<<10))
		many := &job.Fetch{Namespace: "ns", Max: 1, Wait: time.Minute}
		for range 4096 {
			many.Queues = append(many.Queues, "a queue with quite a long name")
		}
		run := submit(e, &job.Run{Spec: spec("a", large), Wait: time.Minute})
		do(t, e, &job.Run{Spec: spec("a", large), Wait: time.Minute}).wants(t, job.Overloaded)
		do(t, e, many).wants(t, job.Overloaded)
		submit(e, fetch("b", time.Minute)).wantsNothing(t)
		run.wantsNothing(t)
		e.Cancel(&run.Request)
		if got := e.Stats(); got.Waiters != 1 || got.WaiterBytes > 4<<10 || got.WaitsRefused != 2 {
			t.Errorf("after the run: %+v", got)
		}
	})
}

// Commands that would make one queue too many are refused, others are not.
func TestQueuesMax(t *testing.T) {
	t.Parallel()
	inBubble(t, engine.Options{MaxQueues: 2}, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		do(t, e, &job.Push{Spec: spec("a", "")}).wants(t)
		do(t, e, &job.Configure{Namespace: "ns", Queue: "b"}).wants(t)
		failing := spec("a", "")
		failing.Policy.DeadQueue = "c"
		for _, cmd := range []job.Command{
			&job.Push{Spec: spec("c", "")}, &job.Push{Spec: failing}, &job.Run{Spec: spec("c", ""), Wait: time.Minute},
			&job.Configure{Namespace: "ns", Queue: "c"},
			&job.Move{Ref: job.ByID("ns", "a", 1), Queue: "c"},
			&job.Atomic{Ops: []job.Command{&job.Push{Spec: spec("a", "")}, &job.Push{Spec: spec("c", "")}}},
		} {
			do(t, e, cmd).wants(t, job.ManyQueues)
		}
		do(t, e, &job.Push{Spec: spec("a", "")}, &job.Move{Ref: job.ByID("ns", "a", 1), Queue: "b"}).wants(t)
		do(t, e, fetch("c", 0)).wants(t, job.Timeout) // it only names the queue
		if got := e.Stats(); got.QueuesRefused != 6 || got.QueuesMax != 2 {
			t.Errorf("%+v", got)
		}
		do(t, e, &job.Remove{Namespace: "ns", Queue: "b"}).wants(t)
		do(t, e, &job.Push{Spec: spec("c", "")}).wants(t)
	})
}
