package system

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// stopSoon is long for a server that has no reason to wait, also on a busy machine, and short next to drainLong and to
// the fetches that it ends.
const (
	stopSoon  = 30 * time.Second
	drainLong = "5m"
)

// TestStopWhileFetchesWait stops a server whose clients all wait: it must answer
// them and end on its own, without waiting for them.
func TestStopWhileFetchesWait(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	s := suite.Start(t, options(dir, "--server-drain-timeout", drainLong, "--masenko-heartbeat", "10m"))
	holder := dial(t, s.Addr)
	if _, err := holder.Push("held", "job"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := holder.Fetch("held", time.Second); err != nil || !ok {
		t.Fatalf("fetch: %v, %v", ok, err)
	}
	const waiting = 50
	ended := make(chan error, waiting)
	for range waiting {
		c := dial(t, s.Addr)
		c.QueueFetch("empty", 5*time.Minute)
		if err := c.Send(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		go func() {
			switch _, ok, err := c.ReplyJob(); {
			case ok:
				ended <- errors.New("a job came out of nothing")
			case err != nil && !hungUp(err):
				ended <- err
			default:
				ended <- nil
			}
		}()
	}
	// The last of the fetches has arrived when a request behind it is answered.
	if _, err := holder.Do("PING"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Logf("drained in %v", time.Since(began).Round(time.Millisecond))
	case <-time.After(stopSoon):
		t.Fatalf("the server is still there %v after SIGTERM", stopSoon)
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit status %d, want 0\n%s", code, s.Stderr())
	}
	for range waiting {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}

	// The job that was held is not lost by the stop.
	again := suite.Start(t, options(dir))
	if j, ok, err := dial(t, again.Addr).Fetch("held", 3*time.Second); err != nil || !ok || j.Payload != "job" {
		t.Errorf("after the restart: %+v, %v, %v", j, ok, err)
	}
}

// hungUp reports whether the server closed the connection, properly or by its end.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, net.ErrClosed)
}

// TestSecondSignal gives the server a reason to wait, a client that does not read
// its replies, and then no time to.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := suite.Start(t, options(suite.DataDir(t), "--server-drain-timeout", drainLong))
	c := dial(t, s.Addr)
	const jobs = 32
	payload := strings.Repeat("x", 1<<20)
	for i := range jobs {
		if _, err := c.Push("large", payload); err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
	}
	for range jobs {
		c.QueueFetch("large", time.Second)
	}
	if err := c.Send(time.Minute); err != nil {
		t.Fatal(err)
	}
	// More than the socket's buffers hold is on its way when the first byte arrives.
	if err := c.AwaitReply(); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Fatalf("the server did not let the reply finish: exit status %d\n%s", s.ExitCode(), s.Stderr())
	case <-time.After(500 * time.Millisecond):
	}
	began := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Logf("ended %v after the second signal", time.Since(began).Round(time.Millisecond))
	case <-time.After(stopSoon):
		t.Fatalf("still there %v after the second signal", stopSoon)
	}
	if s.ExitCode() == 0 {
		t.Error("exit status 0, although the drain was cut short")
	}
}

// TestStopUnderLoad stops a server in the middle of pushes: each was answered or
// refused or cut off, and what was answered is there afterwards.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	s := suite.Start(t, options(dir))
	const producers = 8
	type outcome struct {
		acked []string
		err   error
	}
	outcomes := make(chan outcome, producers)
	pushing := make(chan struct{}, producers)
	for p := range producers {
		c := dial(t, s.Addr)
		go func() {
			var o outcome
			for i := 0; ; i++ {
				payload := fmt.Sprintf("%d-%d", p, i)
				if _, err := c.Push("q", payload); err != nil {
					var no *harness.RefusedError
					if !hungUp(err) && !errors.As(err, &no) && !errors.Is(err, syscall.EPIPE) {
						o.err = err
					}
					outcomes <- o
					return
				}
				o.acked = append(o.acked, payload)
				if i == 100 {
					pushing <- struct{}{}
				}
			}
		}()
	}
	for range producers {
		<-pushing
	}
	stop(t, s)
	want := map[string]bool{}
	for range producers {
		o := <-outcomes
		if o.err != nil {
			t.Error(o.err)
		}
		for _, p := range o.acked {
			want[p] = true
		}
	}
	again := suite.Start(t, options(dir))
	c := dial(t, again.Addr)
	count := len(want)
	for {
		j, ok, err := c.Fetch("q", time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		delete(want, j.Payload)
		if err := c.Ack(j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d of %d acknowledged pushes are lost", len(want), count)
	}
	t.Logf("%d pushes acknowledged before the stop", count)
}
