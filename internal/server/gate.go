package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"millrace/internal/config"
)

// gate is a listener that knows its open connections, so that those that do not
// end by themselves can be closed.
type gate struct {
	*net.TCPListener
	config config.Listener
	name   string // which no other gate has, and the same gate of another node
	seats  *seats
	log    *slog.Logger
	// activated tells that systemd has opened the socket.
	activated bool

	mu    sync.Mutex // guards what follows
	conns map[*gateConn]struct{}
	shut  bool
	limit int // of open connections; zero leaves it to whoever serves
	// tooMany returns what a connection is told for which there is no seat; nil closes it without a word.
	tooMany func(limit int) []byte

	// Connections so far that were let in, that were beyond the limit, and for which there was no seat.
	total, refused, unseated int64
}

// keepAlive finds out about peers that have gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// listen binds the address of a listener.
func (s *server) listen(ctx context.Context, l config.Listener) (*gate, error) {
	nl, err := s.listenTCP(ctx, l)
	if err != nil {
		return nil, listenError(l, err)
	}
	tl, ok := nl.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: %s is not a TCP address", l.Key.Name, l.Addr), nl.Close())
	}
	return s.newGate(tl, l), nil
}

// newGate returns the gate of a socket.
func (s *server) newGate(tl *net.TCPListener, l config.Listener) *gate {
	return &gate{TCPListener: tl, config: l, seats: s.seats, log: s.log, conns: make(map[*gateConn]struct{})}
}

// A server that was killed may hold its ports for a moment after the next one has been started.
const (
	portPatience = 2 * time.Second
	portRetryMin = 10 * time.Millisecond
	portRetryMax = 200 * time.Millisecond
)

// listenTCP binds an address. It waits until the start is portPatience old for one that is in use.
func (s *server) listenTCP(ctx context.Context, l config.Listener) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	for pause := portRetryMin; ; pause = min(2*pause, portRetryMax) {
		nl, err := lc.Listen(ctx, "tcp", l.Addr)
		left := time.Until(s.portsBy)
		if err == nil || !errors.Is(err, errAddressInUse) || left <= 0 {
			return nl, err
		}
		s.log.Debug("waiting for an address that is in use", slog.String("listener", l.Name()),
			slog.String("addr", l.Addr))
		t := time.NewTimer(min(pause, left))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// listenError says which key to change.
func listenError(l config.Listener, err error) error {
	advice := "choose another address"
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // what surrounds it repeats the address
	}
	switch {
	case errors.Is(err, errAddressInUse):
		advice = "stop the program that has it (perhaps another millrace), or choose another address (port " +
			"0 picks a free one)"
	case errors.Is(err, errAddressForbidden):
		advice = "the system does not let this user have that port: choose one above 1023"
	case errors.Is(err, errAddressMissing):
		advice = "this machine does not have that address: choose another"
	}
	return fmt.Errorf("%s: cannot listen on %s: %w: %s with %s (%s, --%s)",
		l.Key.Name, l.Addr, err, advice, l.Key.Name, l.Key.Env(), l.Key.Flag())
}

// Accept waits for the next connection.
func (g *gate) Accept() (net.Conn, error) {
	for {
		tc, err := g.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if g.activated {
			_ = tc.SetKeepAliveConfig(keepAlive) // it fails for a connection that has gone already
		}
		c := &gateConn{TCPConn: tc, gate: g}
		if !g.seats.take() {
			g.turnAway(tc)
			continue
		}
		if g.admit(c) {
			return c, nil
		}
		g.seats.leave()
		_ = tc.Close() // it was never ours
	}
}

// bound sets how many connections may be open; zero leaves it to whoever serves. tooMany returns what one is told for
// which there is no seat, unless it would have to speak TLS first.
func (g *gate) bound(limit int, secure *tls.Config, tooMany func(limit int) []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
	if secure == nil {
		g.tooMany = tooMany
	}
}

// turnAway closes a connection for which there is no seat.
func (g *gate) turnAway(tc *net.TCPConn) {
	g.mu.Lock()
	g.unseated++
	tooMany := g.tooMany
	g.mu.Unlock()
	g.seats.tell(g.log, g)
	var text []byte
	if tooMany != nil {
		text = tooMany(int(g.seats.max))
	}
	if len(text) == 0 || !g.seats.dismiss(tc, text) {
		_ = tc.Close() // it was never ours
	}
}

// admit remembers a connection unless there are too many.
func (g *gate) admit(c *gateConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.limit > 0 && len(g.conns) >= g.limit {
		g.refused++
		return false
	}
	g.conns[c] = struct{}{}
	g.total++
	return true
}

// counts returns how many connections are open, and how many so far were let in, were beyond the limit, and had no
// seat.
func (g *gate) counts() (open, total, refused, unseated int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(len(g.conns)), g.total, g.refused, g.unseated
}

// cut closes all connections for good and returns how many there were.
func (g *gate) cut() int {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	return g.cutOpen()
}

// cutOpen closes all connections that are open now and returns how many there were.
func (g *gate) cutOpen() int {
	g.mu.Lock()
	open := make([]*gateConn, 0, len(g.conns))
	for c := range g.conns {
		open = append(open, c)
	}
	g.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the peer is being cut off; there is nobody to tell
	}
	return len(open)
}

// gateConn is a connection that leaves the list of its gate when it is closed.
type gateConn struct {
	*net.TCPConn
	gate *gate
}

// Close closes the connection.
func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	_, open := c.gate.conns[c]
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	err := c.TCPConn.Close()
	if open {
		c.gate.seats.leave() // not before the file is closed
	}
	return err
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
