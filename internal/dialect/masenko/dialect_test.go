package masenko_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/masenko/masenkotest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// inBubble runs f with a server in a bubble.
func inBubble(t *testing.T, o masenko.Options,
	f func(t *testing.T, s *dialecttest.Server, d *masenko.Dialect, l *testkit.Listener),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		o.Engine = s.Engine
		d := masenko.New(o)
		f(t, s, d, s.Serve(d, 1<<20))
	})
}

func dial(t *testing.T, l *testkit.Listener) *testkit.Conn {
	t.Helper()
	c, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOneWritePerUnit counts the writes for pipelined requests: clients read a
// reply with a single receive.
func TestOneWritePerUnit(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{}, func(t *testing.T, s *dialecttest.Server, _ *masenko.Dialect, l *testkit.Listener) {
		t.Helper()
		c := dial(t, l)
		before := s.Engine.Stats()
		if _, err := io.WriteString(c, strings.Repeat("PUSH {\"name\":\"n\"}\n", 100)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		data, _ := c.TryRead()
		if n := strings.Count(string(data), "\n"); n != 100 {
			t.Fatalf("%d replies", n)
		}
		// The first read takes what fits the connection's own buffer.
		if writes, _ := c.Received(); writes > 3 {
			t.Errorf("%d writes for 100 pipelined requests", writes)
		}
		if n := s.Engine.Stats().Commits - before.Commits; n > 3 {
			t.Errorf("%d commits for 100 pipelined requests", n)
		}
	})
}

// TestLargeCommands pushes and fetches what the protocol promises at least.
func TestLargeCommands(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{}, func(t *testing.T, _ *dialecttest.Server, _ *masenko.Dialect, l *testkit.Listener) {
		t.Helper()
		c := masenkotest.New(dial(t, l))
		payload := `"` + strings.Repeat("p", 2<<20) + `"`
		if _, err := c.Push(masenkotest.Task{Name: "large", Payload: []byte(payload)}); err != nil {
			t.Fatalf("push: %v", err)
		}
		got, err := c.Fetch(time.Second, "default")
		if err != nil || string(got.Payload) != payload {
			t.Fatalf("fetched %d bytes, %v", len(got.Payload), err)
		}
		if err := c.Ack(got.ID); err != nil {
			t.Fatal(err)
		}
		// A transaction of 16 MiB, and one of 65535 requests.
		tasks := make([]masenkotest.Task, 16)
		for i := range tasks {
			tasks[i] = masenkotest.Task{
				Name: "part", Queue: "parts",
				Payload: []byte(`"` + strings.Repeat("q", 1<<20) + `"`),
			}
		}
		if ids, err := c.Atomic(tasks, nil); err != nil || len(ids) != len(tasks) {
			t.Fatalf("%d ids, %v", len(ids), err)
		}
		many := "ATOMIC\n" + strings.Repeat("PUSH {\"name\":\"n\",\"queue\":\"many\"}\n", 65535) + "DONE"
		if _, object, err := c.Call(many); err != nil || strings.Count(object, ",") != 65534 {
			t.Fatalf("65535 requests: %v", err)
		}
		over := "ATOMIC\n" + strings.Repeat("PUSH {\"name\":\"n\",\"queue\":\"over\"}\n", 65536) + "DONE"
		if _, _, err := c.Call(over); err == nil || err.Error() != "transaction too big" {
			t.Fatalf("65536 requests: %v", err)
		}
	})
}

// TestForeignJobs shows and settles jobs that have no 32-bit number of their own.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{}, func(t *testing.T, s *dialecttest.Server, _ *masenko.Dialect, l *testkit.Listener) {
		t.Helper()
		caller := s.Engine.NewCaller()
		push := func(spec job.Spec) {
			t.Helper()
			spec.Namespace, spec.Queue = "default", "q"
			if res := caller.Do(t.Context(), &job.Push{Spec: spec}); res[0].Err != nil {
				t.Fatal(res[0].Err)
			}
		}
		push(job.Spec{Type: "args", Body: []byte(`[1,2]`), BodyKind: job.BodyArgs})
		push(job.Spec{Body: []byte("\x00raw"), BodyKind: job.BodyBytes})
		c := masenkotest.New(dial(t, l))
		for _, want := range []struct{ name, payload string }{{"args", `[1,2]`}, {"job", `"AHJhdw=="`}} {
			got, err := c.Fetch(time.Second, "q")
			if err != nil || got.Name != want.name || string(got.Payload) != want.payload {
				t.Fatalf("fetched %+v, %v", got, err)
			}
			if _, err := c.Atomic(nil, []uint32{got.ID + 1000}); err == nil {
				t.Error("acked a task that does not exist")
			}
			if got.Name == "args" {
				err = c.Ack(got.ID)
			} else {
				_, err = c.Atomic(nil, []uint32{got.ID})
			}
			if err != nil {
				t.Errorf("ack: %v", err)
			}
			if err := c.Ack(got.ID); err == nil || err.Error() != "task not acquired" {
				t.Errorf("second ack: %v", err)
			}
		}
		if q := s.Queue(t, "default", "q"); q.Total() != 0 || q.Totals[job.CountAcked] != 2 {
			t.Errorf("counts %v, totals %v", q.Counts, q.Totals)
		}
	})
}

