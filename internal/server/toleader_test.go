package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/testkit"
)

// passing is a standby and the leader that it passes requests on to, within a bubble.
type passing struct {
	t       *testing.T
	clients *testkit.Listener // of the standby
	stop    func()            // ends the standby
	served  atomic.Int32      // requests that the leader got
	open    atomic.Int32      // connections that the leader has

	mu      sync.Mutex // guards what follows
	leads   string
	reached []string // by which clients
	away    error    // why the leader cannot be reached
}

// pass runs a test with what the leader does with requests.
func pass(t *testing.T, leader http.HandlerFunc, test func(*passing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &passing{t: t, clients: testkit.Listen(4 << 10), leads: "a"}
		to := testkit.Listen(4 << 10)
		ctx, end := context.WithCancel(t.Context())
		serve := func(ctx context.Context, l net.Listener, h *dialect.HTTP) chan error {
			h.Logger, h.Shared = slog.New(slog.DiscardHandler), dialect.NewShared(0, 0)
			ended := make(chan error, 1)
			go func() { ended <- h.Serve(ctx, l) }()
			return ended
		}
		leading := serve(ctx, to, &dialect.HTTP{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p.served.Add(1)
				leader(w, r)
			}),
			ConnState: func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					p.open.Add(1)
				case http.StateClosed, http.StateHijacked:
					p.open.Add(-1)
				case http.StateActive, http.StateIdle:
				}
			},
		})
		l := &links{
			leader: func() string { p.mu.Lock(); defer p.mu.Unlock(); return p.leads },
			reach: func(client, _ string) (net.Conn, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.away != nil {
					return nil, p.away
				}
				p.reached = append(p.reached, client)
				return to.Dial()
			},
		}
		standby, stop := context.WithCancel(t.Context())
		fronting := serve(standby, named{p.clients, new(atomic.Int32)},
			&dialect.HTTP{Handler: l.handler(), ConnContext: l.begin, ConnState: l.state})
		p.stop = sync.OnceFunc(func() {
			stop()
			if err := <-fronting; err != nil {
				t.Error(err)
			}
		})
		test(p)
		p.stop()
		synctest.Wait()
		if n := p.open.Load(); n != 0 {
			t.Errorf("%d connections to the leader are left", n)
		}
		l.open.Range(func(any, any) bool { t.Error("a link is left"); return false })
		end()
		if err := <-leading; err != nil {
			t.Error(err)
		}
	})
}

// named is a listener whose connections come from addresses of their own.
type named struct {
	net.Listener
	last *atomic.Int32
}

func (l named) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &namedConn{c, fmt.Sprintf("192.0.2.%d:99", l.last.Add(1))}, err
}

type namedConn struct {
	net.Conn
	client string
}

func (c *namedConn) RemoteAddr() net.Addr { return (*address)(&c.client) }

type address string

func (*address) Network() string  { return "tcp" }
func (a *address) String() string { return string(*a) }

func (p *passing) lead(id string, away error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leads, p.away = id, away
}

// by returns who has reached the leader so far.
func (p *passing) by() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reached)
}

// passed is a client of the standby.
type passed struct {
	*testkit.Conn
	p *passing
	r *bufio.Reader
}

func (p *passing) dial() *passed {
	p.t.Helper()
	c, err := p.clients.Dial()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() }) // closing twice is harmless
	return &passed{c, p, bufio.NewReader(c)}
}

// send sends a request. More are lines of its head.
func (c *passed) send(method, path, body string, more ...string) {
	c.p.t.Helper()
	head := []string{method + " " + path + " HTTP/1.1", "Host: h", fmt.Sprintf("Content-Length: %d", len(body))}
	text := strings.Join(append(head, more...), "\r\n") + "\r\n\r\n" + body
	if _, err := io.WriteString(c, text); err != nil {
		c.p.t.Fatal(err)
	}
}

