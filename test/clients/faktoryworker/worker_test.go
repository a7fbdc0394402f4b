// Package faktoryworker runs the Go worker library of Faktory against the binary,
// with and without a password and TLS.
package faktoryworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"

	"millrace/test/clients/kit"
)

// workerID is the name of the worker. The library keeps it in a global variable
// that every connection reads: it is set before the first, to what the managers
// set it to.
const workerID = "worker-of-the-test"

func TestMain(m *testing.M) {
	faktory.RandomProcessWid = workerID
	os.Exit(kit.Main(m))
}

// open connects to the server.
func open(s kit.FaktoryServer) (*faktory.Client, error) {
	srv := faktory.DefaultServer()
	srv.Address, srv.Password, srv.Timeout = s.Addr(kit.Faktory), s.Password, 5*time.Second
	if s.Certificate != nil {
		srv.Network, srv.TLS = "tcp+tls", s.Certificate.ClientTLS()
	}
	return srv.Open()
}

// connect connects for the length of the test.
func connect(t *testing.T, s kit.FaktoryServer) *faktory.Client {
	t.Helper()
	cl, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ok(t, cl.Close()) })
	return cl
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state asks for the sets and counters of the server.
func state(t *testing.T, cl *faktory.Client) faktory.DataSnapshot {
	t.Helper()
	st, err := cl.CurrentState()
	ok(t, err)
	return st.Data
}

// newManager returns a worker that is not started yet.
func newManager(t *testing.T, s kit.FaktoryServer) *worker.Manager {
	t.Helper()
	pool, err := faktory.NewPoolWithClientConstructor(5, func() (*faktory.Client, error) { return open(s) })
	ok(t, err)
	mgr := worker.NewManager()
	mgr.Pool, mgr.ProcessWID, mgr.Concurrency, mgr.ShutdownTimeout = pool, workerID, 3, 10*time.Second
	mgr.Labels = []string{"test"}
	mgr.Logger = &worker.StdLogger{Logger: log.New(io.Discard, "", 0)}
	return mgr
}

// running is a started worker and what its jobs have reported.
type running struct {
	seen chan string
	stop func()
}

