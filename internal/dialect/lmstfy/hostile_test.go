package lmstfy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/job"
	"millrace/internal/testkit"
	"millrace/internal/wire"
)

// TestHangUpWithBody hangs up while waiting, after a request that had a body.
func TestHangUpWithBody(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		for _, head := range []string{
			"Content-Length: 5\r\n\r\nstale",
			"Transfer-Encoding: chunked\r\n\r\n5\r\nstale\r\n0\r\n\r\n",
		} {
			conn := dial(t, l)
			if got, _ := sent(t, conn, "GET /api/default/q?timeout=100 HTTP/1.1\r\nHost: x\r\n"+head); got != "" {
				t.Fatalf("answered %q", got)
			}
			_ = conn.Close() // it cannot fail
			synctest.Wait()
		}
		c := client(t, l)
		id, err := c.Publish("q", "", nil)
		must(t, err)
		if j, err := c.PeekJob("q", id); err != nil || j.RemainTries != 1 {
			t.Errorf("job %+v, %v", j, err)
		}
		if q := s.Queue(t, "default", "q"); q.Totals[job.CountFetched] != 0 {
			t.Errorf("%d deliveries", q.Totals[job.CountFetched])
		}
	})
}

// TestBodies sends bodies in the ways that HTTP has, and too large ones in all of them.
func TestBodies(t *testing.T) {
	t.Parallel()
	const put = "PUT /api/default/q HTTP/1.1\r\nHost: x\r\n"
	tests := map[string]struct {
		request, answer string
		open            bool // afterwards
	}{
		"chunked": {
			put + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", " 201 ",
			false, // whatever the reason: see dialect.Paced
		},
		"chunked, and a length": {
			put + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", " 201 ",
			false,
		},
		"chunked too large": {
			put + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", " 413 ",
			false,
		},
		"chunked malformed":   {put + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", " 400 ", false},
		"announced too large": {put + "Content-Length: 99999999999999\r\n\r\n", " 413 ", false},
		"announced nonsense":  {put + "Content-Length: -5\r\n\r\n", " 400 ", false},
		"continue": {
			put + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
			"HTTP/1.1 100 Continue\r\n\r\n", true,
		},
		"do not continue": {put + "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n", " 413 ", false},
		"HTTP/1.0":        {"PUT /api/default/q HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", " 201 ", false},
		"large for a get": {"GET /api/default/none?timeout=1 HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			"99999999999999\r\n\r\n", " 413 ", false},
		"headers too large": {put + "X-Large: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", " 431 ", false},
		"line too long":     {"GET /" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\n", " 431 ", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lmstfy.Options{MaxBody: 10}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
				t.Helper()
				c := dial(t, l)
				got, _ := sent(t, c, test.request)
				if line, _, _ := strings.Cut(got, "\r\n"); !strings.Contains(line+"\r\n\r\n", test.answer) {
					t.Errorf("answered %q, want%q", got, test.answer)
				}
				if !test.open {
					testkit.Advance(t, 31*time.Second) // net/http lingers, or waits for what was announced
				}
				if _, ended := c.TryRead(); ended == test.open {
					t.Errorf("closed: %v", ended)
				}
			})
		})
	}
}

// TestNotReadWhole stops reading a body that is too large.
func TestNotReadWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		l := s.Serve(lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine}}), 4<<10)
		c := dial(t, l)
		written := make(chan int, 1)
		go func() {
			// Seen below.
			_, _ = io.WriteString(c, "PUT /api/default/q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			n := 0
			for n < 16<<20 {
				if _, err := fmt.Fprintf(c, "1000\r\n%s\r\n", strings.Repeat("x", 0x1000)); err != nil {
					break
				}
				n += 0x1000
			}
			written <- n
		}()
		synctest.Wait()
		testkit.Advance(t, time.Second)
		data, ended := c.TryRead()
		if n := <-written; n > 1<<20 || !ended || !strings.Contains(string(data), " 413 ") {
			t.Errorf("%d bytes were taken, closed %v, answer %q", n, ended, data)
		}
	})
}

