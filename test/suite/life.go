package suite

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"millrace/test/harness"
)

// Life is one run of the server, from its start to its kill.
type Life struct {
	Number int
	Server *harness.Server
	// Nodes are the servers of a cluster, any of which serves; nil: there is only Server.
	Nodes []*harness.Server
	// Ending is closed before the kill: until then no connection may break.
	Ending chan struct{}
	// Stormy tells that nodes fail during the life: connections may break at any time, and who has lost one makes
	// another.
	Stormy bool
	// Last tells workers to drain and producers to stop.
	Last bool
}

// ErrNoMore ends a client for good, ErrLifeOver until the next life.
var (
	ErrNoMore   = errors.New("nothing more to do")
	ErrLifeOver = errors.New("the life is over")
)

// Wait lets d pass unless the life ends before.
func (l *Life) Wait(d time.Duration) error {
	select {
	case <-l.Ending:
		return ErrLifeOver
	case <-time.After(d):
		return nil
	}
}

// stormPause is how long a client that has lost its connection in a storm waits for the next.
const stormPause = 20 * time.Millisecond

// Unsteady reports whether another node of a cluster may lead than at the beginning of the life.
func (l *Life) Unsteady() bool { return l.Nodes != nil && (l.Stormy || l.Over()) }

// Over reports whether the life ends. Of a cluster some connections may outlive it.
func (l *Life) Over() bool {
	select {
	case <-l.Ending:
		return true
	default:
		return false
	}
}

// Kill ends the life, and the server with it.
func (l *Life) Kill() {
	close(l.Ending)
	l.Server.Kill()
}

// Stage tells clients which life is on.
type Stage struct {
	mu      sync.Mutex // guards what follows
	changed sync.Cond  // signals under mu that current has changed
	current *Life
	ready   []time.Duration
}

// NewStage returns a stage on which no life has begun.
func NewStage() *Stage {
	s := &Stage{}
	s.changed.L = &s.mu
	return s
}

// Begin begins a life with a server that has come up.
func (s *Stage) Begin(number int, server *harness.Server, last bool) *Life {
	return s.begin(&Life{Number: number, Server: server, Last: last}, server.Ready)
}

// BeginStorm begins a life in which nodes of a cluster fail.
func (s *Stage) BeginStorm(number int, nodes []*harness.Server) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(&Life{Number: number, Server: nodes[0], Nodes: nodes, Stormy: true})
}

// BeginCluster begins a life with nodes that serve again, after some time.
func (s *Stage) BeginCluster(number int, nodes []*harness.Server, after time.Duration, last bool) *Life {
	return s.begin(&Life{Number: number, Server: nodes[0], Nodes: nodes, Last: last}, after)
}

func (s *Stage) begin(l *Life, ready time.Duration) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, ready)
	return s.set(l)
}

// set makes a life the current one.
func (s *Stage) set(l *Life) *Life {
	l.Ending = make(chan struct{})
	s.current = l
	s.changed.Broadcast()
	return l
}

// Ready returns how long each of the starts took.
func (s *Stage) Ready() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.ready...)
}

// After waits for a life later than the given one.
func (s *Stage) After(number int) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.current == nil || s.current.Number <= number {
		s.changed.Wait()
	}
	return s.current
}

// EachLife runs a client in every life of the server until it has nothing more to do. A
// connection may only break when the life ends; complain hears of others, and in which life that was.
func EachLife[C io.Closer](s *Stage, dial func(*Life) (C, error), complain func(int, string),
	run func(*Life, C) error,
) {
	seen := 0
	for {
		l := s.After(seen)
		seen = l.Number
		err := once(l, dial, run)
		for l.Stormy && !errors.Is(err, ErrNoMore) && l.Wait(stormPause) == nil {
			err = once(l, dial, run)
		}
		if errors.Is(err, ErrNoMore) {
			return
		}
		select {
		case <-l.Ending:
		default:
			complain(l.Number, fmt.Sprintf("life %d: a client failed while the server was alive: %v", l.Number, err))
			if l.Last {
				return
			}
		}
	}
}

// once runs a client on one connection.
func once[C io.Closer](l *Life, dial func(*Life) (C, error), run func(*Life, C) error) error {
	c, err := dial(l)
	if err != nil {
		return err
	}
	err = run(l, c)
	_ = c.Close() // the server is dead, or the client is done
	return err
}
