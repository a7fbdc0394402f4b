package lmstfy

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"millrace/internal/dialect"
)

// gate is a listener that bounds the connections and knows those that have not sent
// anything yet: a server that stops would otherwise wait for them.
type gate struct {
	net.Listener
	d *Dialect

	mu       sync.Mutex // guards what follows
	conns    map[*conn]struct{}
	draining bool
}

// Accept returns the next connection. Those beyond the bound are closed without a
// word.
func (g *gate) Accept() (net.Conn, error) {
	for {
		nc, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		open := g.d.conns.Add(1)
		c := &conn{Conn: nc, gate: g}
		full := g.d.opts.MaxConns > 0 && open > int64(g.d.opts.MaxConns)
		if !full && g.add(c) {
			g.d.accepted.Add(1)
			return c, nil
		}
		if full {
			g.d.rejected.Add(1)
		}
		g.d.conns.Add(-1)
		_ = nc.Close() // it was never ours
	}
}

func (g *gate) add(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return false
	}
	g.conns[c] = struct{}{}
	return true
}

// dropUnused closes the connections on which nothing has been asked.
func (g *gate) dropUnused() {
	g.mu.Lock()
	g.draining = true
	var unused []*conn
	for c := range g.conns {
		if !c.used.Load() {
			unused = append(unused, c)
		}
	}
	g.mu.Unlock()
	for _, c := range unused {
		_ = c.Close() // the peer has nothing to lose
	}
}

// conn is a connection that leaves the list of its gate when it is closed.
type conn struct {
	net.Conn
	gate *gate
	used atomic.Bool // the first bytes of a request have come
	once sync.Once
}

// Close closes the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
		c.gate.d.conns.Add(-1)
	})
	return c.Conn.Close()
}

// NetConn returns the connection that this one is around.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the sending, which net/http does before it closes a connection
// that may still have input under way.
func (c *conn) CloseWrite() error { return dialect.CloseWrite(c.Conn) }

// noteState remembers that a connection has been used, and counts those that did not come to speak TLS. net/http calls
// it.
func (d *Dialect) noteState(nc net.Conn, state http.ConnState) {
	tc, secure := nc.(*tls.Conn)
	switch {
	case state == http.StateClosed && secure && !tc.ConnectionState().HandshakeComplete:
		d.handshakes.Add(1)
		return
	case state != http.StateActive:
		return
	case secure:
		nc = tc.NetConn()
	}
	if c, ok := nc.(*conn); ok && !c.used.Load() {
		c.used.Store(true)
	}
}
