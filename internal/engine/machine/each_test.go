package machine_test

import (
	"testing"
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
)

// Each meets every job of a key once, in bounded steps, and tells where the next step goes on. The rest of the keys
// and the jobs that are refused stay as they are.
func TestEachGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	push := func(key string, delay time.Duration) job.ID {
		b.do(&job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q", Key: key, Delay: delay}})
		return b.res.ID
	}
	const many = 2*job.EachMax + 10
	for i := range many {
		push("same", time.Minute+time.Duration(i))
	}
	ready, other := push("same", 0), push("other", time.Minute)
	var after job.ID
	counts := []int{}
	for {
		b.do(&job.Each{
			Namespace: namespace, Key: "same", After: after,
			Do: &job.Kill{In: job.StatesOf(job.Scheduled)},
		})
		counts = append(counts, b.res.Count)
		if after = b.res.ID; after == 0 {
			break
		}
	}
	if len(counts) != 3 || counts[0] != job.EachMax || counts[1] != job.EachMax || counts[2] != 10 {
		t.Fatalf("the steps killed %v jobs, want %d, %d and 10", counts, job.EachMax, job.EachMax)
	}
	sums := b.m.Sums(namespace)
	if sums.Counts[job.Ready] != 1 || sums.Counts[job.Scheduled] != 1 {
		t.Fatalf("%d ready and %d scheduled jobs are left, want job %d and job %d", sums.Counts[job.Ready],
			sums.Counts[job.Scheduled], ready, other)
	}
	if err := b.m.Check(); err != nil {
		t.Fatal(err)
	}
}

// However many jobs have one key, a command that names one of them looks at a bounded number.
func TestKeyOfVeryManyJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fill := func(n int) {
		for range n {
			b.do(&job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q", Key: "same", Delay: time.Minute}})
		}
	}
	// None of them fits, so that it would look at all.
	look := func() int {
		before := b.storage.reads
		b.m.Apply(start, 1, 0, &job.Kill{Ref: job.ByKey(namespace, "same"), In: job.StatesOf(job.Buried)}, &b.res)
		if b.res.Err != job.ErrBadState {
			t.Fatalf("answer %v, want %v", b.res.Err, job.ErrBadState)
		}
		return b.storage.reads - before
	}
	fill(2000)
	few := look()
	fill(2000)
	if many := look(); many != few {
		t.Errorf("it makes %d reads with 4000 jobs and %d with 2000", many, few)
	}
}

// The sums follow every change of a queue: jobs that come and go, queues that are hidden, removed, kept and loaded.
func TestSums(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.m
	do := func(cmd job.Command) {
		t.Helper()
		b.do(cmd)
		if err := m.Check(); err != nil {
			t.Fatalf("after %T: %v", cmd, err)
		}
	}
	for _, q := range []string{"a", "b", "c"} {
		for range 3 {
			do(&job.Push{Spec: job.Spec{Namespace: namespace, Queue: q}})
		}
		do(&job.Push{Spec: job.Spec{Namespace: "other", Queue: q}})
	}
	do(&job.Remove{Namespace: namespace, Queue: "a", ReadyOnly: true})
	do(&job.Remove{Namespace: namespace, Queue: "b", KeepQueue: true})
	do(&job.Remove{Namespace: "other", Queue: "c"})
	do(&job.Purge{Namespace: "other", Queue: "b", State: job.Ready})
	ns, all := m.Sums(namespace), m.Sums("")
	if ns.Queues != 3 || ns.Hidden != 1 || ns.Counts[job.Ready] != 3 || ns.Totals[job.CountPushed] != 9 {
		t.Errorf("ns: %+v", ns)
	}
	if all.Queues != 5 || all.Hidden != 1 || all.Counts[job.Ready] != 4 || all.Totals[job.CountPushed] != 11 {
		t.Errorf("all: %+v", all)
	}
	do(&job.Flush{Namespace: namespace})
	if ns := m.Sums(namespace); ns != (job.Sums{}) {
		t.Errorf("ns after a flush: %+v", ns)
	}
}

// Activity tells what happened since it was asked before, by queue up to a bound and together without one.
func TestActivity(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := machine.New(b.storage, start, machine.Options{ActiveQueues: 2})
	push := func(q string) {
		m.Apply(start, 1, 0, &job.Push{Spec: job.Spec{Namespace: namespace, Queue: q}}, &b.res)
	}
	push("a")
	push("a")
	push("b")
	push("c")
	first := m.Activity()
	if len(first.Queues) != 2 || first.Queues[0].Queue != "a" || first.Queues[0].Added[job.CountPushed] != 2 ||
		first.Queues[1].Queue != "b" {
		t.Errorf("queues: %+v", first.Queues)
	}
	push("c")
	second := m.Activity()
	if len(second.Queues) != 1 || second.Queues[0].Queue != "c" || second.Queues[0].Added[job.CountPushed] != 1 {
		t.Errorf("queues: %+v", second.Queues)
	}
	if first.All[job.CountPushed] != 4 || second.All[job.CountPushed] != 5 {
		t.Errorf("together %d and %d, want 4 and 5", first.All[job.CountPushed], second.All[job.CountPushed])
	}
}
