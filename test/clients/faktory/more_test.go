package faktory

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"millrace/test/clients/kit"
)

func testLarge(t *testing.T, cl *faktory.Client) {
	text := strings.Repeat("payload ", 5<<20/8)
	push(t, cl, faktory.NewJob("Large", text))
	if got := fetch(t, cl, "default"); len(got.Args) != 1 || got.Args[0] != text {
		t.Error("five megabytes came back as something else")
	}
}

// TestRetry waits for a retry that nobody hurries, which takes 15 to 44 seconds.
func TestRetry(t *testing.T) {
	t.Parallel()
	s := kit.FaktoryKinds()[0].Start(t)
	cl := open(t, s)
	job := push(t, cl, faktory.NewJob("Fragile", 1))
	fetch(t, cl, "default")
	failed := time.Now()
	ok(t, cl.Fail(job.Jid, errors.New("x"), nil))
	for time.Since(failed) < time.Minute {
		got, err := cl.Fetch("default")
		ok(t, err)
		if got == nil {
			continue
		}
		if next := instant(t, got.Failure.NextAt); got.Jid != job.Jid || !around(next, -5*time.Second, 0) ||
			time.Since(failed) < 15*time.Second {
			t.Errorf("after %v: %+v, its retry was planned for %v", time.Since(failed), got, next)
		}
		ok(t, cl.Ack(job.Jid))
		sets(t, cl, 0, 0, 0)
		return
	}
	t.Error("no retry within a minute")
}

// TestPool has many producers and consumers share a pool of connections: every
// job is worked on once.
func TestPool(t *testing.T) {
	t.Parallel()
	const producers, jobs, consumers = 8, 50, 8
	s := kit.FaktoryKinds()[0].Start(t)
	pool, err := faktory.NewPoolWithClientConstructor(producers+consumers, server(s).Open)
	ok(t, err)
	t.Cleanup(pool.Close)

	var mu sync.Mutex // guards seen
	seen := make(map[string]bool)
	var worked atomic.Int64
	var group sync.WaitGroup
	for range producers {
		group.Go(func() {
			for i := range jobs {
				if err := pool.With(func(cl *faktory.Client) error {
					return cl.Push(faktory.NewJob("Pooled", i))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	consume := func(cl *faktory.Client) error {
		job, err := cl.Fetch("default")
		if err != nil || job == nil {
			return err
		}
		mu.Lock()
		seen[job.Jid] = true
		mu.Unlock()
		worked.Add(1)
		return cl.Ack(job.Jid)
	}
	for range consumers {
		group.Go(func() {
			for worked.Load() < producers*jobs && !t.Failed() {
				if err := pool.With(consume); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := worked.Load(); n != producers*jobs || len(seen) != producers*jobs {
		t.Errorf("%d jobs were worked on, %d times, want %d", len(seen), n, producers*jobs)
	}
	st := state(t, open(t, s)).Data
	if st.TotalProcessed != producers*jobs || st.TotalEnqueued != 0 || st.Sets["working"] != 0 {
		t.Errorf("after all: %+v", st)
	}
}
