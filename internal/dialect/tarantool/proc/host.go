package proc

import (
	"errors"
	"log/slog"

	"millrace/internal/dialect"
	"millrace/internal/engine"
)

// Host is what the connections of a server have in common.
type Host struct {
	Engine *engine.Engine
	Logger *slog.Logger
	// MaxPacket bounds a request in bytes.
	MaxPacket int
	// MaxInFlight bounds how many requests of a connection are in work at a time,
	// MaxWaiting how many more of its calls may wait for a task or for room.
	MaxInFlight int
	MaxWaiting  int
	// Commands counts what clients ask for.
	Commands *dialect.Commands
	// NewWire returns what reads and answers the packets of a connection.
	NewWire func(*Conn) Wire
}

// Serve serves one connection until it ends.
func (h *Host) Serve(dc *dialect.Conn) error {
	c := &Conn{Conn: dc, host: h, Own: h.Engine.NewHolder(), signal: make(chan struct{}, 1)}
	c.onUnit, c.wire = c.unitDone, h.NewWire(c)
	err := errPanic
	defer func() { c.end(err) }()
	err = c.serve()
	return err
}

// errPanic stands for the reason of an end that no code returned.
var errPanic = errors.New("panic")

// Wire is one of the two wire protocols on a connection. Its methods run on the
// connection's goroutine.
type Wire interface {
	// Greeting returns what the server says first.
	Greeting() []byte
	// Frame returns the length of the packet that in begins with, everything that
	// belongs to it included; zero if in does not tell yet. An error ends the
	// connection after Refuse has told it.
	Frame(in []byte) (size uint64, err error)
	// Refuse answers a packet that Frame refused (with its error), or that is too
	// long (ErrTooLong).
	Refuse(c *Conn, err error)
	// Packet does one whole packet. What it answers at once it appends to Out.
	Packet(c *Conn, p []byte)
	// Goodbye tells the client that the server is stopping, if there are words for it.
	Goodbye(c *Conn)
	// Leave is called when a connection has ended, unless the server is stopping.
	Leave()
}

// ErrTooLong means that a packet is longer than the limit.
var ErrTooLong = errors.New("packet too long")
