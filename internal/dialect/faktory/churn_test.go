package faktory_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// TestChurnLosesNothing has workers that come and go at the worst moments while others
// push, and then counts: every job is acked, held by a delivery that was written, or
// still there.
func TestChurnLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, churn) // where an empty queue costs no time
}

func churn(t *testing.T, b *bench) {
	t.Helper()
	const producers, pushes, workers, rounds = 4, 150, 8, 100
	s, d, l := b.Server, b.d, b.l
	var wg sync.WaitGroup
	var acked, kept atomic.Uint64
	for range producers {
		wg.Go(func() {
			c := connect(t, l, "")
			defer func() { _ = c.Close() }()
			for range pushes {
				if err := c.Push(newJob("default")); err != nil {
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
				visit(t, l, rnd, &acked, &kept)
			}
		})
	}
	wg.Wait()
	for d.Stats().Open > 0 {
		runtime.Gosched()
	}
	q := s.Queue(t, "default", "default")
	if got := q.Totals[job.CountAcked] + q.Total(); got != producers*pushes ||
		q.Totals[job.CountPushed] != producers*pushes {
		t.Errorf("%d jobs acked or left of %d, totals %v", got, q.Totals[job.CountPushed], q.Totals)
	}
	// An ack whose reply was not read may have counted, one that was read has. A job is
	// held only if a worker was sent it: nobody is held up by a delivery to nobody.
	if q.Totals[job.CountAcked] < acked.Load() || acked.Load() == 0 || q.Counts[job.Leased] > kept.Load() {
		t.Errorf("%d acks counted, %d confirmed, %d held, %d kept", q.Totals[job.CountAcked], acked.Load(),
			q.Counts[job.Leased], kept.Load())
	}
	if n := len(d.Workers()); n != 0 {
		t.Errorf("%d workers left", n)
	}
}

func connect(t *testing.T, l *testkit.Listener, wid string) *faktorytest.Client {
	t.Helper()
	conn, err := l.Dial()
	if err != nil {
		t.Errorf("dial: %v", err)
	}
	c, err := faktorytest.New(conn, wid)
	if err != nil {
		t.Errorf("handshake: %v", err)
	}
	return c
}

// visit is one worker that hangs up at a random point of fetching and acking. It counts
// the jobs that it may have been sent and has not acked.
func visit(t *testing.T, l *testkit.Listener, rnd *rand.Rand, acked, kept *atomic.Uint64) {
	t.Helper()
	c := connect(t, l, fmt.Sprint("worker-", rnd.IntN(3)))
	defer func() { _ = c.Close() }()
	switch rnd.IntN(6) {
	case 0: // in the middle of a line
		_ = c.Send("FETCH default\nFETCH de")
		kept.Add(1)
	case 1: // while the fetch is under way
		_ = c.Send("FETCH default")
		kept.Add(1)
		for range rnd.IntN(3) {
			runtime.Gosched()
		}
	case 2: // with more behind it
		_ = c.Send("FETCH default\nINFO\nFETCH default")
		kept.Add(2)
	default: // after the ack, or before its reply
		for range 5 {
			j, err := c.Fetch("default")
			if err != nil {
				return
			}
			if rnd.IntN(4) == 0 {
				_ = c.Send(fmt.Sprintf(`ACK {"jid":%q}`, j.JID))
				kept.Add(1)
				return
			}
			if err := c.Ack(j.JID); err != nil {
				t.Errorf("ack: %v", err)
				return
			}
			acked.Add(1)
			if rnd.IntN(2) == 0 {
				return
			}
		}
	}
}

// TestWaitingConnectionsAreCheap has clients wait over real sockets and looks at the
// memory that each costs, their own ends of the connections included. It measures the
// whole process and so does not run beside other tests.
func TestWaitingConnectionsAreCheap(t *testing.T) {
	const clients = 1000
	s := dialecttest.Start(t)
	defer s.Stop(t)
	d := faktory.New(faktory.Options{Options: dialect.Options{Engine: s.Engine, Logger: slog.New(slog.DiscardHandler)}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.ServeOn(d, l)
	used := func() uint64 {
		var m runtime.MemStats
		for range 3 { // what is pooled takes two of them
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	buf := make([]byte, 4096)
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer func() { _ = c.Close() }()
		conns[i] = c
		// A large command first: its buffer must not stay.
		_, err = fmt.Fprintf(c, "HELLO {\"v\":2,\"wid\":\"worker-%d\"}\r\nwhat %s\r\n", i, strings.Repeat("x", 5000))
		must(t, err)
		got := ""
		for !strings.Contains(got, "unknown command what") {
			n, err := c.Read(buf)
			must(t, err)
			got += string(buf[:n])
		}
	}
	// A FETCH does not wait for long. On a machine that is slow just now they are sent again.
	for s.Engine.Stats().Waiters < clients {
		for _, c := range conns {
			_, err = io.WriteString(c, "FETCH empty\r\n")
			must(t, err)
		}
		for began := time.Now(); s.Engine.Stats().Waiters < clients && time.Since(began) < time.Second; {
			runtime.Gosched()
		}
	}
	per := (int64(used()) - int64(before)) / clients
	t.Logf("%d bytes per waiting connection", per)
	if per > 20<<10 {
		t.Errorf("%d bytes per waiting connection", per)
	}
}
