package lmstfy_test

import (
	"context"
	"errors"
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
	"millrace/internal/dialect/lmstfy/lmstfytest"
	"millrace/internal/job"
	"millrace/internal/testkit"
	"millrace/internal/wire"
)

// TestCommonCases runs what every protocol must pass.
func TestCommonCases(t *testing.T) {
	t.Parallel()
	dialecttest.Run(t, dialecttest.Lmstfy())
}

// inBubble runs f with a server in a bubble.
func inBubble(t *testing.T, o lmstfy.Options, f func(t *testing.T, s *dialecttest.Server, l *testkit.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		o.Engine = s.Engine
		f(t, s, s.Serve(lmstfy.New(o), 4<<20))
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

func client(t *testing.T, l *testkit.Listener) *lmstfytest.Client {
	t.Helper()
	return lmstfytest.New(dial(t, l), "default", "")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sent writes a text and returns what has come back when all is quiet, and whether the
// server has closed.
func sent(t *testing.T, c *testkit.Conn, text string) (string, bool) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	data, ended := c.TryRead()
	return string(data), ended
}

// TestForeignJobs shows and settles jobs that came through other doors.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		caller := s.Engine.NewCaller()
		push := func(spec job.Spec) job.ID {
			t.Helper()
			spec.Namespace, spec.Origin = "default", dialect.DoorAdmin
			res := caller.Do(t.Context(), &job.Push{Spec: spec})
			if res[0].Err != nil {
				t.Fatal(res[0].Err)
			}
			return res[0].ID
		}
		c := client(t, l)
		shown := func(id job.ID) string { return dialect.ULIDOf(id).String() }

		args := push(job.Spec{
			Queue: "q", Body: []byte(`[1]`), BodyKind: job.BodyArgs,
			Extra: []byte("{"), TTL: time.Hour,
		})
		keyed := push(job.Spec{
			Queue: "q", Key: "my key", BodyKind: job.BodyNone,
			Policy: job.Policy{MaxAttempts: 100000},
		})
		j, err := c.PeekJob("q", shown(args))
		if err != nil || j.ID != shown(args) || j.TTL != 3600 || j.RemainTries != 65535 || j.Attributes != nil {
			t.Errorf("peeked %+v, %v", j, err)
		}
		if j, err = c.PeekJob("q", "my key"); err != nil || j.ID != shown(keyed) || j.Data != "" || j.TTL != 0 ||
			j.RemainTries != 65535 {
			t.Errorf("peeked %+v, %v", j, err)
		}
		if _, err := c.PeekJob("other", shown(args)); err == nil {
			t.Error("a job is found in another queue")
		}
		if j, err = c.Consume("q", time.Second, 0); err != nil || j.ID != shown(args) || j.Data != "WzFd" {
			t.Errorf("consumed %+v, %v", j, err)
		}
		must(t, c.Delete("q", shown(args)))
		must(t, c.Delete("q", "my key"))
		if q := s.Queue(t, "default", "q"); q.Total() != 0 || q.Totals[job.CountAcked] != 2 {
			t.Errorf("counts %v, totals %v", q.Counts, q.Totals)
		}

		// A job that is kept with its result is done once it is deleted here, and gone from here.
		kept := push(job.Spec{Queue: "kept", Policy: job.Policy{Keep: true}})
		must(t, c.Delete("kept", shown(kept)))
		must(t, c.Delete("kept", shown(kept)))
		if q := s.Queue(t, "default", "kept"); q.Counts[job.Done] != 1 {
			t.Errorf("counts %v", q.Counts)
		}
		if _, err := c.PeekJob("kept", shown(kept)); err == nil {
			t.Error("a job that is done is shown")
		}
		if _, err := c.Publish("kept/job/"+shown(kept), "", nil); err != nil {
			t.Errorf("republish: %v", err)
		}

		// What another connection holds for itself alone stays with it.
		push(job.Spec{Queue: "held"})
		res := caller.Do(t.Context(), &job.Fetch{
			Namespace: "default", Queues: []string{"held"}, Max: 1, Holder: s.Engine.NewHolder(), Exclusive: true,
			OnEnd: job.EndRelease,
		})
		must(t, c.Delete("held", shown(res[0].Jobs[0].ID)))
		if _, err := c.Publish("held/job/"+shown(res[0].Jobs[0].ID), "", nil); err != nil {
			t.Errorf("republish: %v", err)
		}
		if q := s.Queue(t, "default", "held"); q.Counts[job.Leased] != 1 || q.Counts[job.Ready] != 1 {
			t.Errorf("counts %v", q.Counts)
		}
	})
}

// TestFailing lets another protocol fail a job from here: it is ready again while tries
// are left, and dead after the last.
func TestFailing(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := client(t, l)
		id, err := c.Publish("q", "tries=2", []byte("x"))
		must(t, err)
		caller := s.Engine.NewCaller()
		for range 2 {
			if _, err := c.Consume("q", time.Minute, 0); err != nil {
				t.Fatalf("consume: %v", err)
			}
			if res := caller.Do(t.Context(), &job.Fail{
				Ref:  job.ByKey("default", id),
				Need: job.NeedLeased,
			}); res[0].Err != nil {
				t.Fatalf("fail: %v", res[0].Err)
			}
		}
		if size, head, err := c.DeadLetter("q"); err != nil || size != 1 || head != id {
			t.Errorf("dead letter %d, %s, %v", size, head, err)
		}
	})
}

