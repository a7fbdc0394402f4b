package machine_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
)

// fetch leases jobs of the queue q that come back with the end of their holder, and returns the last of them.
func (b *bench) fetch(holder uint64, n int) job.ID {
	b.tb.Helper()
	b.do(&job.Fetch{
		Namespace: namespace, Queues: []string{"q"}, Max: n, Holder: job.Holder{Node: 1, Num: holder},
		OnEnd: job.EndRelease,
	})
	if len(b.res.Jobs) != n {
		b.tb.Fatalf("%d jobs are fetched, want %d", len(b.res.Jobs), n)
	}
	return b.res.Jobs[n-1].ID
}

// A restart that still has leases to take back leaves those alone that were made after it, however soon that was.
func TestRestartSparesNewLeases(t *testing.T) {
	t.Parallel()
	for work := 1; work <= 3; work++ {
		b := newBounded(t)
		for range 10 {
			b.push(job.Spec{Queue: "q"})
		}
		b.fetch(1, 10)
		b.m.Seal()
		b.m = machine.New(b.storage, start, machine.Options{StepWork: work})
		b.counts("q", job.Ready, uint64(work))
		b.fetch(2, work)
		b.rest()
		b.counts("q", job.Leased, uint64(work))
		b.counts("q", job.Ready, uint64(10-work))
	}
}

// A job that has failed, was made ready again and then succeeds still fails those that waited for it the first time,
// however many of them are left over, and releases those that came after that.
func TestSecondEndWaitsForFirst(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	id := b.blocked(job.Policy{Exhaust: job.ExhaustDead})
	first := job.ByID(namespace, "first", id)
	b.do(&job.Kill{Ref: first})
	b.do(&job.Promote{Ref: first})
	b.push(job.Spec{Queue: "q", BlockedBy: []job.Blocker{{QueueNum: 1, ID: id}}})
	b.do(&job.Delete{Ref: first, Need: job.NeedAny})
	b.rest()
	b.counts("q", job.Dead, many)
	b.counts("q", job.Ready, 1)
}

// A holder that has gone, and some of whose leases are still to be ended, does not take those with it that others have
// got of the same jobs.
func TestEndOfHolderSparesNewLeases(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	for range many {
		b.push(job.Spec{Queue: "q"})
	}
	last := b.fetch(1, many)
	b.do(&job.EndHolder{Holder: job.Holder{Node: 1, Num: 1}})
	b.counts("q", job.Ready, stepWork)
	b.do(&job.Release{Ref: job.ByID(namespace, "q", last), Need: job.NeedAny, Place: job.PlaceHead})
	if got := b.fetch(2, 1); got != last {
		t.Fatalf("job %d is fetched, want %d", got, last)
	}
	b.rest()
	b.counts("q", job.Leased, 1)
	b.counts("q", job.Ready, many-1)
}

// Whatever comes into a queue that a flush has still to come to stays, also what is not pushed by a client.
func TestFlushSparesWhatComesByOtherWays(t *testing.T) {
	t.Parallel()
	const late = "q1999"
	spec := job.Spec{Namespace: namespace, Queue: late}
	for name, test := range map[string]struct {
		do    func(*bench)
		ready uint64
	}{
		"a job that is moved": {func(b *bench) {
			id := b.push(job.Spec{Queue: "new"})
			b.do(&job.Move{Ref: job.ByID(namespace, "new", id), Queue: late})
		}, 1},
		"the callback of a batch": {func(b *bench) {
			b.do(&job.NewBatch{
				Namespace: namespace, Complete: &spec, OpenFor: time.Hour, KeepFor: time.Hour,
				KeepDone: time.Hour,
			})
			b.do(&job.CommitBatch{Namespace: namespace, Batch: b.res.Batch})
		}, 1},
		"settings": {func(b *bench) {
			b.do(&job.Configure{Namespace: namespace, Queue: late, Settings: job.Settings{Capacity: 1}})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBounded(t)
			for i := range many {
				b.push(job.Spec{Queue: fmt.Sprint("q", i)})
			}
			b.do(&job.Flush{Namespace: namespace})
			test.do(b)
			b.rest()
			if !b.m.HasQueue(namespace, late) {
				t.Fatal("the queue is gone")
			}
			b.counts(late, job.Ready, test.ready)
			if b.m.HasQueue(namespace, "q1998") {
				t.Error("another queue is left over")
			}
		})
	}
}