// TestNamespaces keeps listeners of different namespaces apart.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{Options: dialect.Options{Namespace: "one"}},
		func(t *testing.T, s *dialecttest.Server, _ *masenko.Dialect, l *testkit.Listener) {
			t.Helper()
			other := s.Serve(masenko.New(masenko.Options{Options: dialect.Options{Engine: s.Engine, Namespace: "two"}}),
				0)
			a, b := masenkotest.New(dial(t, l)), masenkotest.New(dial(t, other))
			if _, err := a.Push(masenkotest.Task{Name: "n"}); err != nil {
				t.Fatal(err)
			}
			if info, err := b.Info(); err != nil || len(info.Queues) != 0 {
				t.Errorf("the other namespace has %+v, %v", info.Queues, err)
			}
			if info, err := a.Info(); err != nil || len(info.Queues) != 1 || info.Queues[0].Ready != 1 {
				t.Errorf("queues %+v, %v", info.Queues, err)
			}
			if err := a.Ping(); err != nil {
				t.Error(err)
			}
			if err := a.Quit(); err != nil {
				t.Error(err)
			}
		})
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{}, func(t *testing.T, _ *dialecttest.Server, d *masenko.Dialect, l *testkit.Listener) {
		t.Helper()
		c := masenkotest.New(dial(t, l))
		retry := uint8(3)
		for range 3 {
			if _, err := c.Push(masenkotest.Task{Name: "n", Queue: "mail", Retry: &retry}); err != nil {
				t.Fatal(err)
			}
		}
		var ids []uint32
		for range 2 {
			task, err := c.Fetch(time.Second, "mail")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.ID)
		}
		if err := c.Nack(ids[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Fetch(time.Millisecond, "none"); err == nil {
			t.Fatal("fetched from nowhere")
		}
		if _, err := c.Atomic([]masenkotest.Task{{Name: "x", Queue: "mail"}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Ack(12345); err == nil {
			t.Fatal("acked nothing")
		}
		if err := c.Ping(); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		d.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/any/path", nil))
		page := w.Body.String()
		for _, line := range []string{
			`masenko_clients_total 1`,
			`masenko_requests_total{verb="PUSH"} 4`,
			`masenko_requests_total{verb="FETCH"} 3`,
			`masenko_requests_total{verb="ACK"} 0`,
			`masenko_requests_total{verb="NACK"} 1`,
			`masenko_requests_total{verb="ATOMIC"} 1`,
			`masenko_requests_total{verb="PING"} 1`,
			`masenko_responses_total{verb="OK"} 7`,
			`masenko_responses_total{verb="ERR"} 1`,
			`masenko_responses_total{verb="PONG"} 1`,
			`masenko_responses_total{verb="EMPTY"} 1`,
			`masenko_tasks_total{kind="ready",queue="mail"} 2`,
			`masenko_tasks_total{kind="delayed",queue="mail"} 1`,
			`masenko_tasks_total{kind="toack",queue="mail"} 1`,
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("no line %q", line)
			}
		}
		if t.Failed() {
			t.Log(page)
		}
	})
}

// TestWaitingConnectionsAreCheap has clients wait over real sockets and looks at
// the memory that each costs, their own ends of the connections included. It
// measures the whole process and so does not run beside other tests.
func TestWaitingConnectionsAreCheap(t *testing.T) {
	const clients = 1000
	s := dialecttest.Start(t)
	defer s.Stop(t)
	d := masenko.New(masenko.Options{Options: dialect.Options{Engine: s.Engine, Logger: slog.New(slog.DiscardHandler)}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.ServeOn(d, l)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
		// A large command first: its buffer must not stay.
		line := "PING " + strings.Repeat("x", 5000) + "\nFETCH {\"queues\":[\"empty\"],\"timeout\":\"45s\"}\n"
		if _, err := io.WriteString(c, line); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	for s.Engine.Stats().Waiters < clients {
		runtime.Gosched()
	}
	after := used()
	per := (int64(after) - int64(before)) / clients
	t.Logf("%d bytes per waiting connection", per)
	if per > 20<<10 {
		t.Errorf("%d bytes per waiting connection", per)
	}
}

// TestSlowTransaction sends a long transaction line by line: it keeps the heartbeat, and ends all the same.
func TestSlowTransaction(t *testing.T) {
	t.Parallel()
	inBubble(t, masenko.Options{}, func(t *testing.T, _ *dialecttest.Server, d *masenko.Dialect, l *testkit.Listener) {
		t.Helper()
		c := dial(t, l)
		if _, err := io.WriteString(c, "ATOMIC\n"); err != nil {
			t.Fatal(err)
		}
		line := `PUSH {"name":"n","payload":"` + strings.Repeat("x", 20<<10) + "\"}\n"
		for range 4 {
			if _, err := io.WriteString(c, line); err != nil {
				break // it has been closed
			}
			testkit.Advance(t, dialect.DefaultPatience/2)
		}
		if n := d.Stats(); n.Slow != 1 || n.Open != 0 {
			t.Errorf("%+v, want one that was too slow", n)
		}
	})
}
