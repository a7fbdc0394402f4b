package dialect

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// pair returns a Conn and the peer's end of it.
func pair(t *testing.T, limits Limits) (*testkit.Conn, *Conn) {
	t.Helper()
	client, server := testkit.Pipe(testkit.DefaultPipeSize)
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, NewConn(server, limits)
}

func send(t *testing.T, c io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatalf("send: %v", err)
	}
}

func wantLine(t *testing.T, c *Conn, want string) {
	t.Helper()
	got, err := c.ReadLine()
	if err != nil || string(got) != want {
		t.Fatalf("line %q, %v; want %q", got, err, want)
	}
}

func TestReadLine(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{MaxLine: 5000})
	send(t, client, "one\ntwo\r\n\nfo")
	wantLine(t, c, "one")
	if !c.HasLine() || c.Buffered() != 8 {
		t.Errorf("HasLine %v, Buffered %d", c.HasLine(), c.Buffered())
	}
	wantLine(t, c, "two\r")
	wantLine(t, c, "")
	if c.HasLine() {
		t.Error("half a line counts as one")
	}
	send(t, client, "ur\n")
	wantLine(t, c, "four")
	long := strings.Repeat("x", 5000)
	send(t, client, long+"\n"+long+"y\n")
	wantLine(t, c, long)
	if _, err := c.ReadLine(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("line beyond the limit: %v", err)
	}
	_ = client.Close()
	if _, err := c.ReadLine(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("line beyond the limit, again: %v", err)
	}
}

func TestReadLineEndsWithEOF(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{})
	send(t, client, "whole\nhalf")
	_ = client.Close()
	wantLine(t, c, "whole")
	for range 2 {
		if _, err := c.ReadLine(); !errors.Is(err, io.EOF) {
			t.Errorf("half a line: %v", err)
		}
	}
}

// TestLinesStayValid reads all lines that have been received before using any,
// with sizes on both sides of every buffer size.
func TestLinesStayValid(t *testing.T) {
	t.Parallel()
	for _, size := range []int{
		1, 100, inlineSize - 1, inlineSize, inlineSize + 1, bufferMin - 1,
		bufferMin + 1, 100_000,
	} {
		client, c := pair(t, Limits{})
		var want []string
		for i := range 20 {
			want = append(want, strings.Repeat(string(rune('a'+i)), size))
		}
		go func() {
			_, _ = io.WriteString(client, strings.Join(want, "\n")+"\n")
			_ = client.Close()
		}()
		got := 0
		for {
			line, err := c.ReadLine()
			if err != nil {
				break
			}
			lines := [][]byte{line}
			for c.HasLine() {
				line, err := c.ReadLine()
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, line)
			}
			for _, l := range lines {
				if string(l) != want[got] {
					t.Fatalf("size %d: line %d is wrong", size, got)
				}
				got++
			}
		}
		if got != len(want) {
			t.Errorf("size %d: %d of %d lines", size, got, len(want))
		}
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{MaxBlock: 40_000})
	send(t, client, "put\nabc\r\n"+strings.Repeat("d", 30_000)+"tail\n")
	wantLine(t, c, "put")
	if b, err := c.ReadBlock(5); err != nil || string(b) != "abc\r\n" {
		t.Errorf("block %q, %v", b, err)
	}
	if err := c.Discard(30_000); err != nil {
		t.Error(err)
	}
	wantLine(t, c, "tail")
	for _, n := range []int{-1, 40_001, 1 << 62} {
		if _, err := c.ReadBlock(n); !errors.Is(err, ErrBlockTooLong) {
			t.Errorf("ReadBlock(%d): %v", n, err)
		}
	}
	big := strings.Repeat("e", 40_000)
	send(t, client, big)
	if b, err := c.ReadBlock(40_000); err != nil || string(b) != big {
		t.Errorf("block of %d bytes, %v", len(b), err)
	}
	send(t, client, "frame")
	if err := c.Fill(100); err != nil || string(c.Peek()) != "frame" {
		t.Errorf("peek %q, %v", c.Peek(), err)
	}
	c.Consume(4)
	if string(c.Peek()) != "e" {
		t.Errorf("peek %q after consume", c.Peek())
	}
}

