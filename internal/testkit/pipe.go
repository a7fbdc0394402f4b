package testkit

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// DefaultPipeSize is how many bytes a Conn holds per direction before its writer waits.
const DefaultPipeSize = 64 << 10

// Conn is one end of an in-memory connection. Unlike net.Pipe it buffers, so
// that a write does not wait for the other side to read, as with a socket. It
// waits on channels made where the connection was made: a connection made in a
// bubble counts as idle there.
type Conn struct {
	recv, send *half
	name       string
}

// Pipe returns the two ends of a connection that holds size bytes per direction.
func Pipe(size int) (client, server *Conn) {
	a, b := newHalf(size), newHalf(size)
	return &Conn{recv: a, send: b, name: "client"}, &Conn{recv: b, send: a, name: "server"}
}

// half is one direction.
type half struct {
	mu      sync.Mutex // guards everything below
	change  chan struct{}
	buf     []byte
	size    int
	ended   bool // no more is written: the reader gets EOF after the rest
	refused bool // nobody reads any more: the writer gets an error
	read    deadline
	write   deadline
	written uint64 // bytes accepted so far
	writes  uint64 // write calls accepted so far
}

func newHalf(size int) *half {
	return &half{size: size, change: make(chan struct{})}
}

// changed wakes everybody who waits. The caller holds mu.
func (h *half) changed() {
	close(h.change)
	h.change = make(chan struct{})
}

// deadline is a point in time after which one side's calls fail.
type deadline struct {
	timer  *time.Timer
	set    uint64 // counts the settings, so that an old timer does no harm
	passed bool
}

// Read reads what has been written to the other end.
func (c *Conn) Read(p []byte) (int, error) {
	h := c.recv
	for {
		h.mu.Lock()
		switch {
		case h.refused:
			h.mu.Unlock()
			return 0, net.ErrClosed
		case h.read.passed:
			h.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			h.mu.Unlock()
			return 0, nil
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = append(h.buf[:0], h.buf[n:]...)
			h.changed()
			h.mu.Unlock()
			return n, nil
		case h.ended:
			h.mu.Unlock()
			return 0, io.EOF
		}
		change := h.change
		h.mu.Unlock()
		<-change
	}
}

// Write writes p for the other end to read.
func (c *Conn) Write(p []byte) (int, error) {
	h := c.send
	n := 0
	for {
		h.mu.Lock()
		switch {
		case h.ended:
			h.mu.Unlock()
			return n, net.ErrClosed
		case h.refused:
			h.mu.Unlock()
			return n, syscall.EPIPE
		case h.write.passed:
			h.mu.Unlock()
			return n, os.ErrDeadlineExceeded
		}
		if m := min(len(p)-n, h.size-len(h.buf)); m > 0 {
			h.buf = append(h.buf, p[n:n+m]...)
			n += m
			h.written += uint64(m)
			h.changed()
		}
		if n == len(p) {
			h.writes++
			h.mu.Unlock()
			return n, nil
		}
		change := h.change
		h.mu.Unlock()
		<-change
	}
}

// TryRead returns what has been received, without waiting, and whether the
// other end has closed its side after it.
func (c *Conn) TryRead() (data []byte, ended bool) {
	h := c.recv
	h.mu.Lock()
	defer h.mu.Unlock()
	data, h.buf = h.buf, nil
	if len(data) > 0 {
		h.changed()
	}
	return data, h.ended
}

// Received returns how many writes, and how many bytes in all, the other end has
// made so far.
func (c *Conn) Received() (writes, size uint64) {
	c.recv.mu.Lock()
	defer c.recv.mu.Unlock()
	return c.recv.writes, c.recv.written
}

// CloseWrite ends the writing: the other end reads EOF after what was written.
func (c *Conn) CloseWrite() error {
	c.send.mu.Lock()
	defer c.send.mu.Unlock()
	c.send.ended = true
	c.send.changed()
	return nil
}

// Close ends both directions.
func (c *Conn) Close() error {
	_ = c.CloseWrite() // it cannot fail
	c.recv.mu.Lock()
	defer c.recv.mu.Unlock()
	c.recv.refused = true
	c.recv.read.stop()
	c.recv.changed()
	return nil
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// setDeadline sets the deadline d of h.
func (h *half) setDeadline(d *deadline, t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.set++
	d.passed = false
	if !t.IsZero() {
		if wait := time.Until(t); wait <= 0 {
			d.passed = true
		} else {
			set := d.set
			d.timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				if d.set == set {
					d.passed = true
					h.changed()
				}
			})
		}
	}
	h.changed()
	return nil
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // it cannot fail
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets when reads fail.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.recv.setDeadline(&c.recv.read, t) }

// SetWriteDeadline sets when writes fail.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.send.setDeadline(&c.send.write, t) }

// LocalAddr returns an address that says which end this is.
func (c *Conn) LocalAddr() net.Addr { return memAddr(c.name) }

// RemoteAddr returns an address that says that the peer is in memory.
func (c *Conn) RemoteAddr() net.Addr { return memAddr("peer of " + c.name) }

type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }
