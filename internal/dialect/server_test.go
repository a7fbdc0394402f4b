package dialect

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/job"
	"millrace/internal/testkit"
)

// logBuffer collects log lines.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// echoHandler answers lines with themselves; "panic" panics.
func echoHandler(c *Conn) error {
	for {
		line, err := c.ReadLine()
		if err != nil {
			return err
		}
		if string(line) == "panic" {
			panic("asked to")
		}
		c.SetOut(append(append(c.Out(), line...), '\n'))
		if err := c.Flush(); err != nil {
			return err
		}
	}
}

// started is a server under test.
type started struct {
	*Server
	log   *logBuffer
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, l net.Listener, o ServerOptions) *started {
	t.Helper()
	s := &started{log: &logBuffer{}, ended: make(chan error, 1)}
	o.Name = "echo"
	o.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if o.Handler == nil {
		o.Handler = echoHandler
	}
	s.Server = NewServer(o)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.ended <- s.Serve(ctx, l) }()
	return s
}

func (s *started) finish(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if open := s.Stats().Open; open != 0 {
		t.Errorf("%d connections still open", open)
	}
}

func dialMem(t *testing.T, l *testkit.Listener) *testkit.Conn {
	t.Helper()
	c, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerPanicStaysInItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		s := start(t, l, ServerOptions{})
		a, b := dialMem(t, l), dialMem(t, l)
		send(t, a, "panic\n")
		send(t, b, "hello\n")
		synctest.Wait()
		if _, ended := a.TryRead(); !ended {
			t.Error("the connection that panicked is open")
		}
		if got, _ := b.TryRead(); string(got) != "hello\n" {
			t.Errorf("the other connection got %q", got)
		}
		if log := s.log.String(); !strings.Contains(log, "asked to") || !strings.Contains(log, "echoHandler") {
			t.Errorf("log without the panic and its stack: %s", log)
		}
		s.finish(t)
	})
}

func TestServerLimitsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		s := start(t, l, ServerOptions{
			Options: Options{MaxConns: 2},
			Reject:  func(int) []byte { return []byte("too many\n") },
		})
		a, b := dialMem(t, l), dialMem(t, l)
		synctest.Wait()
		c := dialMem(t, l)
		synctest.Wait()
		if got, ended := c.TryRead(); string(got) != "too many\n" || !ended {
			t.Errorf("third connection got %q, end %v", got, ended)
		}
		if got := s.Stats(); got != (ServerStats{Open: 2, Total: 2, Rejected: 1}) {
			t.Errorf("stats %+v", got)
		}
		_ = a.Close()
		synctest.Wait()
		d := dialMem(t, l)
		send(t, d, "hi\n")
		synctest.Wait()
		if got, _ := d.TryRead(); string(got) != "hi\n" {
			t.Errorf("connection after one has ended got %q", got)
		}
		_ = b.Close()
		s.finish(t)
	})
}

func TestServerProbesAreNotLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		s := start(t, l, ServerOptions{})
		for range 10 {
			_ = dialMem(t, l).Close()
		}
		synctest.Wait()
		s.finish(t)
		if log := s.log.String(); log != "" {
			t.Errorf("log: %s", log)
		}
		if got := s.Stats().Total; got != 10 {
			t.Errorf("%d connections", got)
		}
	})
}

func TestServerDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		busy := make(chan struct{})
		s := start(t, l, ServerOptions{Handler: func(c *Conn) error {
			line, err := c.ReadLine()
			if err != nil {
				return err
			}
			<-busy // an engine at work
			c.SetOut(append(c.Out(), line...))
			return c.Flush()
		}})
		idle, working := dialMem(t, l), dialMem(t, l)
		send(t, working, "work\n")
		synctest.Wait()
		s.stop()
		synctest.Wait()
		if _, ended := idle.TryRead(); !ended {
			t.Error("the idle connection is open")
		}
		if _, err := l.Dial(); err == nil {
			t.Error("still accepting")
		}
		select {
		case <-s.ended:
			t.Error("Serve returned before the reply in progress")
		default:
		}
		close(busy)
		s.finish(t)
		if got, ended := working.TryRead(); string(got) != "work" || !ended {
			t.Errorf("the reply in progress is %q, end %v", got, ended)
		}
	})
}

// TestServerDrainIsNotHeldUpByASlowReader stops a server while it writes to a
// peer that does not read, and while another is about to be written to.
func TestServerDrainIsNotHeldUpByASlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(16)
		later := make(chan struct{})
		s := start(t, l, ServerOptions{Handler: func(c *Conn) error {
			if line, err := c.ReadLine(); err != nil || string(line) == "later" {
				<-later
			}
			c.SetOut(append(c.Out(), make([]byte, 1000)...))
			return c.Flush()
		}})
		a, b := dialMem(t, l), dialMem(t, l)
		send(t, a, "now\n")
		send(t, b, "later\n")
		synctest.Wait()
		began := time.Now()
		s.stop()
		synctest.Wait()
		close(later)
		s.finish(t)
		if took := time.Since(began); took != drainTimeout {
			t.Errorf("the drain took %v", took)
		}
	})
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := pair(t, Limits{})
		began := time.Now()
		testkit.Advance(t, time.Minute)
		if !c.Accepted().Equal(began) {
			t.Errorf("accepted at %v, want %v", c.Accepted(), began)
		}
	})
}

// failingListener fails with errs first.
type failingListener struct {
	*testkit.Listener
	mu   sync.Mutex // guards errs
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		l.mu.Unlock()
		return nil, err
	}
	l.mu.Unlock()
	return l.Listener.Accept()
}

func TestServerBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.Listen(0)
		l := &failingListener{Listener: mem}
		for range 20 {
			l.errs = append(l.errs, fmt.Errorf("accept: %w", syscall.EMFILE))
		}
		began := time.Now()
		s := start(t, l, ServerOptions{})
		c := dialMem(t, mem)
		send(t, c, "hi\n")
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		// 5 ms doubling up to a second: twenty errors take some 13 seconds.
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("accepted after %v", took)
		}
		if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings for one shortage", n)
		}
		s.finish(t)
	})
}

func TestServerEndsWithItsListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		l := &failingListener{Listener: testkit.Listen(0)}
		s := start(t, l, ServerOptions{})
		c := dialMem(t, l.Listener)
		synctest.Wait()
		l.mu.Lock()
		l.errs = []error{broken}
		l.mu.Unlock()
		dialMem(t, l.Listener) // lets the Accept in progress return
		if err := <-s.ended; !errors.Is(err, broken) {
			t.Errorf("Serve: %v", err)
		}
		if _, ended := c.TryRead(); !ended {
			t.Error("connection left open")
		}
		s.stop()
	})
}

func TestServerTLS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, l, ServerOptions{Options: Options{TLS: testTLS(t)}})
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, "secret\n")
	if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || got != "secret\n" {
		t.Errorf("got %q, %v", got, err)
	}
	// A connection in the middle of its handshake does not hold up the drain.
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	send(t, silent, "not TLS at all\n")
	if got, err := io.ReadAll(silent); err == nil && strings.Contains(string(got), "not TLS") {
		t.Errorf("plain text was answered with %q", got)
	}
	s.finish(t)
	_, _ = c.Close(), silent.Close()
}

func TestServerHandshakeTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		s := start(t, l, ServerOptions{
			Options: Options{TLS: testTLS(t)},
			Limits:  Limits{HandshakeTimeout: 3 * time.Second},
		})
		c := dialMem(t, l)
		testkit.Advance(t, 2*time.Second)
		if _, ended := c.TryRead(); ended {
			t.Error("closed too early")
		}
		testkit.Advance(t, time.Second)
		if _, ended := c.TryRead(); !ended {
			t.Error("a silent handshake is still open")
		}
		if got := s.Stats(); got.Handshakes != 1 || got.Rejected != 0 {
			t.Errorf("%+v", got)
		}
		s.finish(t)
	})
}

func TestDoorNames(t *testing.T) {
	t.Parallel()
	for door, want := range map[int]string{
		0: "unknown", 1: "api", 2: "faktory", 3: "workq", 4: "masenko",
		5: "tarantool", 6: "lmstfy", 7: "beanstalkd", 8: "unknown", 255: "unknown",
	} {
		if got := DoorName(job.Door(door)); got != want {
			t.Errorf("door %d is %q, want %q", door, got, want)
		}
	}
}
