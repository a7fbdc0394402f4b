//go:build unix

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

// sessionGrace is how long tasks stay taken. A client must be able to come back within it on a busy machine.
const sessionGrace = 30 * time.Second

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
// after the grace, once.
func testSessions(t *testing.T, name string, at *harness.Server, strike func() *harness.Server) {
	t.Helper()
	back, lost := &keeper{t: t, tube: name + "-back"}, &keeper{t: t, tube: name + "-lost"}
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		ttr := msgp.AppendFloat64(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "ttr"), sessionGrace.Seconds())
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

	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		if err := back.identify(c); err != nil {
			return err
		}
		state, err := back.state(c)
		if err != nil || state == "" { // acknowledged by an earlier try
			return err
		}
		if state != "t" {
			t.Errorf("the task of a session in its grace is %q", state)
		}
		_, err = c.Call(time.Minute, "queue.tube."+back.tube+":ack", msgp.AppendUint64(nil, 0))
		return err
	})
	persist(t, tarantool, at, func(c *wire.Tarantool) error {
		state, err := lost.state(c)
		if err != nil || state == "" {
			return err
		}
		if state != "r" {
			return fmt.Errorf("the task of a session that is gone is %q", state)
		}
		// The clocks of two leaders may differ by a twentieth.
		if passed := time.Since(struck); passed < sessionGrace*9/10 {
			t.Errorf("the task was ready after %v, the grace is %v", passed, sessionGrace)
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
	testSessions(t, "one", s, func() *harness.Server {
		s.Kill()
		return start()
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
		leader := c.leader()
		testSessions(t, fmt.Sprint("tube", i), c.up[(leader+1)%3], func() *harness.Server {
			if end := f.strike(c, leader, rand.New(rand.NewPCG(1, 2))); end != nil {
				end()
			}
			if name == "all killed" {
				c.start()
			}
			return c.up[(leader+2)%3]
		})
		c.start()
	}
}
