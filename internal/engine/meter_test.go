package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// timed opens an engine with times for some queues.
func timed(t *testing.T, queues int) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), TimedQueues: queues})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// fetchBy fetches a job through a door, for a minute.
func fetchBy(queue string, door job.Door) *job.Fetch {
	return &job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1, Door: door, DefaultLease: time.Minute}
}

// shown tells counts and sums of times.
func shown(t *engine.Times) string {
	text := fmt.Sprintf("wait %d %v run %d %v", t.Wait.Count, t.Wait.Sum, t.Run.Count, t.Run.Sum)
	if t.Failed > 0 {
		text += fmt.Sprint(" failed ", t.Failed)
	}
	return text
}

// timesBy adds up the times of all types, by queue and door.
func timesBy(e *engine.Engine) map[string]*engine.Times {
	all := map[string]*engine.Times{}
	e.EachQueueFigures(func(q *engine.QueueFigures) {
		for _, key := range []string{q.Queue, fmt.Sprintf("%s/%d", q.Queue, q.Door)} {
			for i := range q.Types {
				if all[key] == nil {
					all[key] = new(engine.Times)
				}
				all[key].Add(&q.Types[i].Times)
			}
		}
	})
	return all
}

func wantTimes(t *testing.T, e *engine.Engine, queue, want string) {
	t.Helper()
	got := timesBy(e)[queue]
	if got == nil || shown(got) != want {
		t.Errorf("%q has %+v, want %s", queue, got, want)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := timed(t, 0)
		if len(timesBy(e)) != 0 {
			t.Error("a queue that is not there has times")
		}
		do(t, e, push("q", "")).wants(t)
		testkit.Advance(t, 3*time.Second)
		first := do(t, e, fetchBy("q", 2)).jobIDs()[0]
		testkit.Advance(t, 5*time.Second)
		do(t, e, ack(first)).wants(t)
		wantTimes(t, e, "q", "wait 1 3s run 1 5s")

		// A failure ends a run too, and what waits for its retry does not wait.
		do(t, e, &job.Push{Spec: job.Spec{
			Namespace: "ns", Queue: "q",
			Policy: job.Policy{Backoff: job.Backoff{Unit: time.Hour}},
		}}).wants(t)
		second := do(t, e, fetchBy("q", 2)).jobIDs()[0]
		testkit.Advance(t, time.Second)
		do(t, e, &job.Fail{Ref: job.ByPlace("ns", 1, second), Need: job.NeedLeased}).wants(t)
		testkit.Advance(t, 2*time.Hour)
		wantTimes(t, e, "q", "wait 2 3s run 2 6s failed 1")
		do(t, e, fetchBy("q", 2)).wantsJobs(t, second)
		wantTimes(t, e, "q", "wait 3 1h0m3s run 2 6s failed 1")

		// A lapse tells nothing about how long a job runs.
		testkit.Advance(t, time.Hour)
		wantTimes(t, e, "q", "wait 3 1h0m3s run 2 6s failed 1")
		do(t, e, &job.Delete{Ref: job.ByPlace("ns", 1, second), Need: job.NeedAny}).wants(t)

		// Whoever waits gets a job that has not waited.
		w := do(t, e, &job.Fetch{
			Namespace: "ns", Queues: []string{"q"}, Max: 1, Door: 3, Wait: time.Hour,
			DefaultLease: time.Hour,
		})
		testkit.Advance(t, time.Minute)
		do(t, e, push("q", "")).wants(t)
		testkit.Advance(t, 4*time.Second)
		do(t, e, ack(w.jobIDs()[0])).wants(t)
		wantTimes(t, e, "q", "wait 4 1h0m3s run 3 10s failed 1")
		wantTimes(t, e, "q/2", "wait 3 1h0m3s run 2 6s failed 1")
		wantTimes(t, e, "q/3", "wait 1 0s run 1 4s")
	})
}