// TestSlowClients sends requests that never end: they are cut off in time, and hurt nobody.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ request, answer string }{
		"nothing":     {"", ""},
		"half a line": {"PUT /api", ""},
		"half a head": {"PUT /api/default/q HTTP/1.1\r\nHost: x\r\nX-A: ", ""},
		"half a body": {
			"PUT /api/default/q HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx",
			`{"error":"failed to read body"}`,
		},
		"half a chunk": {
			"PUT /api/default/q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx",
			`{"error":"failed to read body"}`,
		},
		"unread answer": {
			"GET /api/default/q/size HTTP/1.1\r\nHost: x\r\n\r\nGET /api",
			"{\"namespace\":\"default\",\"queue\":\"q\",\"size\":0}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lmstfy.Options{ReadTimeout: 20 * time.Second, IdleTimeout: 20 * time.Second},
				func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
					t.Helper()
					slow := dial(t, l)
					early, ended := sent(t, slow, test.request)
					if ended {
						t.Fatalf("closed at once, answer %q", early)
					}
					testkit.Advance(t, 19*time.Second)
					if _, err := client(t, l).Publish("other", "", nil); err != nil {
						t.Errorf("another client: %v", err)
					}
					if data, ended := slow.TryRead(); len(data) > 0 || ended {
						t.Errorf("cut off too early: %q, %v", data, ended)
					}
					testkit.Advance(t, 2*time.Second)
					data, ended := slow.TryRead()
					if !ended || !strings.Contains(early+string(data), test.answer) {
						t.Errorf("closed %v, answer %q", ended, early+string(data))
					}
				})
		})
	}
}

// TestLateAnswer sends a body that takes longer to come than the answer may take to go, which does not cut the answer
// off.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{Options: dialect.Options{WriteTimeout: 5 * time.Second}, ReadTimeout: time.Minute},
		func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
			t.Helper()
			conn := dial(t, l)
			if got, ended := sent(t, conn, "PUT /api/default/q HTTP/1.1\r\nHost: x\r\nContent-Length: "+
				"1\r\n\r\n"); got != "" || ended {
				t.Fatalf("answered %q, closed %v", got, ended)
			}
			testkit.Advance(t, 30*time.Second)
			if got, ended := sent(t, conn, "x"); !strings.Contains(got, " 201 ") || ended {
				t.Errorf("answered %q, closed %v", got, ended)
			}
		})
}

// TestConnectionLimit refuses the connection that is one too many, and takes the next when
// one has gone.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{Options: dialect.Options{MaxConns: 2}},
		func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
			t.Helper()
			first, second, third := dial(t, l), dial(t, l), dial(t, l)
			synctest.Wait()
			if _, ended := third.TryRead(); !ended {
				t.Error("the third connection is open")
			}
			if _, ended := second.TryRead(); ended {
				t.Error("the second connection is closed")
			}
			_ = first.Close() // it cannot fail
			synctest.Wait()
			if _, err := client(t, l).Publish("q", "", nil); err != nil {
				t.Errorf("after one has gone: %v", err)
			}
		})
}

// TestManyLongPolls has ten thousand consumers wait at once: each job wakes one, and the end of
// the server answers all others.
func TestManyLongPolls(t *testing.T) {
	t.Parallel()
	const consumers = 10000
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		l := s.Serve(lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine, MaxConns: consumers + 1}}),
			4<<10)
		conns := make([]*testkit.Conn, consumers)
		for i := range conns {
			conns[i] = dial(t, l)
			_, err := conns[i].Write(wire.Request(http.MethodGet, "/api/default/q?timeout=100000", nil))
			must(t, err)
			if i < 3 || i%100 == 99 {
				synctest.Wait() // the first come in this order, and not more than the listener queues
			}
		}
		testkit.Advance(t, time.Hour)
		if n := s.Engine.Stats().Waiters; n != consumers {
			t.Errorf("%d wait", n)
		}
		c := client(t, l)
		for i := range 3 {
			_, err := c.Publish("q", "", nil)
			must(t, err)
			synctest.Wait()
			if data, _ := conns[i].TryRead(); !bytes.HasPrefix(data, []byte("HTTP/1.1 200 ")) {
				t.Fatalf("consumer %d was answered %q", i, data)
			}
		}
		for _, conn := range conns[3:13] {
			_ = conn.Close() // it cannot fail
		}
		synctest.Wait()
		if n := s.Engine.Stats().Waiters; n != consumers-13 {
			t.Errorf("%d wait after some have gone", n)
		}
		begun := time.Now()
		s.Stop(t)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		for i, conn := range conns[13:] {
			data, ended := conn.TryRead()
			if !ended || !bytes.HasSuffix(data, []byte(`{"msg":"no job available"}`)) {
				t.Fatalf("consumer %d: closed %v, answer %q", i+13, ended, data)
			}
		}
	})
}