// run starts a worker for the queues, which is stopped at the end of the test if
// not before.
func run(t *testing.T, mgr *worker.Manager, queues ...string) running {
	t.Helper()
	r := running{seen: make(chan string, 100)}
	mgr.ProcessStrictPriorityQueues(queues...)
	mgr.Use(func(ctx context.Context, job *faktory.Job, next func(context.Context) error) error {
		err := next(ctx)
		r.seen <- fmt.Sprintf("%s%v: %v", job.Type, job.Args, err)
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.RunWithContext(ctx) }()
	r.stop = func() {
		cancel()
		if err, open := <-done; open {
			ok(t, err)
			close(done)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// expect waits until exactly these reports have come, in any order.
func (r running) expect(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		select {
		case s := <-r.seen:
			got = append(got, s)
		case <-time.After(30 * time.Second):
			t.Fatalf("reports: %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("reports: %q, want %q", got, want)
	}
}

// TestWorker works on servers of all kinds. The tests of this package run one
// after the other, because of the library's global variables.
func TestWorker(t *testing.T) {
	for _, kind := range kit.FaktoryKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			s := kind.Start(t)
			testWorker(t, s, connect(t, s))
		})
	}
}

func testWorker(t *testing.T, s kit.FaktoryServer, cl *faktory.Client) {
	mgr := newManager(t, s)
	mgr.Register("Add", func(ctx context.Context, _ ...any) error {
		help := worker.HelperFor(ctx)
		if who, ok := help.Custom("who"); !ok || who != "me" || help.JobType() != "Add" || help.Jid() == "" {
			return fmt.Errorf("the job's data: %v, %s, %s", who, help.JobType(), help.Jid())
		}
		return nil
	})
	mgr.Register("Break", func(context.Context, ...any) error { return errors.New("on purpose") })
	mgr.Register("Part", func(ctx context.Context, args ...any) error {
		help := worker.HelperFor(ctx)
		if err := help.TrackProgress(50, "half", nil); err != nil {
			return err
		}
		if len(args) > 0 {
			return nil
		}
		return help.Batch(func(b *faktory.Batch) error {
			return b.Jobs(func() error { return b.Push(faktory.NewJob("Part", "late")) })
		})
	})
	bids := make(chan string, 1)
	mgr.Register("Success", func(ctx context.Context, _ ...any) error {
		bids <- worker.HelperFor(ctx).CallbackBid()
		return nil
	})

	var want []string
	for i := range 20 {
		job := faktory.NewJob("Add", i).SetCustom("who", "me")
		if i%2 == 0 {
			job.Queue = "high"
		}
		ok(t, cl.Push(job))
		want = append(want, fmt.Sprintf("Add[%d]: <nil>", i))
	}
	broken := faktory.NewJob("Break")
	broken.Args = []any{}
	ok(t, cl.Push(broken))
	later := faktory.NewJob("Add", "later").SetCustom("who", "me")
	later.At = time.Now().Add(time.Second).Format(time.RFC3339Nano)
	ok(t, cl.Push(later))
	r := run(t, mgr, "high", "default")
	r.expect(t, append(want, "Break[]: on purpose", "Add[later]: <nil>")...)

	// The broken job is retried when somebody hurries it, and breaks again. It
	// reports before the worker does.
	for deadline := time.Now().Add(10 * time.Second); state(t, cl).Sets["retries"] == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no job to retry")
		}
	}
	ok(t, cl.Requeue(faktory.Retries, faktory.WithJids(broken.Jid)))
	r.expect(t, "Break[]: on purpose")

	batch := faktory.NewBatch(cl)
	batch.Success = faktory.NewJob("Success")
	batch.Success.Args = []any{}
	part := faktory.NewJob("Part").SetCustom("track", 1)
	part.Args = []any{}
	ok(t, batch.Jobs(func() error { return batch.Push(part) }))
	r.expect(t, "Part[]: <nil>", "Part[late]: <nil>", "Success[]: <nil>")
	if bid := <-bids; bid != batch.Bid {
		t.Errorf("a callback of %q, want %q", bid, batch.Bid)
	}
	r.stop()

	if track, err := cl.TrackGet(part.Jid); err != nil || track.State != "success" || track.Percent != 50 ||
		track.Description != "half" {
		t.Errorf("track: %+v, %v", track, err)
	}
	if d := state(t, cl); d.TotalProcessed != 26 || d.TotalFailures != 2 || d.Sets["retries"] != 1 ||
		d.Sets["working"] != 0 || d.TotalEnqueued != 0 {
		t.Errorf("after all: %+v", d)
	}
}

// TestBeat follows the life of a worker in its heartbeats.
func TestBeat(t *testing.T) {
	s := kit.FaktoryKinds()[0].Start(t)
	cl, other := connect(t, s), connect(t, s)
	if reply, err := cl.Beat(); err != nil || reply != "" {
		t.Fatalf("beat: %q, %v", reply, err)
	}
	ok(t, cl.Push(faktory.NewJob("Waiting", 1)))
	if reply, err := cl.Beat("quiet"); err != nil || reply != `{"state":"quiet"}` {
		t.Errorf("beat: %q, %v", reply, err)
	}
	// All connections of the worker are quiet.
	if job, err := other.Fetch("default"); err != nil || job != nil {
		t.Errorf("a quiet worker fetched %+v, %v", job, err)
	}
	if reply, err := other.Beat("terminate"); err != nil || reply != `{"state":"terminate"}` {
		t.Errorf("beat: %q, %v", reply, err)
	}
	if reply, err := cl.Beat("quiet"); err != nil || reply != `{"state":"terminate"}` {
		t.Errorf("a state never goes back: %q, %v", reply, err)
	}
	_, err := cl.Generic(`BEAT {"wid":"nobody"}`)
	if err == nil || !strings.HasPrefix(err.Error(), "ERR unknown worker nobody") {
		t.Errorf("beat of an unknown worker: %v", err)
	}
}