// TestAnnouncedLengthIsNotAllocated asks for a large block of which little comes.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{MaxBlock: 1 << 30})
	send(t, client, "a little")
	_ = client.Close()
	if _, err := c.ReadBlock(1 << 30); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if cap(c.in) > bufferMin {
		t.Errorf("buffer of %d bytes for 8", cap(c.in))
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		start := time.Now()
		for i := range 3 {
			c.SetDeadline(time.Now().Add(time.Minute))
			testkit.Advance(t, 40*time.Second)
			send(t, client, "x\n")
			wantLine(t, c, "x")
			if got := time.Since(start); got != time.Duration(i+1)*40*time.Second {
				t.Fatalf("line after %v", got)
			}
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.ReadLine(); !errors.Is(err, ErrTimeout) {
			t.Errorf("read: %v", err)
		}
		if got := time.Since(start); got != 3*time.Minute {
			t.Errorf("gave up after %v", got)
		}
		// The connection is usable after a timeout.
		c.SetDeadline(time.Time{})
		send(t, client, "y\n")
		wantLine(t, c, "y")
	})
}

// TestIdleConnHoldsNoBuffer looks at the buffers of a connection that has had
// large input and is idle, and of one that waits.
func TestIdleConnHoldsNoBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		send(t, client, strings.Repeat("x", 50_000)+"\n")
		if _, err := c.ReadLine(); err != nil {
			t.Fatal(err)
		}
		c.SetOut(append(c.Out(), "reply"...))
		if err := c.Flush(); err != nil || c.out != nil {
			t.Errorf("flush: %v, output buffer kept %v", err, c.out != nil)
		}
		line := make(chan error, 1)
		go func() {
			_, err := c.ReadLine()
			line <- err
		}()
		testkit.Advance(t, 2*idleTick)
		if c.pooled || len(c.in) != inlineSize {
			t.Errorf("an idle connection holds %d bytes", len(c.in))
		}
		send(t, client, "\n")
		if err := <-line; err != nil {
			t.Error(err)
		}
	})
}

func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		c.Wake() // before the read
		if _, err := c.ReadLine(); !errors.Is(err, ErrWoken) {
			t.Errorf("read after wake: %v", err)
		}
		time.AfterFunc(time.Minute, c.Wake) // during the read
		send(t, client, "ha")
		if _, err := c.ReadLine(); !errors.Is(err, ErrWoken) {
			t.Errorf("woken read: %v", err)
		}
		send(t, client, "lf\n")
		wantLine(t, c, "half")
	})
}

func TestDrainInterruptsIdleRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		send(t, client, "one\ntwo\nthr")
		wantLine(t, c, "one")
		c.drain()
		wantLine(t, c, "two") // received before: still answered
		for range 2 {
			if _, err := c.ReadLine(); !errors.Is(err, ErrDraining) {
				t.Errorf("read while draining: %v", err)
			}
		}
		if !c.Draining() {
			t.Error("not draining")
		}
	})
}

func TestSlowReaderIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := pair(t, Limits{WriteTimeout: 10 * time.Second})
		c.SetOut(append(c.Out(), "small"...))
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		c.SetOut(append(c.Out(), make([]byte, 2*testkit.DefaultPipeSize)...))
		err := c.Flush()
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took < 10*time.Second ||
			took > 20*time.Second {
			t.Errorf("write ended after %v with %v", took, err)
		}
		c.SetOut(append(c.Out(), "more"...))
		if again := c.Flush(); !errors.Is(again, os.ErrDeadlineExceeded) {
			t.Errorf("a later flush: %v", again)
		}
	})
}

