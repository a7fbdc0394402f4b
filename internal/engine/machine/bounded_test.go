package machine_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store/memstore"
)

const (
	many     = 2000 // how much has been stored when a command comes
	stepWork = 16
	// stepChanges is more than a step may change, and less than one changes that deals
	// with many jobs at once.
	stepChanges = 800
)

// newBounded returns a machine whose steps do little.
func newBounded(tb testing.TB) *bench {
	tb.Helper()
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{tb: tb, storage: &counted{Storage: core.Storage()}}
	b.reopen()
	return b
}

// reopen makes another machine on what is stored, as a restart does.
func (b *bench) reopen() {
	if b.m != nil {
		before := b.storage.changes
		b.m.Seal()
		b.storage.changes = before // those of earlier steps
	}
	b.m = machine.New(b.storage, start, machine.Options{
		StepWork: stepWork, TimersPerStep: stepWork,
		SweepStep: stepWork, Few: stepWork,
	})
}

// small applies a command, and all that follows from it, and asserts that no step is long.
func (b *bench) small(cmd job.Command) (total job.Result) {
	b.tb.Helper()
	b.step(func() { b.do(cmd) })
	total = b.res
	for token := b.token; b.m.Walking(token); {
		b.step(func() { b.m.Continue(start, 1, token, &b.res) })
	}
	for total.Left > 0 {
		n := total.Count
		b.step(func() { b.do(job.Rest(cmd, &total)) })
		total = b.res
		total.Count += n
	}
	b.rest()
	return total
}

// rest does what is left over.
func (b *bench) rest() {
	b.tb.Helper()
	for more := true; more; {
		b.step(func() { more = b.m.Tick(start, 1) })
	}
	b.m.Completed()
	if err := b.m.Check(); err != nil {
		b.tb.Error(err)
	}
}

func (b *bench) step(do func()) {
	b.tb.Helper()
	before := b.storage.changes
	do()
	if n := b.storage.changes - before; n > stepChanges {
		b.tb.Fatalf("one step makes %d changes", n)
	}
}

// counts asserts how many jobs of a queue are in a state.
func (b *bench) counts(queue string, s job.State, want uint64) {
	b.tb.Helper()
	b.m.Seal()
	value, _, _ := b.storage.Get(nil, record.QueueKey(nil, namespace, queue))
	q, err := record.DecodeQueue(value)
	if got := q.Counts[s]; got != want || err != nil {
		b.tb.Errorf("%d jobs of %s are %v, want %d (%v)", got, queue, s, want, err)
	}
}

func (b *bench) push(spec job.Spec) job.ID {
	b.tb.Helper()
	spec.Namespace = namespace
	b.do(&job.Push{Spec: spec})
	return b.res.ID
}

// lease makes many jobs that one holder has leased.
func (b *bench) lease(end job.OnEnd) {
	b.tb.Helper()
	for range many {
		b.push(job.Spec{Queue: "q"})
	}
	b.do(&job.Fetch{
		Namespace: namespace, Queues: []string{"q"}, Max: many,
		Holder: job.Holder{Node: 1, Num: 1}, OnEnd: end,
	})
}

// blocked makes many jobs that wait for one, and returns that.
func (b *bench) blocked(policy job.Policy) job.ID {
	b.tb.Helper()
	first := b.push(job.Spec{Queue: "first"})
	for range many {
		b.push(job.Spec{Queue: "q", Policy: policy, BlockedBy: []job.Blocker{{QueueNum: 1, ID: first}}})
	}
	return first
}

