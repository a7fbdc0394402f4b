package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// counted tells what has been counted, by queue and door.
func counted(e *engine.Engine) map[string]string {
	m := map[string]string{}
	e.EachQueueFigures(func(q *engine.QueueFigures) {
		text := ""
		for c, n := range q.Counts {
			if n > 0 {
				text += fmt.Sprintf("%v=%d ", job.Counter(c), n)
			}
		}
		m[fmt.Sprintf("%s/%d/%v", q.Queue, q.Door, q.Others)] = text
	})
	return m
}

func wantCounted(t *testing.T, e *engine.Engine, want map[string]string) {
	t.Helper()
	if got := counted(e); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// What happens to jobs counts for the door through which it happened.
func TestCountsByDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := timed(t, 0)
		by := func(door job.Door, cmds ...job.Command) []job.Result {
			return e.NewCallerAt(door).Do(t.Context(), cmds...)
		}
		spec := job.Spec{
			Namespace: "ns", Queue: "q", Origin: 2,
			Policy: job.Policy{Lease: time.Minute, MaxFails: 2, Lapse: job.LapseFail},
		}
		// A worker at door 3 waits when a job comes through door 2: each counts its own.
		done := make(chan []job.Result, 1)
		go func() {
			done <- by(3, &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1, Wait: time.Hour, Door: 3})
		}()
		synctest.Wait()
		by(2, &job.Push{Spec: spec})
		ref := (<-done)[0].Jobs[0].Ref()
		wantCounted(t, e, map[string]string{"q/2/false": "pushed=1 ", "q/3/false": "fetched=1 "})
		// A failure by the worker, then one by time: the job is given up in nobody's name.
		by(3, &job.Fail{Ref: ref, Need: job.NeedLeased},
			&job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1, Door: 3})
		testkit.Advance(t, 2*time.Minute)
		wantCounted(t, e, map[string]string{
			"q/2/false": "pushed=1 ", "q/3/false": "fetched=2 failed=1 retried=1 ",
			"q/0/false": "failed=1 lapsed=1 died=1 ",
		})
		// What an operator does counts for him, however much it is.
		by(2, &job.Push{Spec: spec}, &job.Push{Spec: spec}, &job.Push{Spec: spec})
		by(1, &job.Purge{Namespace: "ns", Queue: "q", State: job.Ready})
		wantCounted(t, e, map[string]string{
			"q/1/false": "deleted=3 cancelled=3 ", "q/2/false": "pushed=4 ",
			"q/3/false": "fetched=2 failed=1 retried=1 ",
			"q/0/false": "failed=1 lapsed=1 died=1 ",
		})
		// A timer that fires on the occasion of a command is no part of it.
		by(2, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "late", Origin: 2, TTL: time.Second}})
		testkit.Advance(t, time.Hour)
		if got := counted(e)["late/0/false"]; got != "expired=1 " {
			t.Errorf("an expiry counts %q", got)
		}
	})
}

// Queues beyond the bound are counted together, and there is no room for more.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := timed(t, 2)
		if !e.EachQueueFigures(func(*engine.QueueFigures) { t.Error("something was counted") }) {
			t.Error("there is no room")
		}
		do(t, e, push("a", ""), push("b", ""), push("c", ""), push("d", "")).wants(t)
		wantCounted(t, e, map[string]string{"a/0/false": "pushed=1 ", "b/0/false": "pushed=1 ", "/0/true": "pushed=2 "})
		if e.EachQueueFigures(func(*engine.QueueFigures) {}) {
			t.Error("there is room")
		}
	})
}

// typed tells the times by queue and type.
func typed(e *engine.Engine) []string {
	var list []string
	e.EachQueueFigures(func(q *engine.QueueFigures) {
		for i := range q.Types {
			t := &q.Types[i]
			list = append(list, fmt.Sprintf("%s %q %v: %s", q.Queue, t.Type, t.Others, shown(&t.Times)))
		}
	})
	slices.Sort(list)
	return list
}

func TestTypesAreTimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Store: memstore.New(), TimedTypes: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		serve := func(queue, typ string) {
			t.Helper()
			do(t, e, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Type: typ}}).wants(t)
			testkit.Advance(t, time.Second)
			id := do(t, e, fetchBy(queue, 2)).jobIDs()[0]
			testkit.Advance(t, 2*time.Second)
			do(t, e, &job.Ack{Ref: job.ByID("ns", queue, id), Need: job.NeedLeased}).wants(t)
		}
		for _, typ := range []string{"a", "", "b", "a", "c", "d"} {
			serve("q", typ)
		}
		want := []string{
			`q "" false: wait 1 1s run 1 2s`, `q "" true: wait 2 2s run 2 4s`,
			`q "a" false: wait 2 2s run 2 4s`, `q "b" false: wait 1 1s run 1 2s`,
		}
		if got := typed(e); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		wantTimes(t, e, "q", "wait 6 6s run 6 12s")

		// So many pairs of queue and type have times, whatever clients call their queues, until a queue is removed.
		for i := range 30 {
			serve(fmt.Sprint("many", i), "a")
		}
		own := func() (n int) {
			e.EachQueueFigures(func(q *engine.QueueFigures) {
				for _, t := range q.Types {
					if t.Type != "" {
						n++
					}
				}
			})
			return n
		}
		if got := own(); got != 20 {
			t.Errorf("%d pairs", got)
		}
		do(t, e, &job.Remove{Namespace: "ns", Queue: "q"}).wants(t)
		serve("more", "b")
		serve("many29", "b")
		if got := own(); got != 20 {
			t.Errorf("%d pairs after a queue has gone", got)
		}
	})
}

// Without a bound on types none are told apart.
func TestTypesAreOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := timed(t, 0)
		do(t, e, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Type: "a"}}, fetchBy("q", 2)).wants(t)
		if got := typed(e); len(got) != 1 || got[0] != `q "" false: wait 1 0s run 0 0s` {
			t.Errorf("%q", got)
		}
	})
}
