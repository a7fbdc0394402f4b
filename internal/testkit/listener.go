package testkit

import (
	"net"
	"sync"
)

// Listener is a net.Listener whose connections are made by Dial, in memory.
type Listener struct {
	size    int
	backlog chan *Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen returns a Listener whose connections hold size bytes per direction, or
// DefaultPipeSize if size is zero.
func Listen(size int) *Listener {
	if size <= 0 {
		size = DefaultPipeSize
	}
	return &Listener{size: size, backlog: make(chan *Conn, 128), closed: make(chan struct{})}
}

// Dial makes a connection and returns its client's end.
func (l *Listener) Dial() (*Conn, error) {
	client, server := Pipe(l.size)
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept returns the server's end of the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case c := <-l.backlog:
		return c, nil
	}
}

// Close ends the listening.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address "memory".
func (l *Listener) Addr() net.Addr { return memAddr("memory") }
