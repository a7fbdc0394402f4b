package tarantool_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// site is a server in a bubble.
type site struct {
	*dialecttest.Server
	t *testing.T
	l *testkit.Listener
}

// inBubble runs f with a server that has the tube "t".
func inBubble(t *testing.T, o tarantool.Options, f func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{Server: dialecttest.Start(t), t: t}
		defer func() { s.Stop(t) }()
		o.Engine = s.Engine
		s.l = s.Serve(tarantool.New(o), 1<<20)
		s.client().want("queue.create_tube", `"t", "fifottl"`, `[]`)
		f(s)
	})
}

// again restarts the server.
func (s *site) again(o tarantool.Options) {
	s.t.Helper()
	s.Restart(s.t)
	o.Engine = s.Engine
	s.l = s.Serve(tarantool.New(o), 1<<20)
}

// kept returns how many sessions would outlive a restart.
func (s *site) kept() int {
	s.t.Helper()
	view, err := s.Engine.View()
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close() //nolint:errcheck // in memory
	all, err := view.KeptHolders()
	if err != nil {
		s.t.Fatal(err)
	}
	return len(all)
}

// visitor is a client that fails the test by itself.
type visitor struct {
	*tarantooltest.Client
	s    *site
	conn net.Conn
}

func (s *site) client() *visitor {
	s.t.Helper()
	conn, err := s.l.Dial()
	if err != nil {
		s.t.Fatalf("dial: %v", err)
	}
	c, err := tarantooltest.New(conn)
	if err != nil {
		s.t.Fatalf("greeting: %v", err)
	}
	return &visitor{c, s, conn}
}

// want calls a procedure that must return what is given, or fail with that error.
func (v *visitor) want(procedure, args, want string) {
	v.s.t.Helper()
	got, err := v.Call(procedure, args)
	if refused, ok := errors.AsType[*tarantooltest.Error](err); ok {
		got, err = refused.Error(), nil
	}
	if err != nil || got != want {
		v.s.t.Fatalf("%s(%s): %s, %v, want %s", procedure, args, got, err, want)
	}
}

// leave closes the connection.
func (v *visitor) leave() {
	v.s.t.Helper()
	if err := v.Close(); err != nil {
		v.s.t.Fatalf("close: %v", err)
	}
	synctest.Wait()
}

// identify returns the id of the session in notation.
func (v *visitor) identify(args string) string {
	v.s.t.Helper()
	data, err := v.Call("queue.identify", args)
	if err != nil {
		v.s.t.Fatalf("identify: %v", err)
	}
	id := data[1 : len(data)-1]
	if text, err := strconv.Unquote(id); err != nil || len(text) != 16 {
		v.s.t.Fatalf("identify: %s is no string of 16 bytes", data)
	}
	return id
}

func TestSessionIsSharedByItsConnections(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		a, b, c := s.client(), s.client(), s.client()
		id := a.identify("")
		if again := a.identify(""); again != id {
			t.Errorf("the session is %s, then %s", id, again)
		}
		if joined := b.identify(id); joined != id {
			t.Errorf("joined %s, not %s", joined, id)
		}
		if other := c.identify(""); other == id {
			t.Error("two connections have one session without asking for it")
		}
		if again := a.identify(id); again != id {
			t.Errorf("joining one's own session: %s", again)
		}
		a.want("queue.tube.t:put", `"x"`, `[[0, "r", "x"]]`)
		a.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)
		c.want("queue.tube.t:ack", `0`, `32: Task was not taken`)
		b.want("queue.tube.t:release", `0`, `[[0, "r", "x"]]`)
		b.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)

		// As long as one of them is there the task is taken.
		b.leave()
		c.want("queue.tube.t:peek", `0`, `[[0, "t", "x"]]`)
		a.want("queue.tube.t:touch", `0, 1`, `[[0, "t", "x"]]`)
		a.leave()
		c.want("queue.tube.t:peek", `0`, `[[0, "r", "x"]]`)

		// Without a grace nobody can come back to it.
		text, err := c.Call("queue.identify", id)
		if refused, ok := errors.AsType[*tarantooltest.Error](err); !ok || refused.Code != 32 {
			t.Errorf("joining a session that is over: %s, %v", text, err)
		}
	})
}

