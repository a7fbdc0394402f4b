package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/store/pebblestore"
)

func open(tb testing.TB, s store.Store, d engine.Durability) *engine.Engine {
	tb.Helper()
	e, err := engine.Open(engine.Options{Store: s, Durability: d})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

func push(queue, body string) *job.Push {
	return &job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Body: []byte(body), BodyKind: job.BodyBytes}}
}

// A waiting fetch is served by a push, an ack removes the job, and the counts follow.
func TestLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		worker, producer := e.NewCaller(), e.NewCaller()
		got := make(chan job.Job, 1)
		go func() {
			r := worker.Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1, Wait: time.Minute})
			if r[0].Err != nil {
				t.Error(r[0].Err)
			}
			got <- r[0].Jobs[0]
		}()
		synctest.Wait()
		if r := producer.Do(t.Context(), push("q", "hello")); r[0].Err != nil || r[0].ID != 1 {
			t.Fatalf("push answered %+v", r[0])
		}
		j := <-got
		if string(j.Body) != "hello" || j.Attempts != 1 {
			t.Fatalf("fetched %+v", j)
		}
		info, ok, err := e.Queue("ns", "q")
		if err != nil || !ok || info.Counts[job.Leased] != 1 {
			t.Fatalf("queue is %+v, %v, %v", info, ok, err)
		}
		if r := producer.Do(t.Context(), &job.Ack{
			Ref:  job.ByID("ns", "q", j.ID),
			Need: job.NeedLeased,
		}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		if _, err := e.Get(job.ByID("ns", "q", j.ID)); err == nil {
			t.Fatal("the job is still there")
		}
	})
}

func BenchmarkLives(b *testing.B) {
	for _, d := range []engine.Durability{engine.DurabilityFsync, engine.DurabilityNone} {
		b.Run(fmt.Sprintf("%v", d), func(b *testing.B) {
			s, err := pebblestore.Open(pebblestore.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			e, err := engine.Open(engine.Options{Store: s, Durability: d})
			if err != nil {
				b.Fatal(err)
			}
			const callers = 256
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { live(b, e, fmt.Sprintf("q%d", i%4), &left) })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			b.StopTimer()
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func live(b *testing.B, e *engine.Engine, queue string, left *atomic.Int64) {
	b.Helper()
	c := e.NewCaller()
	p := push(queue, string(make([]byte, 100)))
	f := &job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1, Wait: time.Second}
	a := &job.Ack{Need: job.NeedLeased}
	for left.Add(-1) >= 0 {
		if r := c.Do(b.Context(), p); r[0].Err != nil {
			b.Error(r[0].Err)
			return
		}
		r := c.Do(b.Context(), f)
		if r[0].Err != nil {
			b.Error(r[0].Err)
			return
		}
		a.Ref = job.ByID("ns", queue, r[0].Jobs[0].ID)
		if r := c.Do(b.Context(), a); r[0].Err != nil {
			b.Error(r[0].Err)
			return
		}
	}
}

// Whoever keeps the settings of queues learns when they may have changed.
func TestQueuesVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memstore.New(), engine.DurabilityFsync)
		last := e.QueuesVersion()
		for _, c := range []struct {
			cmd     job.Command
			changes bool
		}{
			{push("q", ""), false},
			{&job.Configure{Namespace: "ns", Queue: "q", Replace: true}, true},
			{fetch("q", 0), false},
			{&job.Remove{Namespace: "ns", Queue: "q"}, true},
			{&job.Flush{Namespace: "ns"}, true},
		} {
			do(t, e, c.cmd)
			now := e.QueuesVersion()
			if (now != last) != c.changes {
				t.Errorf("%T: version %d after %d", c.cmd, now, last)
			}
			last = now
		}
	})
}
