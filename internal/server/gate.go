package server

import (
	"context"
	"errors"
	"fmt"
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
	limit  int // of open connections; zero leaves it to whoever serves
	// activated tells that systemd has opened the socket.
	activated bool

	mu    sync.Mutex // guards what follows
	conns map[*gateConn]struct{}
	shut  bool

	total, refused int64 // connections so far that were let in, and that were not
}

// keepAlive finds out about peers that have gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// listen binds the address of a listener.
func listen(ctx context.Context, l config.Listener) (*gate, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	nl, err := lc.Listen(ctx, "tcp", l.Addr)
	if err != nil {
		return nil, listenError(l, err)
	}
	tl, ok := nl.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: %s is not a TCP address", l.Key.Name, l.Addr), nl.Close())
	}
	return &gate{TCPListener: tl, config: l, conns: make(map[*gateConn]struct{})}, nil
}

// listenError says which key to change.
func listenError(l config.Listener, err error) error {
	advice := "choose another address"
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // what surrounds it repeats the address
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = "stop the program that has it (perhaps another millrace), or choose another address (port 0 picks a free one)"
	case errors.Is(err, syscall.EACCES):
		advice = "the system does not let this user have that port: choose one above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
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
		if g.admit(c) {
			return c, nil
		}
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

// counts returns how many connections are open, and how many so far were let in and were not.
func (g *gate) counts() (open, total, refused int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(len(g.conns)), g.total, g.refused
}

// cut closes all connections and returns how many there were.
func (g *gate) cut() int {
	g.mu.Lock()
	g.shut = true
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
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.TCPConn.Close()
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
