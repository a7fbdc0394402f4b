package masenko_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/masenko/masenkotest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// TestChurnLosesNothing has clients that come and go at the worst moments while
// others push, and then counts: every job is acked or still there, none is
// leased to nobody.
func TestChurnLosesNothing(t *testing.T) {
	t.Parallel()
	const producers, pushes, workers, rounds = 4, 150, 8, 150
	s := dialecttest.Start(t)
	defer s.Stop(t)
	d := masenko.New(masenko.Options{Options: dialect.Options{Engine: s.Engine}})
	l := s.Serve(d, 0)
	var wg sync.WaitGroup
	var acked atomic.Uint64
	for range producers {
		wg.Go(func() {
			c := connect(t, l)
			defer func() { _ = c.Close() }()
			for range pushes {
				retry := uint8(255)
				if _, err := masenkotest.New(c).Push(masenkotest.Task{Name: "n", Retry: &retry}); err != nil {
					t.Errorf("push: %v", err)
					return
				}
			}
		})
	}
	for i := range workers {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for range rounds {
				visit(t, l, rnd, &acked)
			}
		})
	}
	wg.Wait()
	for d.Stats().Open > 0 {
		runtime.Gosched()
	}
	// All commands have been answered, so all is committed.
	q := s.Queue(t, "default", "default")
	if q.Counts[job.Leased] != 0 {
		t.Errorf("%d jobs leased to nobody", q.Counts[job.Leased])
	}
	if got := q.Totals[job.CountAcked] + q.Total(); got != producers*pushes ||
		q.Totals[job.CountPushed] != producers*pushes {
		t.Errorf("%d jobs acked or left of %d, totals %v", got, q.Totals[job.CountPushed], q.Totals)
	}
	// An ack whose reply was not read may have counted, one that was read has.
	if q.Totals[job.CountAcked] < acked.Load() || acked.Load() == 0 {
		t.Errorf("%d acks counted, %d confirmed", q.Totals[job.CountAcked], acked.Load())
	}
}

func connect(t *testing.T, l *testkit.Listener) *testkit.Conn {
	t.Helper()
	c, err := l.Dial()
	if err != nil {
		t.Errorf("dial: %v", err)
	}
	return c
}

// visit is one worker that hangs up at a random point of fetching and acking.
func visit(t *testing.T, l *testkit.Listener, rnd *rand.Rand, acked *atomic.Uint64) {
	t.Helper()
	conn := connect(t, l)
	defer func() { _ = conn.Close() }()
	c := masenkotest.New(conn)
	switch rnd.IntN(6) {
	case 0: // in the middle of a line
		_, _ = io.WriteString(conn, "FETCH {\"time")
	case 1: // while the fetch is under way
		_, _ = io.WriteString(conn, "FETCH {\"timeout\":\"10s\"}\n")
		for range rnd.IntN(3) {
			runtime.Gosched()
		}
	case 2: // with more behind it
		_, _ = io.WriteString(conn, "FETCH {\"timeout\":\"10s\"}\nPING\nFETCH {\"timeout\":\"10s\"}\n")
	case 3: // after the delivery
		_, _ = c.Fetch(time.Millisecond, "default")
	default: // after the ack, or before its reply
		for range 5 {
			task, err := c.Fetch(time.Millisecond, "default")
			if err != nil {
				return
			}
			if rnd.IntN(4) == 0 {
				_, _ = fmt.Fprintf(conn, "ACK {\"id\":%d}\n", task.ID)
				return
			}
			if err := c.Ack(task.ID); err != nil {
				t.Errorf("ack: %v", err)
				return
			}
			acked.Add(1)
		}
	}
}
