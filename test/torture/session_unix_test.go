//go:build unix

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

// How long tasks stay taken: shortGrace, and on a machine so busy that a client does not come back within it twice as
// long, up to longGrace.
const (
	shortGrace = 5 * time.Second
	longGrace  = time.Minute
)

// keeper is a client of a queue session that has taken the only task of a tube.
type keeper struct {
	t    *testing.T
	tube string
	id   []byte // of the session, once it is known
	conn *client
}

// identify makes the connection one of the session, or the first of one.
func (k *keeper) identify(c *wire.Tarantool) error {
	var args [][]byte
	if k.id != nil {
		args = append(args, msgp.AppendStringFromBytes(nil, k.id))
	}
	returned, err := c.Call(time.Minute, "queue.identify", args...)
	if err != nil {
		return err
	}
	_, b, err := msgp.ReadArrayHeaderBytes(returned)
	if err != nil {
		return err
	}
	id, _, err := msgp.ReadStringBytes(b)
	k.id = []byte(id)
	return err
}

// state returns the state of the task, empty if it is gone.
func (k *keeper) state(c *wire.Tarantool) (string, error) {
	returned, err := c.Call(time.Minute, "queue.tube."+k.tube+":peek", msgp.AppendUint64(nil, 0))
	if errors.Is(err, wire.RefusedError("Task 0 not found")) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, state, _, err := wire.ParseTask(returned)
	return state, err
}

// take takes the task, and keeps the connection.
func (k *keeper) take(s *harness.Server) {
	k.t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		c, err := dial(tarantool, s.Addrs["tarantool"])
		if err == nil {
			if err = k.tryTake(c.Client.(*wire.Tarantool)); err == nil {
				k.conn = c
				k.t.Cleanup(func() { _ = c.Close() }) // the server has closed it
				return
			}
			_ = c.Close()
		}
		if time.Now().After(until) {
			k.t.Fatal(err)
		}
	}
}

// tryTake takes the task. The answer to an earlier try may have been lost, so it is the state that counts.
func (k *keeper) tryTake(c *wire.Tarantool) error {
	if err := k.identify(c); err != nil {
		return err
	}
	if _, err := c.Call(time.Minute, "queue.tube."+k.tube+":take", msgp.AppendUint64(nil, 0)); err != nil {
		return err
	}
	switch state, err := k.state(c); {
	case err != nil:
		return err
	case state != "t":
		return fmt.Errorf("the task is %q", state)
	}
	return nil
}

// testSessions has two sessions with a grace take a task each. Something happens to the server, after which it is
// reached at another place. One session comes back and acknowledges its task. The other does not, and its task is ready
// after the grace, once. It returns false if the one came back too late, which proves nothing.
func testSessions(t *testing.T, name string, grace time.Duration, at *harness.Server,
	strike func() *harness.Server,
) bool {
	t.Helper()
	back, lost := &keeper{t: t, tube: name + "-back"}, &keeper{t: t, tube: name + "-lost"}
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		ttr := msgp.AppendFloat64(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "ttr"), grace.Seconds())
		if _, err := c.Call(time.Minute, "queue.cfg", ttr); err != nil {
			return err
		}
		for _, k := range []*keeper{back, lost} {
			// it may be there by an earlier try
			if err := c.Create(k.tube, "fifottl"); err != nil && !wire.IsRefused(err) {
				return err
			}
			state, err := k.state(c)
			if err == nil && state == "" {
				_, err = c.Call(time.Minute, "queue.tube."+k.tube+":put", msgp.AppendString(nil, "x"))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	back.take(at)
	lost.take(at)
	struck := time.Now()
	at = strike()

	// The clocks of two leaders may differ by a twentieth.
	early := func() bool { return time.Since(struck) < grace*9/10 }
	late := false
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		state, err := "of a session that is unknown", back.identify(c)
		if err == nil || !strings.HasSuffix(err.Error(), " is unknown.") {
			if err == nil {
				state, err = back.state(c)
			}
			if err != nil || state == "" { // acknowledged by an earlier try
				return err
			}
		}
		if state != "t" {
			if early() {
				t.Errorf("the task of a session in its grace is %q", state)
			}
			late = true
			return nil
		}
		_, err = c.Call(time.Minute, "queue.tube."+back.tube+":ack", msgp.AppendUint64(nil, 0))
		return err
	})
	if late {
		t.Logf("the client did not come back within %v", grace)
		return false
	}
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		state, err := lost.state(c)
		if err != nil || state == "" {
			return err
		}
		if state != "r" {
			return fmt.Errorf("the task of a session that is gone is %q", state)
		}
		if early() {
			t.Errorf("the task was ready after %v, the grace is %v", time.Since(struck), grace)
		}
		returned, err := c.Call(time.Minute, "queue.tube."+lost.tube+":take", msgp.AppendUint64(nil, 0))
		if err != nil {
			return err
		}
		if _, _, data, err := wire.ParseTask(returned); err != nil || data == nil {
			return fmt.Errorf("the task cannot be taken: %w", err)
		}
		_, err = c.Call(time.Minute, "queue.tube."+lost.tube+":ack", msgp.AppendUint64(nil, 0))
		return err
	})
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		for _, k := range []*keeper{back, lost} {
			state, err := k.state(c)
			if err == nil && state != "" {
				t.Errorf("the task of %s was acknowledged and is %q", k.tube, state)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return true
}

// withGrace does something with a longer grace each time, until it proves something.
func withGrace(t *testing.T, do func(grace time.Duration) bool) {
	t.Helper()
	for grace := shortGrace; !do(grace); grace *= 2 {
		if grace >= longGrace {
			t.Fatalf("no client came back within %v", grace)
		}
	}
}

// TestSessionsOutliveAKill does so with one server that is killed and started again.
func TestSessionsOutliveAKill(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	start := func() *harness.Server {
		s, err := harness.Start(t.Context(), options(dir))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		return s
	}
	s := start()
	withGrace(t, func(grace time.Duration) bool {
		return testSessions(t, "one"+grace.String(), grace, s, func() *harness.Server {
			s.Kill()
			s = start()
			return s
		})
	})
}

// TestClusterSessions does so with three nodes of which the leader dies, or gives its place away. Clients are at a node
// that does not lead, and come back to another one.
func TestClusterSessions(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	c.start()
	for i, name := range tier.Pick([]string{"leader killed", "leadership given away", "all killed"},
		[]string{"leader killed"}) {
		c.fault = name
		f := nodeFaults[slices.IndexFunc(nodeFaults, func(f nodeFault) bool { return f.name == name })]
		withGrace(t, func(grace time.Duration) bool {
			leader := c.leader()
			tube := fmt.Sprintf("tube%d%v", i, grace)
			proves := testSessions(t, tube, grace, c.up[(leader+1)%3], func() *harness.Server {
				if end := f.strike(c, leader, rand.New(rand.NewPCG(1, 2))); end != nil {
					end()
				}
				if name == "all killed" {
					c.start()
				}
				return c.up[(leader+2)%3]
			})
			c.start()
			return proves
		})
	}
}
