package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// counted counts what a machine asks of its storage.
type counted struct {
	machine.Storage
	reads, changes int
	seen           int // keys that scans have come to
}

func (c *counted) Get(dst, key []byte) (value []byte, pending, ok bool) {
	c.reads++
	return c.Storage.Get(dst, key)
}

func (c *counted) Scan(lo, hi []byte, reverse bool, visit func(key, value []byte) bool) {
	c.reads++
	c.Storage.Scan(lo, hi, reverse, func(key, value []byte) bool {
		c.seen++
		return visit(key, value)
	})
}

func (c *counted) Set(key, value []byte) {
	c.changes++
	c.Storage.Set(key, value)
}

func (c *counted) Insert(key, value []byte) {
	c.changes++
	c.Storage.Insert(key, value)
}

func (c *counted) Remove(key []byte) {
	c.changes++
	c.Storage.Remove(key)
}

func (c *counted) Delete(key []byte) {
	c.changes++
	c.Storage.Delete(key)
}

func (c *counted) DeleteRange(lo, hi []byte) {
	c.changes++
	c.Storage.DeleteRange(lo, hi)
}

// bench is a machine on storage that counts.
type bench struct {
	tb      testing.TB
	m       *machine.Machine
	storage *counted
	token   uint64
	res     job.Result
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	s := &counted{Storage: core.Storage()}
	return &bench{tb: tb, m: machine.New(s, start, machine.Options{}), storage: s}
}

// do applies a command that is not refused, and returns how many reads it made.
func (b *bench) do(cmd job.Command) (reads int) {
	b.tb.Helper()
	before := b.storage.reads
	b.token++
	b.m.Apply(start, 1, b.token, cmd, &b.res)
	if b.res.Err != nil {
		b.tb.Fatal(b.res.Err)
	}
	return b.storage.reads - before
}

// fill makes queues that have all that the removal of a queue must undo: a job with a key
// that is ready, one that is leased until its holder ends, and callers who wait for a
// result and for room.
func (b *bench) fill(queues int) {
	b.tb.Helper()
	for i := range queues {
		q := fmt.Sprint("q", i)
		b.do(&job.Configure{Namespace: namespace, Queue: q, Settings: job.Settings{Capacity: 2}})
		push := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: q, Key: q}}
		b.do(push)
		b.do(&job.Await{Ref: job.ByID(namespace, q, b.res.ID), Wait: job.WaitForever})
		b.do(push)
		b.do(&job.Fetch{
			Namespace: namespace, Queues: []string{q}, Holder: job.Holder{Node: 1, Num: uint64(i)},
			OnEnd: job.EndRelease,
		})
		b.do(&job.Push{Spec: push.Spec, RoomWait: job.WaitForever})
	}
}

// Flush and Remove read little of the queues that go, to see whether there is much: each costs what it costs to delete
// it, however many there are, and however large the batch has become.
func TestFlushReadsLittle(t *testing.T) {
	t.Parallel()
	const queues = 300
	b := newBench(t)
	b.fill(queues)
	before := b.storage.changes
	// And of the key of the push that is let in.
	if got := b.do(&job.Remove{Namespace: namespace, Queue: "q0"}); got > 4 {
		t.Errorf("removing a queue makes %d reads", got)
	}
	one := b.storage.changes - before
	if got := len(b.m.Completed()); got != 2 {
		t.Errorf("%d callers are answered, want the one who waited for a result and the one who waited for room", got)
	}
	before = b.storage.changes
	reads := b.do(&job.Flush{Namespace: namespace})
	for token := b.token; b.m.Waiting() > 0; {
		reads -= b.storage.reads
		b.m.Tick(start, 1)
		reads += b.storage.reads
		for _, c := range b.m.Completed() {
			if c.Token == token {
				b.res = c.Result
			}
		}
	}
	if reads > 5*queues+6 { // and of batches, locks, outcomes and queues that are spared
		t.Errorf("a flush of %d queues makes %d reads", queues, reads)
	}
	if got := b.storage.changes - before; got > one*queues+4+queues/16 { // and how far it has got, once for a step
		t.Errorf("a flush of %d queues makes %d changes, the removal of one %d", queues, got, one)
	}
	for b.m.Tick(start, 1) { // which tells those who are too many for one step
	}
	if b.res.Count != queues || b.m.Waiting() != 0 {
		t.Errorf("%d queues are gone and %d callers wait", b.res.Count, b.m.Waiting())
	}
	if err := b.m.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkFlush tells what one queue costs among many.
func BenchmarkFlush(b *testing.B) {
	for _, queues := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := newBench(b)
				c.fill(queues)
				b.StartTimer()
				c.do(&job.Flush{Namespace: namespace})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*queues), "ns/queue")
		})
	}
}