func TestSessionIDMayBeBinary(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		a, b := s.client(), s.client()
		id := a.identify("")
		if joined := b.identify("bin" + id); joined != id {
			t.Errorf("joined %s, not %s", joined, id)
		}
	})
}

func TestSessionOutlivesItsConnectionsForItsGrace(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		watcher := s.client()
		watcher.want("queue.cfg", `{"ttr": 5}`, `[]`)
		a := s.client()
		id := a.identify("")
		a.want("queue.tube.t:put", `"x"`, `[[0, "r", "x"]]`)
		a.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)
		a.leave()
		testkit.Advance(t, 4999*time.Millisecond)
		watcher.want("queue.tube.t:peek", `0`, `[[0, "t", "x"]]`)

		// Back in time: the grace begins again when it is left again.
		b := s.client()
		b.identify(id)
		testkit.Advance(t, time.Hour)
		b.want("queue.tube.t:touch", `0, 1`, `[[0, "t", "x"]]`)
		// Another session ends, and another connection joins this one and leaves it.
		other := s.client()
		other.identify("")
		other.leave()
		second := s.client()
		second.identify(id)
		second.leave()
		testkit.Advance(t, time.Hour)
		watcher.want("queue.tube.t:peek", `0`, `[[0, "t", "x"]]`)
		b.leave()
		testkit.Advance(t, 4999*time.Millisecond)
		c := s.client()
		c.identify(id)
		c.want("queue.tube.t:release", `0`, `[[0, "r", "x"]]`)
		c.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)
		c.leave()

		// Too late.
		testkit.Advance(t, 5*time.Second)
		watcher.want("queue.tube.t:peek", `0`, `[[0, "r", "x"]]`)
		d := s.client()
		if text, err := d.Call("queue.identify", id); err == nil {
			t.Errorf("a session that is over was joined: %s", text)
		}
	})
}

// A session that holds nothing can be joined within its grace as well.
func TestEmptySessionHasItsGrace(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{SessionTTR: time.Second}, func(s *site) {
		a := s.client()
		id := a.identify("")
		a.leave()
		testkit.Advance(t, 999*time.Millisecond)
		b := s.client()
		if joined := b.identify(id); joined != id {
			t.Errorf("joined %s, not %s", joined, id)
		}
		// Several that end one after the other.
		c, d := s.client(), s.client()
		c.identify("")
		other := d.identify("")
		c.leave()
		testkit.Advance(t, 500*time.Millisecond)
		d.leave()
		testkit.Advance(t, 500*time.Millisecond)
		b.leave()
		if joined := s.client().identify(other); joined != other {
			t.Errorf("joined %s, not %s", joined, other)
		}
	})
}

// Joining another session is as leaving the old one.
func TestJoiningLeavesTheOldSession(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		a, b := s.client(), s.client()
		other := b.identify("")
		a.want("queue.tube.t:put", `"x"`, `[[0, "r", "x"]]`)
		a.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)
		// A take that waits for the old session would get what could not be acknowledged.
		waiting, err := a.Queue(tarantooltest.TypeCall, "queue.tube.t:take", nil)
		if err != nil || a.Send() != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		joining, err := a.Queue(tarantooltest.TypeCall, "queue.identify", tarantooltest.MustEncode(other))
		if err != nil || a.Send() != nil {
			t.Fatal(err)
		}
		for range 2 {
			p, err := a.Receive()
			if err != nil || p.Err() != nil {
				t.Fatal(err, p.Err())
			}
			if text, _ := tarantooltest.Format(p.Data()); p.Sync == waiting && text != "[]" || p.Sync == joining &&
				text != "["+other+"]" {
				t.Errorf("#%d: %s", p.Sync, text)
			}
		}
		b.want("queue.tube.t:take", `0`, `[[0, "t", "x"]]`)
		a.want("queue.tube.t:ack", `0`, `[[0, "-", "x"]]`)

		// What is no session leaves everything as it is.
		a.want("queue.identify", `"0123456789abcdef"`, `32: The UUID 30313233-3435-3637-3839-616263646566 is unknown.`)
		if id := a.identify(""); id != other {
			t.Errorf("the session is %s, not %s", id, other)
		}
	})
}