// TestStopping closes connections that have not asked anything, and refuses what comes late.
func TestStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		l := s.Serve(lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine}}), 0)
		unused, idle := dial(t, l), client(t, l)
		_, err := idle.Size("q")
		must(t, err)
		begun := time.Now()
		s.Stop(t)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if _, ended := unused.TryRead(); !ended {
			t.Error("a connection is still open")
		}
		if _, err := idle.Size("q"); err == nil {
			t.Error("an idle connection is still served")
		}
	})
}

// TestEngineStopped answers 503 where a job cannot be promised, and 404 to consumers.
func TestEngineStopped(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := client(t, l)
		_, err := c.Publish("q", "", nil)
		must(t, err)
		must(t, s.Engine.Close())
		for _, call := range []struct {
			method, path string
			code         int
		}{
			{http.MethodPut, "q", 503},
			{http.MethodPut, "q/bulk", 400},
			{http.MethodPut, "q/job/x", 503},
			{http.MethodGet, "q", 404},
			{http.MethodGet, "q/peek", 503},
			{http.MethodGet, "q/size", 503},
			{http.MethodGet, "q/job/x", 503},
			{http.MethodGet, "q/deadletter", 503},
			{http.MethodDelete, "q/job/x", 503},
			{http.MethodDelete, "q", 503},
			{http.MethodPut, "q/deadletter", 503},
			{http.MethodDelete, "q/deadletter", 503},
			{http.MethodDelete, "q/deadletter?limit=100000", 503},
		} {
			if code, body, err := c.Do(call.method, "/api/default/"+call.path, nil); err != nil || code != call.code {
				t.Errorf("%s %s: %d %s, %v, want %d", call.method, call.path, code, body, err, call.code)
			}
		}
	})
}

// TestBulkIsAtomic publishes more than a queue has room for: nothing at all.
func TestBulkIsAtomic(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := client(t, l)
		res := s.Engine.NewCaller().Do(t.Context(),
			&job.Configure{Namespace: "default", Queue: "q", Settings: job.Settings{Capacity: 2}})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		_, err := c.PublishBulk("q", "1", "2", "3")
		if want := `503 Service Unavailable: {"error":"the queue is full"}`; err == nil || err.Error() != want {
			t.Errorf("bulk: %v", err)
		}
		if n, err := c.Size("q"); err != nil || n != 0 {
			t.Errorf("%d jobs, %v", n, err)
		}
		ids, err := c.PublishBulk("q", "1", "2")
		if err != nil || len(ids) != 2 {
			t.Errorf("bulk: %v, %v", ids, err)
		}
		// A republish needs the room of the job that goes.
		if _, err := c.Publish("q/job/"+ids[0], "", nil); err != nil {
			t.Errorf("republish: %v", err)
		}
		if _, err := c.Publish("q/job/unknown", "", nil); err == nil {
			t.Error("republish into a full queue")
		}
	})
}

// TestDeadInPieces respawns and deletes more dead jobs than one command moves.
func TestDeadInPieces(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := client(t, l)
		elements := make([]string, 64)
		for i := range elements {
			elements[i] = fmt.Sprint(i)
		}
		const jobs = 64 * 40
		for range 40 {
			_, err := c.PublishBulk("q", elements...)
			must(t, err)
		}
		kill := func() {
			t.Helper()
			for {
				if _, err := c.ConsumeMany("q", 100); err != nil {
					synctest.Wait() // commands end only some of the leases themselves
					return
				}
			}
		}
		kill()
		if n, err := c.Respawn("q", "limit=1000000"); err != nil || n != jobs {
			t.Errorf("respawned %d, %v", n, err)
		}
		if n, err := c.Size("q"); err != nil || n != jobs {
			t.Errorf("%d ready, %v", n, err)
		}
		kill()
		must(t, c.Call(http.MethodDelete, "q/deadletter?limit=2500", nil, http.StatusNoContent, nil))
		if size, _, err := c.DeadLetter("q"); err != nil || size != jobs-2500 {
			t.Errorf("%d dead, %v", size, err)
		}
	})
}

// TestPipelining answers what comes together in its order, one write each.
func TestPipelining(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		conn := dial(t, l)
		var all []byte
		for range 10 {
			all = append(all, wire.Request(http.MethodPut, "/api/default/q", []byte("x"))...)
			all = append(all, wire.Request(http.MethodGet, "/api/default/q?timeout=1", nil)...)
		}
		got, _ := sent(t, conn, string(all))
		if n, m := strings.Count(got, "HTTP/1.1 201 "), strings.Count(got, "HTTP/1.1 200 "); n != 10 || m != 10 {
			t.Errorf("%d published, %d consumed: %q", n, m, got)
		}
		if writes, _ := conn.Received(); writes != 20 {
			t.Errorf("%d writes", writes)
		}
	})
}

// TestTooManyQueues bounds what one consumer may ask for.
func TestTooManyQueues(t *testing.T) {
	t.Parallel()
	inBubble(t, lmstfy.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := client(t, l)
		if _, err := c.Consume(strings.Repeat("q,", 1024), 0, 0); !errors.Is(err, lmstfytest.ErrEmpty) {
			t.Errorf("1024 queues: %v", err)
		}
		if _, err := c.Consume(strings.Repeat("q,", 1025), 0, 0); err == nil || errors.Is(err, lmstfytest.ErrEmpty) {
			t.Errorf("1025 queues: %v", err)
		}
	})
}

// TestServeFails ends when its listener does.
func TestServeFails(t *testing.T) {
	t.Parallel()
	s := dialecttest.Start(t)
	defer s.Stop(t)
	l := testkit.Listen(0)
	must(t, l.Close())
	if err := lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine}}).Serve(context.Background(),
		l); err == nil {
		t.Error("no error")
	}
}