// No step is long, however much is stored that a command concerns, and in the end all of it
// is done, once.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	dead := job.Policy{Exhaust: job.ExhaustDead}
	first := func(id job.ID) job.Ref { return job.ByID(namespace, "first", id) }
	for name, test := range map[string]func(*bench){
		"dependants are released": func(b *bench) {
			b.small(&job.Delete{Ref: first(b.blocked(dead)), Need: job.NeedAny})
			b.counts("q", job.Ready, many)
		},
		"dependants fail": func(b *bench) {
			b.small(&job.Kill{Ref: first(b.blocked(dead))})
			b.counts("q", job.Dead, many)
		},
		"dependants are released across restarts": func(b *bench) {
			b.do(&job.Delete{Ref: first(b.blocked(dead)), Need: job.NeedAny})
			for range 10 {
				b.step(func() { b.m.Tick(start, 1) })
				b.step(b.reopen)
			}
			b.rest()
			b.counts("q", job.Ready, many)
		},
		"a chain fails": func(b *bench) {
			id := b.push(job.Spec{Queue: "first", Policy: dead})
			for last := id; last < many; {
				last = b.push(job.Spec{Queue: "first", Policy: dead, BlockedBy: []job.Blocker{{QueueNum: 1, ID: last}}})
			}
			b.small(&job.Kill{Ref: first(id)})
			b.counts("first", job.Dead, many)
		},
		"a holder of leases ends": func(b *bench) {
			b.lease(job.EndRelease)
			b.small(&job.EndHolder{Holder: job.Holder{Node: 1, Num: 1}})
			b.counts("q", job.Ready, many)
		},
		"a holder whose jobs fail ends": func(b *bench) {
			b.lease(job.EndFail)
			b.small(&job.EndHolder{Holder: job.Holder{Node: 1, Num: 1}})
			b.counts("q", job.Ready, many)
		},
		"a restart releases leases": func(b *bench) {
			b.lease(job.EndRelease)
			b.step(b.reopen)
			b.rest()
			b.counts("q", job.Ready, many)
		},
		"a restart withdraws runs": func(b *bench) {
			for range many {
				b.do(&job.Run{Spec: job.Spec{Namespace: namespace, Queue: "q"}, Wait: time.Hour})
			}
			b.step(b.reopen)
			b.rest()
			b.counts("q", job.Ready, 0)
		},
		"all leases are released": func(b *bench) {
			b.lease(job.EndKeep)
			if got := b.small(&job.ReleaseAll{Namespace: namespace, Queue: "q"}).Count; got != many {
				b.tb.Errorf("%d are released", got)
			}
			b.counts("q", job.Ready, many)
		},
		"leased jobs are purged": func(b *bench) {
			b.lease(job.EndRelease)
			if got := b.small(&job.Purge{Namespace: namespace, Queue: "q", State: job.Leased}).Count; got != many {
				b.tb.Errorf("%d are purged", got)
			}
			b.counts("q", job.Leased, 0)
		},
		"a queue with dependants is removed": func(b *bench) {
			b.blocked(dead)
			b.small(&job.Remove{Namespace: namespace, Queue: "first"})
			b.counts("q", job.Ready, many)
		},
		"a queue of leases is removed": func(b *bench) {
			b.lease(job.EndRelease)
			b.small(&job.Remove{Namespace: namespace, Queue: "q"})
		},
		"buried jobs are kicked": func(b *bench) {
			for range many {
				id := b.push(job.Spec{Queue: "q"})
				b.do(&job.Bury{Ref: job.ByID(namespace, "q", id), Need: job.NeedAny})
			}
			if got := b.small(&job.Kick{Namespace: namespace, Queue: "q", Count: many - 1}).Count; got != many-1 {
				b.tb.Errorf("%d are kicked", got)
			}
			b.counts("q", job.Buried, 1)
		},
		"waiting jobs are kicked, and none that is buried meanwhile": func(b *bench) {
			for range many {
				b.push(job.Spec{Queue: "q", Delay: time.Hour})
			}
			kick := &job.Kick{Namespace: namespace, Queue: "q", Count: many, From: job.KickEither}
			b.do(kick)
			first := b.res
			b.do(&job.Bury{Ref: job.ByID(namespace, "q", 1), Need: job.NeedAny})
			rest := b.small(job.Rest(kick, &first)).Count
			if first.Count+rest != many {
				b.tb.Errorf("%d are kicked, and then %d", first.Count, rest)
			}
			b.counts("q", job.Buried, 1)
		},
		"dead jobs are respawned, purged and trimmed": func(b *bench) {
			for range many {
				id := b.push(job.Spec{Queue: "q", Policy: dead})
				b.do(&job.Kill{Ref: job.ByID(namespace, "q", id)})
			}
			b.small(&job.Respawn{Namespace: namespace, Queue: "q", Limit: many / 4})
			b.small(&job.Purge{Namespace: namespace, Queue: "q", State: job.Dead, Limit: many / 4})
			b.counts("q", job.Dead, many/2)
			for range many/2/(stepWork-1) + 1 {
				id := b.push(job.Spec{Queue: "q", Policy: job.Policy{Exhaust: job.ExhaustDead, DeadMax: 3}})
				b.small(&job.Kill{Ref: job.ByID(namespace, "q", id)})
			}
			b.counts("q", job.Dead, 3)
		},
		"a namespace is flushed": func(b *bench) {
			for i := range many {
				b.push(job.Spec{Queue: fmt.Sprint("q", i), Key: fmt.Sprint(i), Lock: fmt.Sprint(i), LockFor: time.Hour})
				b.do(&job.NewBatch{Namespace: namespace, OpenFor: time.Hour, KeepFor: time.Hour, KeepDone: time.Hour})
			}
			b.small(&job.Flush{Namespace: namespace})
			if got := b.records(); got != many+1 { // that each lock is to be forgotten, and the counters
				b.tb.Errorf("%d records are left", got)
			}
		},
		"many jobs share a key and a fingerprint": func(b *bench) {
			spec := job.Spec{Namespace: namespace, Queue: "q", Key: "k", Fingerprint: job.Digest{1}}
			for range 2 * many {
				b.push(spec)
			}
			b.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}})
			if got := b.do(&job.Ack{Ref: job.ByKey(namespace, "k"), Need: job.NeedLeased}); got > 2*many {
				b.tb.Errorf("finding one makes %d reads", got)
			}
			if got := b.do(&job.Push{Spec: spec, Unless: job.StatesOf(job.Dead)}); got > 2*many {
				b.tb.Errorf("looking for an equal one makes %d reads", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newBounded(t))
		})
	}
}