// One number tells the connection and, in the legacy calls, who has taken a task.
func TestSessionNumber(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		numbers := make(map[string]bool)
		for range 3 {
			data, err := s.client().CallRaw("box.session.id", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := msgp.ReadArrayHeaderBytes(data)
			if n, _, err := msgp.ReadUint64Bytes(rest); err != nil || n == 0 || n > 1<<32-1 {
				t.Errorf("session number %d, %v", n, err)
			}
			numbers[string(data)] = true
		}
		if len(numbers) != 3 {
			t.Errorf("%d numbers for 3 connections", len(numbers))
		}
	})
}

// A session with a grace outlives a restart: a client that comes back in time has its tasks, for others they are ready
// after the grace, once.
func TestSessionOutlivesARestart(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		a, b := s.client(), s.client()
		a.want("queue.cfg", `{"ttr": 5}`, `[]`)
		id, lost := a.identify(""), b.identify("")
		for i, text := range []string{`"x"`, `"y"`, `"z"`} {
			a.want("queue.tube.t:put", text, fmt.Sprintf(`[[%d, "r", %s]]`, i, text))
		}
		a.want("queue.tube.t:take", ``, `[[0, "t", "x"]]`)
		b.want("queue.tube.t:take", ``, `[[1, "t", "y"]]`)
		a.want("queue.tube.t:take", ``, `[[2, "t", "z"]]`)
		for range 2 { // each restart begins the grace again
			s.again(tarantool.Options{})
			testkit.Advance(t, 4*time.Second)
		}
		a, watcher := s.client(), s.client()
		watcher.want("queue.tube.t:take", `0`, `[]`)
		if back := a.identify(id); back != id {
			t.Errorf("back in session %s, not %s", back, id)
		}
		a.want("queue.tube.t:ack", `0`, `[[0, "-", "x"]]`)
		testkit.Advance(t, time.Hour)
		a.want("queue.tube.t:release", `2`, `[[2, "r", "z"]]`)
		a.want("queue.tube.t:take", ``, `[[1, "t", "y"]]`)
		watcher.want("queue.tube.t:take", ``, `[[2, "t", "z"]]`)
		if text, err := watcher.Call("queue.identify", lost); err == nil {
			t.Errorf("a session that is over was joined: %s", text)
		}

		// It is a session as any other from now on.
		a.leave()
		testkit.Advance(t, 5*time.Second)
		watcher.want("queue.tube.t:peek", `1`, `[[1, "r", "y"]]`)
		if kept := s.kept(); kept != 1 { // that of the watcher
			t.Errorf("%d sessions are kept", kept)
		}
		watcher.want("queue.cfg", `{"ttr": 0}`, `[]`)
		watcher.want("queue.tube.t:take", ``, `[[1, "t", "y"]]`)
		if kept := s.kept(); kept != 0 {
			t.Errorf("%d sessions are kept without a grace", kept)
		}
	})
}

// full is a store whose disk is full.
type full struct{ *memstore.Store }

func (full) FreeBytes() (uint64, error) { return 0, nil }

// A grace that cannot be stored is refused and does not count: the next start would not know it.
func TestGraceIsNotSetOnAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Store: full{memstore.New()}, FreeFloor: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := &site{Server: &dialecttest.Server{Engine: e}, t: t, l: testkit.Listen(1 << 20)}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- tarantool.New(tarantool.Options{Options: dialect.Options{Engine: e}}).Serve(ctx, s.l) }()
		c := s.client()
		if text, err := c.Call("queue.cfg", `{"ttr": 5}`); err == nil {
			t.Errorf("the grace was set: %s", text)
		}
		c.identify("")
		if kept := s.kept(); kept != 0 {
			t.Errorf("%d sessions are kept", kept)
		}
		stop()
		if err := errors.Join(<-ended, e.Close()); err != nil {
			t.Error(err)
		}
	})
}
