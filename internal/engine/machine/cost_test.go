package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// A job that uses nothing special writes its record and its list entries, and nothing else.
func TestPlainJobWritesNoMore(t *testing.T) {
	t.Parallel()
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var res job.Result
	changes := func(cmd job.Command) int {
		t.Helper()
		before := core.Changes()
		core.Apply(start, 1, 0, cmd, &res)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return core.Changes() - before
	}
	push := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q", Body: []byte("body"), BodyKind: job.BodyBytes}}
	changes(push) // makes the queue
	if got := changes(push); got != 2 {
		t.Errorf("a push makes %d changes, want its record and its list entry", got)
	}
	if batch, _ := core.Seal(); batch == nil { // so that what follows does not cancel that out
		t.Fatal("nothing to commit")
	}
	if got := changes(&job.Fetch{Namespace: namespace, Queues: []string{"q"}}); got != 3 {
		t.Errorf("a fetch makes %d changes, want its record and two list entries", got)
	}
	if got := changes(&job.Fail{Ref: job.ByID(namespace, "q", 1), Need: job.NeedLeased}); got != 3 {
		t.Errorf("a failure makes %d changes, want its record, the failure and a list entry", got)
	}
	if got := changes(&job.Ack{Ref: job.ByID(namespace, "q", 2), Need: job.NeedAny}); got != 2 {
		t.Errorf("an ack makes %d changes, want the ends of its record and its list entry", got)
	}
}

// Whoever names a job by its key soon after the push, or has just found that the key is
// free, needs no read.
func TestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	push := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q"}}
	b.do(push) // makes the queue, and has the timers looked at
	b.do(&job.Remove{Namespace: namespace, Queue: "q", ReadyOnly: true})
	push.Spec.Key, push.Spec.Unique = "k1", true
	if reads := b.do(push); reads != 1 {
		t.Errorf("a push with a key that must be free makes %d reads, want one", reads)
	}
	push.Spec.Key = "k2"
	b.do(push)
	again := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q", Key: "k1"}}
	if reads := b.do(again); reads != 0 {
		t.Errorf("another job with the key makes %d reads", reads)
	}
	for _, key := range []string{"k2", "k1"} { // of which the second has two jobs
		b.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 2})
		// The others with the key are looked for, once to find and once to go on.
		want := map[string]int{"k2": 0, "k1": 2}[key]
		if reads := b.do(&job.Ack{Ref: job.ByKey(namespace, key), Need: job.NeedLeased}); reads != want {
			t.Errorf("an ack by key %s makes %d reads, want %d", key, reads, want)
		}
	}
}

// To say what a job is about costs one entry, and nothing is read for it.
func TestLikeReadsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	push := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q"}}
	b.do(push) // makes the queue
	cost := func(cmd job.Command) (reads, changes int) {
		before := b.storage.changes
		reads = b.do(cmd)
		return reads, b.storage.changes - before
	}
	_, plain := cost(push)
	push.Spec.Fingerprint = job.Digest{1}
	if reads, changes := cost(push); reads != 0 || changes != plain+1 {
		t.Errorf("a push makes %d reads and %d changes, one without %d", reads, changes, plain)
	}
	if reads, _ := cost(&job.Ack{Ref: job.ByID(namespace, "q", b.res.ID), Need: job.NeedAny}); reads != 0 {
		t.Errorf("its ack makes %d reads", reads)
	}
}

// A fetch from a fair queue costs the same however many groups there are, more than memory holds too, and however long
// their backlogs are. That of a long backlog is read in large pieces.
func TestFairCostIsConstant(t *testing.T) {
	t.Parallel()
	const fetches = 2000
	for _, test := range []struct{ groups, each int }{{1, 3000}, {10, 300}, {300, 10}, {1200, 2}} {
		t.Run(fmt.Sprintf("%d of %d", test.groups, test.each), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.do(fair("q", nil))
			for range test.each {
				for g := range test.groups {
					b.do(pushGroup("q", fmt.Sprint(g)))
				}
			}
			b.storage.reads, b.storage.seen, b.storage.changes = 0, 0, 0
			for range fetches {
				b.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}})
				b.do(&job.Ack{Ref: job.ByID(namespace, "q", b.res.Jobs[0].ID), Need: job.NeedLeased})
			}
			// Jobs that do not lie together are read one by one.
			if s := b.storage; s.reads > 6*fetches || s.seen > 4*fetches || s.changes > 11*fetches {
				t.Errorf("%d jobs make %d reads, come to %d keys and change %d", fetches, s.reads, s.seen, s.changes)
			}
			if test.groups == 1 && b.storage.reads > fetches/20 {
				t.Errorf("%d jobs of one group make %d reads", fetches, b.storage.reads)
			}
		})
	}
}
