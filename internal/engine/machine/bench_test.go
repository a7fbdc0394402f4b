package machine_test

import (
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// benchCore applies commands and commits every few hundred outside the timer.
type benchCore struct {
	*engine.Core
	b     *testing.B
	store *memstore.Store
	n     int
	now   job.Time
	res   job.Result
}

func newBenchCore(b *testing.B) *benchCore {
	b.Helper()
	s := memstore.New()
	c, err := engine.OpenCore(s, 1e15, engine.CoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return &benchCore{Core: c, b: b, store: s, now: 1e15}
}

func (c *benchCore) do(cmd job.Command) {
	c.now++
	c.Apply(c.now, 1, 0, cmd, &c.res)
	if c.res.Err != nil {
		c.b.Fatal(c.res.Err)
	}
	if c.n++; c.n%512 == 0 {
		c.b.StopTimer()
		if batch, _ := c.Seal(); batch != nil {
			if err := c.store.Commit(batch, false); err != nil {
				c.b.Fatal(err)
			}
			c.Committed()
		}
		c.b.StartTimer()
	}
}

var benchPush = &job.Push{Spec: job.Spec{
	Namespace: "default", Queue: "q", Type: "t", Body: make([]byte, 100), BodyKind: job.BodyBytes,
	Policy: job.Policy{MaxFails: 21, Lease: 60e9},
}}

func BenchmarkPush(b *testing.B) {
	c := newBenchCore(b)
	b.ReportAllocs()
	for b.Loop() {
		c.do(benchPush)
	}
}

func BenchmarkFetch(b *testing.B) {
	c := newBenchCore(b)
	f := &job.Fetch{Namespace: "default", Queues: []string{"q"}, Max: 1}
	a := &job.Ack{Need: job.NeedLeased}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c.do(benchPush)
		b.StartTimer()
		c.do(f)
		b.StopTimer()
		a.Ref = job.ByID("default", "q", c.res.Jobs[0].ID)
		c.do(a)
		b.StartTimer()
	}
}

func BenchmarkLife(b *testing.B) {
	c := newBenchCore(b)
	f := &job.Fetch{Namespace: "default", Queues: []string{"q"}, Max: 1}
	a := &job.Ack{Need: job.NeedLeased}
	b.ReportAllocs()
	for b.Loop() {
		c.do(benchPush)
		c.do(f)
		a.Ref = job.ByID("default", "q", c.res.Jobs[0].ID)
		c.do(a)
	}
}