// A job that is pushed to a queue that a flush has still to come to is not flushed, and
// nothing else of that queue is left.
func TestFlushSparesWhatComesLater(t *testing.T) {
	t.Parallel()
	const one, other = 1, 2
	b := newBounded(t)
	for i := range many {
		b.push(job.Spec{Queue: fmt.Sprint("q", i), Origin: one})
		b.push(job.Spec{Queue: fmt.Sprint("other", i), Origin: other})
	}
	b.do(&job.Flush{Namespace: namespace, Door: one})
	late, last := "q1999", "other1999"
	b.push(job.Spec{Queue: late, Origin: one})
	b.push(job.Spec{Queue: last, Origin: one})
	b.step(b.reopen)
	b.rest()
	b.counts(late, job.Ready, 1)
	b.counts(last, job.Ready, 2)
	b.counts("other0", job.Ready, 1)
	if _, _, ok := b.storage.Get(nil, record.QueueKey(nil, namespace, "q1998")); ok {
		t.Error("a queue is left over")
	}
}

// What a flush has still to remove neither stands against a push nor is answered in its place.
func TestFlushMakesRoom(t *testing.T) {
	t.Parallel()
	b := newBounded(t)
	for i := range many {
		b.push(job.Spec{Queue: fmt.Sprint("q", i), Key: fmt.Sprint("k", i), Fingerprint: job.Digest{1}})
	}
	b.do(&job.Flush{Namespace: namespace})
	spec := func(i int) job.Spec {
		return job.Spec{
			Namespace: namespace, Queue: fmt.Sprint("q", i), Key: fmt.Sprint("k", i), Unique: true,
			Fingerprint: job.Digest{1},
		}
	}
	b.do(&job.Push{Spec: spec(1997), Unless: job.StatesOf(job.Ready)})
	if len(b.res.Jobs) > 0 {
		t.Error("a push gave way to a job that is flushed")
	}
	b.do(&job.Atomic{Ops: []job.Command{
		&job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q1998"}},
		&job.Push{Spec: spec(1998)},
	}})
	b.do(&job.Push{Spec: spec(1999)})
	b.rest()
	for i, n := range map[int]uint64{1997: 1, 1998: 2, 1999: 1} {
		b.counts(fmt.Sprint("q", i), job.Ready, n)
	}
}

// records returns how many records are stored.
func (b *bench) records() (n int) {
	b.m.Seal()
	b.storage.Scan(nil, []byte{0xff}, false, func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}
