package dialect

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Clients of HTTP wait for an answer before they ask again. Of those who do not, net/http serves what it has received
// without a pause, each on a processor of its own, and knows no turns (see Conn.Turn). Such a connection rests longer
// than it works. A head that is long takes one of the turns while it is read.
const (
	restShare = 3                     // this many times as long,
	restMax   = 20 * time.Millisecond // but no longer than this
)

// Paced makes an HTTP server pace connections that pipeline, and returns the listener that it has to serve instead of
// l.
func (s *Shared) Paced(hs *http.Server, l net.Listener) net.Listener {
	handler := hs.Handler
	hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A body of which both a length and chunks are told may be the work of somebody whose proxy goes by the length:
		// what follows it on the connection is not to be trusted (RFC 9112, section 6.1). net/http reads the chunks and
		// hides the length, so that every connection ends with a request in chunks.
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		if c, ok := r.Context().Value(pacedKey{}).(*pacedConn); ok {
			c.asked.Add(1)
			c.rest() // it may wait
			c.answers.Add(1)
			defer c.answers.Add(-1)
		}
		handler.ServeHTTP(w, r)
	})
	around := hs.ConnContext
	hs.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if around != nil {
			ctx = around(ctx, nc)
		}
		if c := pacedOf(nc); c != nil {
			ctx = context.WithValue(ctx, pacedKey{}, c)
		}
		return ctx
	}
	return pacedListener{l, s}
}

type pacedKey struct{}

// pacedOf returns the paced connection that others are around; nil if there is none.
func pacedOf(nc net.Conn) *pacedConn {
	for {
		switch c := nc.(type) {
		case *pacedConn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

type pacedListener struct {
	net.Listener
	shared *Shared
}

// Accept waits for the next connection.
func (l pacedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: nc, shared: l.shared, read: time.Now()}, nil
}

// pacedConn is a connection of an HTTP server.
type pacedConn struct {
	net.Conn
	shared *Shared
	asked  atomic.Int32 // requests whose answer has begun since the last read
	read   time.Time    // when that was

	answers atomic.Int32 // requests that are being answered
	long    bool         // the head that is being read
	atWork  atomic.Bool  // it has one of the turns
}

// longHead is a read that is filled by a part of a head.
const longHead = 4 << 10

// rest ends the turn that the connection has, if it does.
func (c *pacedConn) rest() {
	if c.atWork.Swap(false) {
		<-c.shared.turns
	}
}

// Write writes.
func (c *pacedConn) Write(b []byte) (int, error) {
	c.rest()
	return c.Conn.Write(b)
}

// Close closes the connection.
func (c *pacedConn) Close() error {
	c.rest()
	return c.Conn.Close()
}

// Read reads. More than one request since the last read means that they were received together.
func (c *pacedConn) Read(b []byte) (int, error) {
	if len(b) == 1 { // while a request is answered, net/http looks for the end of the connection
		return c.Conn.Read(b)
	}
	c.rest()
	asked := c.asked.Swap(0)
	if asked > 0 {
		c.long = false
	}
	if asked > 1 {
		<-time.After(min(restShare*time.Since(c.read), restMax))
	}
	n, err := c.Conn.Read(b)
	c.read = time.Now()
	if c.long = c.long || n >= longHead; c.long && c.answers.Load() == 0 {
		c.shared.turns <- struct{}{}
		c.atWork.Store(true)
	}
	return n, err
}

// CloseWrite ends the sending, which net/http does before it closes a connection that may still have input under way.
func (c *pacedConn) CloseWrite() error { return CloseWrite(c.Conn) }
