package server

import (
	"net"
	"sync"
)

// session is a listener that lives as long as a term: it is given connections, and knows those that are open.
type session struct {
	gate  *gate
	conns chan net.Conn

	mu   sync.Mutex // guards what follows
	open map[*sessionConn]struct{}
	done chan struct{}
	shut bool
}

var _ net.Listener = (*session)(nil)

func newSession(g *gate) *session {
	return &session{gate: g, conns: make(chan net.Conn), open: map[*sessionConn]struct{}{}, done: make(chan struct{})}
}

// Accept implements net.Listener.
func (s *session) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (s *session) Addr() net.Addr { return s.gate.Addr() }

// Close implements net.Listener. Connections stay open.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.shut = true
		close(s.done)
	}
	return nil
}

// take gives the session a connection. It reports false if the session has ended.
func (s *session) take(c net.Conn) bool {
	sc := &sessionConn{Conn: c, session: s}
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		return false
	}
	s.open[sc] = struct{}{}
	s.mu.Unlock()
	select {
	case s.conns <- sc:
		return true
	case <-s.done:
		s.forget(sc)
		return false
	}
}

func (s *session) forget(c *sessionConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// cut ends the session and closes its connections: nothing is told to anybody any more.
func (s *session) cut() {
	_ = s.Close() // never fails
	s.mu.Lock()
	list := make([]*sessionConn, 0, len(s.open))
	for c := range s.open {
		list = append(list, c)
	}
	s.mu.Unlock()
	for _, c := range list {
		_ = c.Close() // the peer is being cut off; there is nobody to tell
	}
}

// sessionConn is a connection that leaves its session when it is closed.
type sessionConn struct {
	net.Conn
	session *session
}

// Close closes the connection.
func (c *sessionConn) Close() error {
	c.session.forget(c)
	return c.Conn.Close()
}