// A look at the clock that a write has been spared is not used for one that comes much later.
func TestOldLookAtTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{WriteTimeout: 10 * time.Second})
		say := func(text string) {
			t.Helper()
			c.SetOut(append(c.Out(), text...))
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Advance(t, time.Second)
		if now := c.Answering(); now != time.Second {
			t.Errorf("%v have passed", now)
		}
		say("one")
		c.Answering()
		c.SetDeadline(time.Now().Add(time.Hour))
		if _, err := c.ReadLine(); !errors.Is(err, ErrTimeout) {
			t.Errorf("nothing was read: %v", err)
		}
		say("two")
		testkit.Advance(t, time.Hour)
		say("three")
		if got, _ := client.TryRead(); string(got) != "onetwothree" {
			t.Errorf("%q", got)
		}
	})
}

func TestLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		send(t, client, "much more to come")
		c.SetOut(append(c.Out(), "bye"...))
		start := time.Now()
		c.Linger()
		if took := time.Since(start); took != lingerTime {
			t.Errorf("lingered %v", took)
		}
		if got, ended := client.TryRead(); string(got) != "bye" || !ended {
			t.Errorf("peer got %q, end %v", got, ended)
		}
	})
}

// scripted is an Engine whose answers the test gives.
type scripted struct {
	submitted chan *engine.Request
	canceled  chan *engine.Request
	onSubmit  func(*engine.Request)
	onCancel  func(*engine.Request)
	sent      int // deliveries that the engine was told of
}

func newScripted() *scripted {
	return &scripted{submitted: make(chan *engine.Request, 8), canceled: make(chan *engine.Request, 8)}
}

func (s *scripted) Submit(r *engine.Request) (waits bool) {
	s.submitted <- r
	if s.onSubmit != nil {
		s.onSubmit(r)
	}
	return true
}

func (s *scripted) Cancel(r *engine.Request) {
	s.canceled <- r
	if s.onCancel != nil {
		s.onCancel(r)
	}
}

func (s *scripted) Sent(*job.Delivery) { s.sent++ }

// The engine is told of a delivery when it has been written, and not before, or when the connection is closed.
func TestDelivered(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{})
	e := newScripted()
	e.onSubmit = func(r *engine.Request) { r.Done(r) }
	fetch := &job.Fetch{}
	c.Do(e, &engine.Request{Commands: []job.Command{&job.Ack{}}})
	c.SetOut(append(c.Out(), "acked"...))
	if err := c.Flush(); err != nil || e.sent != 0 {
		t.Fatalf("%d deliveries without a fetch, %v", e.sent, err)
	}
	c.Do(e, &engine.Request{Commands: []job.Command{&job.Ack{}, fetch}})
	if fetch.Delivery == nil || c.Flush() != nil || e.sent != 0 {
		t.Fatalf("%+v: %d deliveries before anything was written", fetch, e.sent)
	}
	c.SetOut(append(c.Out(), "fetched"...))
	if err := c.Flush(); err != nil || e.sent != 1 {
		t.Fatalf("%d deliveries, %v", e.sent, err)
	}
	_ = client.Close() // it cannot fail
	c.SetOut(append(c.Out(), "lost"...))
	if err := c.Flush(); err == nil || e.sent != 1 {
		t.Fatalf("%d deliveries after a write that failed, %v", e.sent, err)
	}
	if c.close(); e.sent != 2 {
		t.Fatalf("%d deliveries after the end", e.sent)
	}
}

func TestAwaitAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{})
	e := newScripted()
	e.onSubmit = func(r *engine.Request) { r.Done(r) }
	for range 3 {
		if c.Await(e, &engine.Request{}) {
			t.Error("peer counts as gone")
		}
		c.Do(e, &engine.Request{})
	}
	send(t, client, "next\n")
	wantLine(t, c, "next")
}

func TestAwaitAnsweredLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		e := newScripted()
		e.onSubmit = func(r *engine.Request) { time.AfterFunc(time.Hour, func() { r.Done(r) }) }
		c.SetDeadline(time.Now().Add(time.Minute)) // not looked at while waiting
		time.AfterFunc(time.Second, func() { send(t, client, "pipe") })
		time.AfterFunc(2*time.Second, func() { send(t, client, "lined\n") })
		start := time.Now()
		if c.Await(e, &engine.Request{}) {
			t.Error("peer counts as gone")
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("answered after %v", took)
		}
		wantLine(t, c, "pipelined")
		// The deadline that interrupted the wait does not poison the next read.
		c.SetDeadline(time.Now().Add(time.Minute))
		time.AfterFunc(30*time.Second, func() { send(t, client, "next\n") })
		wantLine(t, c, "next")
		if _, err := c.ReadLine(); !errors.Is(err, ErrTimeout) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestAwaitNoticesHangUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		e := newScripted()
		// The engine takes its time to let go of the request.
		e.onCancel = func(r *engine.Request) { time.AfterFunc(time.Minute, func() { r.Done(r) }) }
		time.AfterFunc(time.Second, func() { _ = client.Close() })
		start := time.Now()
		if !c.Await(e, &engine.Request{}) {
			t.Error("peer does not count as gone")
		}
		if took := time.Since(start); took != time.Minute+time.Second {
			t.Errorf("returned after %v, so before the engine let go", took)
		}
		if len(e.canceled) != 1 {
			t.Errorf("%d cancels", len(e.canceled))
		}
		if _, err := c.ReadLine(); !errors.Is(err, io.EOF) {
			t.Errorf("read after the end: %v", err)
		}
		// A peer that is known to be gone is still gone for the next request.
		e.onCancel = func(r *engine.Request) { r.Done(r) }
		if !c.Await(e, &engine.Request{}) {
			t.Error("peer does not count as gone any more")
		}
	})
}

// TestAwaitBoundsPipelining sends more than may be collected while waiting.
func TestAwaitBoundsPipelining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := pair(t, Limits{})
		e := newScripted()
		line := strings.Repeat("z", 999) + "\n"
		const lines = 500
		go func() {
			for range lines {
				if _, err := io.WriteString(client, line); err != nil {
					return
				}
			}
		}()
		done := make(chan bool)
		go func() { done <- c.Await(e, &engine.Request{}) }()
		synctest.Wait()
		r := <-e.submitted
		if c.Buffered() > awaitMax {
			t.Errorf("%d bytes collected", c.Buffered())
		}
		r.Done(r)
		if <-done {
			t.Error("peer counts as gone")
		}
		for range lines {
			wantLine(t, c, line[:len(line)-1])
		}
	})
}

func TestAwaitWhileDraining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := pair(t, Limits{})
		e := newScripted()
		done := make(chan bool)
		go func() { done <- c.Await(e, &engine.Request{}) }()
		r := <-e.submitted
		testkit.Advance(t, time.Second)
		c.drain()
		testkit.Advance(t, time.Second)
		select {
		case <-done:
			t.Error("Await returned before its request was done")
		default:
		}
		r.Done(r)
		if <-done {
			t.Error("peer counts as gone")
		}
	})
}

// conns makes pairs of every kind of connection that Await must work with.
var conns = map[string]func(t *testing.T) (client, server net.Conn){
	"memory": func(*testing.T) (net.Conn, net.Conn) {
		a, b := testkit.Pipe(testkit.DefaultPipeSize)
		return a, b
	},
	"net.Pipe": func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() },
	"tcp":      tcpPair,
	"tls": func(t *testing.T) (net.Conn, net.Conn) {
		t.Helper()
		a, b := tcpPair(t)
		config := testTLS(t)
		client, server := tls.Client(a, &tls.Config{InsecureSkipVerify: true}), tls.Server(b, config)
		errs := make(chan error, 1)
		go func() { errs <- server.Handshake() }()
		if err := errors.Join(client.Handshake(), <-errs); err != nil {
			t.Fatal(err)
		}
		return client, server
	},
}

func tcpPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// testTLS returns a server's configuration with a fresh certificate.
func testTLS(t *testing.T) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{testkit.NewCertificate(t, "localhost").Pair}}
}