// answer returns the next answer; status 0: the connection was closed without one.
func (c *passed) answer() (status int, body string, head http.Header) {
	c.p.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if errors.Is(err, io.ErrUnexpectedEOF) && c.r.Buffered() == 0 {
		return 0, "", nil
	}
	if err != nil {
		c.p.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		c.p.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// All requests of a client's connection share a connection to the leader, and nobody else's do: it carries the address
// of the client. It ends with the client's connection, and with the standby.
func TestLink(t *testing.T) {
	t.Parallel()
	pass(t, echo, func(p *passing) {
		a, b := p.dial(), p.dial()
		for i := range 3 {
			for _, c := range []*passed{a, b} {
				c.send(http.MethodPost, "/", fmt.Sprintf("%p %d", c, i))
			}
			for _, c := range []*passed{a, b} {
				if code, got, _ := c.answer(); code != http.StatusOK || got != fmt.Sprintf("%p %d", c, i) {
					t.Errorf("%d: %s", code, got)
				}
			}
		}
		for i := range 3 { // all at once
			a.send(http.MethodPost, "/", fmt.Sprint(i))
		}
		for i := range 3 {
			if _, got, _ := a.answer(); got != fmt.Sprint(i) {
				t.Errorf("request %d gets %s", i, got)
			}
		}
		if by := p.by(); len(by) != 2 || by[0] == by[1] {
			t.Errorf("the leader was reached by %v", by)
		}
		_ = a.Close() // never fails
		synctest.Wait()
		if n := p.open.Load(); n != 1 {
			t.Errorf("one client is left, and the leader has %d connections", n)
		}
	})
}

// After a change of leader, and when it could be closed any moment, a link is not used any more.
func TestLinkReplaced(t *testing.T) {
	t.Parallel()
	pass(t, echo, func(p *passing) {
		c := p.dial()
		ask := func(what string, reached int) {
			t.Helper()
			c.send(http.MethodPost, "/", "x")
			if code, _, _ := c.answer(); code != http.StatusOK {
				t.Errorf("%s: %d", what, code)
			}
			synctest.Wait()
			if by, n := p.by(), p.open.Load(); len(by) != reached || n != 1 {
				t.Errorf("%s: reached %d times, %d connections are open", what, len(by), n)
			}
		}
		ask("the first", 1)
		<-time.After(linkIdleMax - time.Second)
		ask("one that follows", 1)
		<-time.After(linkIdleMax + time.Second)
		ask("one after a pause", 2)
		p.lead("b", nil)
		ask("one after a change of leader", 3)
		p.lead("b", errNoLeader)
		ask("the leader cannot be reached, but is", 3)
	})
}

// A request of which only the leader knows whether it was done is not sent again, and gets no answer. One that has
// changed nothing may be sent again by the client.
func TestLinkLost(t *testing.T) {
	t.Parallel()
	lose := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lose" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close() // as a leader does that leads no more
	}
	for _, q := range []struct {
		method, body string
		status       int
	}{
		{http.MethodPost, "x", 0},
		{http.MethodPost, "", 0},
		{http.MethodPut, "", 0},
		{http.MethodDelete, "", 0},
		{http.MethodGet, "", http.StatusServiceUnavailable},
		{http.MethodHead, "", http.StatusServiceUnavailable},
	} {
		for _, before := range []int32{0, 2} { // requests on the same connection
			pass(t, lose, func(p *passing) {
				c := p.dial()
				for range before {
					c.send(http.MethodPost, "/", "")
					if code, _, _ := c.answer(); code != http.StatusOK {
						t.Fatal(code)
					}
				}
				c.send(q.method, "/lose", q.body, "Idempotency-Key: 1") // which has net/http send it again elsewhere
				if q.method == http.MethodHead {
					line, err := c.r.ReadString('\n')
					if err != nil || !strings.Contains(line, " 503 ") {
						t.Errorf("HEAD: %s, %v", line, err)
					}
				} else if code, _, head := c.answer(); code != q.status || code > 0 && head.Get("Retry-After") == "" {
					t.Errorf("%s after %d: %d, %v", q.method, before, code, head)
				}
				if n := p.served.Load(); n != before+1 {
					t.Errorf("%s after %d: the leader got %d requests", q.method, before, n)
				}
			})
		}
	}
}

// A request that has not reached the leader may be sent again, whatever it is.
func TestLinkNoLeader(t *testing.T) {
	t.Parallel()
	pass(t, echo, func(p *passing) {
		p.lead("", errNoLeader)
		c := p.dial()
		for range 2 {
			c.send(http.MethodPost, "/", "x")
			code, body, head := c.answer()
			if code != http.StatusServiceUnavailable || head.Get("Retry-After") == "" ||
				!strings.Contains(body, errNoLeader.Error()) {
				t.Errorf("%d %s", code, body)
			}
		}
		p.lead("a", nil)
		c.send(http.MethodPost, "/", "x")
		if code, got, _ := c.answer(); code != http.StatusOK || got != "x" {
			t.Errorf("with a leader: %d %s", code, got)
		}
	})
}

// What the leader gives time has it on a standby, too: answers that are long in coming, streams, long requests.
func TestLinkPatience(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	pass(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})); err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/stream":
			for range 10 {
				_, _ = io.WriteString(w, "event\n") // who reads it finds out
				_ = control.Flush()
				<-time.After(long)
			}
		case "/empty":
			<-time.After(long)
			w.WriteHeader(http.StatusNoContent)
		default:
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			<-time.After(long)
			_, _ = w.Write(text) // who reads it finds out
		}
	}, func(p *passing) {
		c := p.dial()
		c.send(http.MethodPost, "/", "x")
		if code, got, _ := c.answer(); code != http.StatusOK || got != "x" {
			t.Errorf("a late answer: %d %s", code, got)
		}
		c.send(http.MethodPost, "/empty", "")
		if code, _, _ := c.answer(); code != http.StatusNoContent {
			t.Errorf("a late answer without a body: %d", code)
		}
		c.send(http.MethodGet, "/stream", "")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		for i, began := range slices.Repeat([]time.Time{time.Now()}, 10) {
			_, err := lines.ReadString('\n')
			if late := time.Since(began) - time.Duration(i)*long; err != nil || late != 0 {
				t.Errorf("event %d is %v late: %v", i, late, err)
			}
		}
		if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		for _, part := range []string{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n", "x", "y", "z"} {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
			<-time.After(long)
		}
		if code, got, _ := c.answer(); code != http.StatusOK || got != "xyz" {
			t.Errorf("a long request: %d %s", code, got)
		}
		if by := p.by(); len(by) != 1 {
			t.Errorf("the leader was reached by %v", by)
		}
	})
}

// A client that does not read is cut off.
func TestLinkNotRead(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	pass(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // never fails
		w.Header().Set("Content-Length", fmt.Sprint(len(large)))        // or a lock would hold up the bubble's time
		_, _ = io.WriteString(w, large)                                 // nobody reads it
	}, func(p *passing) {
		c := p.dial()
		c.send(http.MethodGet, "/", "")
		testkit.Advance(t, passedWriteTimeout+time.Second)
		if n := p.open.Load(); n != 0 {
			t.Error("its connection to the leader is open")
		}
	})
}
