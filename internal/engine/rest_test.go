package engine_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
)

// measured is a store that adds up what scans pass, and knows its largest batch.
type measured struct {
	store.Store
	passed  atomic.Int64
	largest atomic.Int64
}

func (s *measured) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if r.Passed == nil {
		r.Passed = new(int)
	}
	before := *r.Passed
	err := s.Store.Scan(r, visit)
	s.passed.Add(int64(*r.Passed - before))
	return err
}

func (s *measured) Commit(b *store.Batch, done func(error)) {
	s.largest.Store(max(s.largest.Load(), int64(b.Size())))
	s.Store.Commit(b, done)
}

// scheduleMany pushes jobs that are due much later.
func scheduleMany(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	const unit = 1000
	c := e.NewCaller()
	for range n / unit {
		cmds := make([]job.Command, unit)
		for i := range cmds {
			cmds[i] = &job.Push{Spec: job.Spec{Namespace: "n", Queue: "q", Type: "t", Delay: time.Hour}}
		}
		for _, res := range c.Do(t.Context(), cmds...) {
			if res.Err != nil {
				t.Error(res.Err)
			}
		}
	}
}

func kickMany(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	res := e.NewCaller().Do(t.Context(), &job.Kick{From: job.KickWaiting, Namespace: "n", Queue: "q", Count: n})[0]
	if res.Err != nil || res.Count != n {
		t.Errorf("kicked %d, %v; want %d", res.Count, res.Err, n)
	}
}

// TestRestPassesNothingTwice takes the first jobs of a long list in many steps. What one step has taken must not be
// work for the next.
func TestRestPassesNothingTwice(t *testing.T) {
	t.Parallel()
	const n = 40_000
	p, err := pebblestore.Open(pebblestore.Options{Dir: filepath.Join(t.TempDir(), "data"), MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := &measured{Store: p}
	e, err := engine.Open(engine.Options{Store: s, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	scheduleMany(t, e, n)
	kickMany(t, e, n)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d deleted keys were passed", s.passed.Load())
	if passed := s.passed.Load(); passed > 4*n {
		t.Errorf("%d deleted keys were passed for %d jobs", passed, n)
	}
}

// TestRestWaitsForStore has a command of many steps beside a store that does not come to commit.
func TestRestWaitsForStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 20_000
		g := newGated()
		s := &measured{Store: g}
		e, err := engine.Open(engine.Options{Store: s, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			scheduleMany(t, e, n)
		}()
		for range n { // one at a time until all have been pushed
			select {
			case g.gate <- nil:
				continue
			case <-done:
			}
			break
		}
		s.largest.Store(0)
		kicked := make(chan struct{})
		go func() {
			defer close(kicked)
			kickMany(t, e, n)
		}()
		synctest.Wait() // a commit is on its way, and does not end
		g.openGate()
		<-kicked
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if most := s.largest.Load(); most == 0 || most > 512<<10 {
			t.Errorf("a batch of %d bytes", most)
		}
	})
}