// TestAwaitRaces answers requests from other goroutines at every possible
// moment around the beginning of the read, while input arrives, and checks that
// no answer is lost, no byte is lost and no read is poisoned.
func TestAwaitRaces(t *testing.T) {
	t.Parallel()
	const rounds = 2000
	for name, dial := range conns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := dial(t)
			c := NewConn(server, Limits{})
			e := newScripted()
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := range rounds {
					r := <-e.submitted
					for range i % 50 {
						_ = time.Now() // spend a moment that differs from round to round
					}
					r.Done(r)
				}
			})
			wg.Go(func() {
				for range rounds {
					if _, err := io.WriteString(client, "line\n"); err != nil {
						t.Errorf("send: %v", err)
						return
					}
				}
			})
			for range rounds {
				if c.Await(e, &engine.Request{}) {
					t.Error("peer counts as gone")
				}
				line, err := c.ReadLine()
				if err != nil || !bytes.Equal(line, []byte("line")) {
					t.Fatalf("line %q, %v", line, err)
				}
			}
			wg.Wait()

			// The end of the peer against the answer: whoever wins, Await returns
			// once and the engine has let go.
			e.onCancel = nil
			wg.Go(func() {
				r := <-e.submitted
				select {
				case <-e.canceled:
				default:
				}
				r.Done(r)
			})
			wg.Go(func() { _ = client.Close() })
			c.Await(e, &engine.Request{})
			wg.Wait()
			c.close()
		})
	}
}

// BenchmarkWait compares the two ways to wait for an engine that answers at once
// on its own goroutine.
func BenchmarkWait(b *testing.B) {
	for name, wait := range map[string]func(*Conn, Engine, *engine.Request){
		"do":    func(c *Conn, e Engine, r *engine.Request) { c.Do(e, r) },
		"await": func(c *Conn, e Engine, r *engine.Request) { c.Await(e, r) },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _, _, _ = client.Close(), server.Close(), l.Close() }()
			c, e := NewConn(server, Limits{}), newScripted()
			go func() {
				for r := range e.submitted {
					r.Done(r)
				}
			}()
			var r engine.Request
			b.ReportAllocs()
			for b.Loop() {
				wait(c, e, &r)
			}
			close(e.submitted)
		})
	}
}

// Of the connections that have received more than one unit at once as many are at work as there are turns. One that
// reads, writes, waits for the engine or ends gives its turn to the next, and one with a single unit needs none.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &Shared{turns: make(chan struct{}, 1), most: DefaultInput}
		e := newScripted()
		e.onSubmit = func(r *engine.Request) { time.AfterFunc(time.Second, func() { r.Done(r) }) }
		for name, pause := range map[string]func(client *testkit.Conn, c *Conn){
			"read": func(client *testkit.Conn, c *Conn) {
				send(t, client, "three\n")
				wantLine(t, c, "three")
			},
			"write": func(_ *testkit.Conn, c *Conn) {
				c.SetOut(append(c.Out(), "answer\n"...))
				if err := c.Flush(); err != nil {
					t.Error(err)
				}
			},
			"engine": func(_ *testkit.Conn, c *Conn) { c.Do(e, &engine.Request{}) },
			"end":    func(_ *testkit.Conn, c *Conn) { c.close() },
		} {
			client, first := pair(t, Limits{})
			second := much(t)
			first.shared, second.shared = shared, shared
			for range 2 {
				first.Turn()
			}
			got := make(chan struct{})
			go func() {
				defer close(got)
				second.Turn()
			}()
			_, single := pair(t, Limits{})
			single.shared = shared
			single.Turn()
			synctest.Wait()
			select {
			case <-got:
				t.Errorf("%s: two have a turn, of one", name)
			default:
			}
			pause(client, first)
			<-got
			second.close()
		}
	})
}

// much returns a connection that has received more than it can do at once.
func much(t *testing.T) *Conn {
	t.Helper()
	client, c := pair(t, Limits{})
	go func() { _, _ = client.Write(bytes.Repeat([]byte("line\n"), floodSize)) }()
	for !c.floods {
		if err := c.Fill(bufferMax); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