// Those that are used first have times of their own, until they are removed.
func TestTimesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := timed(t, 2)
		for _, q := range []string{"a", "b", "c", "d"} {
			do(t, e, push(q, ""), push(q, ""), fetchBy(q, 1)).wants(t)
		}
		for queue, want := range map[string]string{
			"a": "wait 1 0s run 0 0s", "b": "wait 1 0s run 0 0s",
			"": "wait 2 0s run 0 0s",
		} {
			wantTimes(t, e, queue, want)
		}
		do(t, e, &job.Remove{Namespace: "ns", Queue: "b"}).wants(t)
		do(t, e, push("e", ""), fetchBy("e", 1)).wants(t)
		wantTimes(t, e, "e", "wait 1 0s run 0 0s")
		do(t, e, push("b", ""), fetchBy("b", 1)).wants(t) // the new one is beyond the bound
		wantTimes(t, e, "", "wait 3 0s run 0 0s")
		if got := timesBy(e); got["b"] != nil || len(got) != 6 {
			t.Errorf("%d have times", len(got))
		}
	})
}

// figures finds what was counted of a verb at a door.
func figures(e *engine.Engine, door job.Door, v job.Verb) engine.CommandFigures {
	for _, f := range e.Commands() {
		if f.Door == door && f.Verb == v {
			return f
		}
	}
	return engine.CommandFigures{}
}

func wantFigures(t *testing.T, e *engine.Engine, v job.Verb, outcomes [engine.OutcomeCount]uint64, timed uint64) {
	t.Helper()
	if f := figures(e, 5, v); f.Outcomes != outcomes || f.Times.Count != timed {
		t.Errorf("%v: %v, %d timed", v, f.Outcomes, f.Times.Count)
	}
}

func TestCommandsAreCounted(t *testing.T) {
	t.Parallel()
	for _, d := range []engine.Durability{engine.DurabilityFsync, engine.DurabilityNone} {
		synctest.Test(t, func(t *testing.T) {
			e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: d})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			c := e.NewCallerAt(5)
			id := c.Do(t.Context(), push("q", ""), push("q", ""))[0].ID
			c.Do(t.Context(), fetchBy("q", 5))
			c.Do(t.Context(), ack(id), ack(id))
			wantFigures(t, e, job.VerbPush, [engine.OutcomeCount]uint64{2}, 2)
			wantFigures(t, e, job.VerbFetch, [engine.OutcomeCount]uint64{1}, 1)
			wantFigures(t, e, job.VerbAck, [engine.OutcomeCount]uint64{1, 0, 1}, 2)

			// What waits is counted and not timed.
			c.Do(t.Context(), fetch("nothing", time.Minute))
			go func() { c.Do(t.Context(), fetch("later", time.Minute)) }()
			synctest.Wait()
			do(t, e, push("later", "")).wants(t)
			wantFigures(t, e, job.VerbFetch, [engine.OutcomeCount]uint64{2, 1}, 1)
			if n := figures(e, 0, job.VerbPush).Outcomes[engine.OutcomeOK]; n != 1 {
				t.Errorf("%d pushes through no door", n)
			}
		})
	}
}

// The time of a command is until its answer could leave.
func TestCommandsAreTimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, g := openGated(t)
		slow := submit(e, push("q", ""))
		synctest.Wait()
		late := submit(e, push("q", ""))
		testkit.Advance(t, 3*time.Second)
		slow.wantsNothing(t)
		g.let(1)
		slow.wants(t)
		testkit.Advance(t, 4*time.Second)
		g.let(1)
		late.wants(t)
		f, commits := figures(e, 0, job.VerbPush), e.CommitFigures()
		if f.Times.Count != 2 || f.Times.Sum != 10*time.Second {
			t.Errorf("%d commands took %v", f.Times.Count, f.Times.Sum)
		}
		if commits.Times.Count != 2 || commits.Times.Sum != 7*time.Second || commits.Commands.Sum != 2 {
			t.Errorf("%d commits of %d took %v", commits.Times.Count, commits.Commands.Sum, commits.Times.Sum)
		}
	})
}
