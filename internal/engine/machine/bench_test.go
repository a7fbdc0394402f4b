package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
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
			if err := store.CommitNow(c.store, batch); err != nil {
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

// benchKeys returns client-given keys, made before they are needed.
func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%024x", uint64(i)*0x9e3779b97f4a7c15)
	}
	return keys
}

// BenchmarkLifeByKey lets jobs with keys live while some thousands of others are held:
// push, fetch, and an ack of one that was fetched a while ago, by its key.
func BenchmarkLifeByKey(b *testing.B) {
	const held = 4096
	for _, unique := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "unique"}[unique], func(b *testing.B) {
			c := newBenchCore(b)
			keys := benchKeys(1 << 20)
			p := &job.Push{Spec: benchPush.Spec}
			p.Spec.Unique = unique
			f := &job.Fetch{Namespace: "default", Queues: []string{"q"}, Max: 1}
			a := &job.Ack{Need: job.NeedLeased}
			i := 0
			live := func() {
				p.Spec.Key = keys[i%len(keys)]
				c.do(p)
				c.do(f)
				if i >= held {
					a.Ref = job.ByKey("default", keys[(i-held)%len(keys)])
					c.do(a)
				}
				i++
			}
			for range held {
				live()
			}
			b.ReportAllocs()
			for b.Loop() {
				live()
			}
		})
	}
}
