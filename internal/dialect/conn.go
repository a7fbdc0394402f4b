package dialect

import (
	"net"
	"sync"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Limits bounds what one connection may cost. Zero values get defaults.
type Limits struct {
	// MaxLine is the longest line in bytes, without its LF.
	MaxLine int
	// MaxBlock is the longest block that ReadBlock returns, in bytes.
	MaxBlock int
	// WriteTimeout bounds a write to a peer that does not read: the write ends
	// after at least this time and at most twice this time.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the TLS handshake.
	HandshakeTimeout time.Duration
}

// The defaults of Limits.
const (
	DefaultMaxLine          = 16 << 20
	DefaultMaxBlock         = 16 << 20
	DefaultWriteTimeout     = 30 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
)

func (l Limits) withDefaults() Limits {
	if l.MaxLine <= 0 {
		l.MaxLine = DefaultMaxLine
	}
	if l.MaxBlock <= 0 {
		l.MaxBlock = DefaultMaxBlock
	}
	if l.WriteTimeout <= 0 {
		l.WriteTimeout = DefaultWriteTimeout
	}
	if l.HandshakeTimeout <= 0 {
		l.HandshakeTimeout = DefaultHandshakeTimeout
	}
	return l
}

const (
	// inlineSize is the input buffer that every connection owns. An idle or
	// waiting connection has no other buffer.
	inlineSize = 512
	// idleTick is how long a connection keeps a pooled buffer while it is idle.
	idleTick = time.Second
	// awaitMax is how much input is collected while a request waits.
	awaitMax = 64 << 10
)

// aLongTimeAgo is a deadline in the past, which interrupts a Read.
var aLongTimeAgo = time.Unix(1, 0)

// Conn is one connection. Its methods are for the one goroutine that serves the
// connection, except Wake, which may be called from anywhere.
type Conn struct {
	nc     net.Conn
	limits Limits
	shared *Shared

	// in[r:w] has been received and not consumed, in[r:scanned] holds no LF.
	in            []byte
	r, w, scanned int
	claim         Claim // what in has of the memory of all connections
	pooled        bool  // in comes from the pool rather than from inline
	busy          bool  // the last read filled all its room: more is likely to come
	turned        bool  // a unit has begun since the last read
	spoken        bool  // the first line has been read
	floods        bool  // the last read got much at once, or all that there was room for
	atWork        bool  // it has one of the turns
	readErr       error
	deadline      time.Time     // when reads give up; zero: never
	begun         time.Duration // when the rest of a command was first waited for, by Clock; zero: none is
	midway        bool          // the command goes on with the next line

	out        []byte
	writeErr   error
	writeArmed time.Duration // the write deadline that is set, by Clock; written with mu held
	looked     time.Duration // what Answering has seen; zero: nothing since the last write or read

	accepted time.Time
	door     job.Door

	delivery *job.Delivery // of the last fetch; nil: there was none
	engine   Engine        // that it was submitted to

	done   chan struct{} // capacity one: a request of Do or Await is done
	onDone func(*engine.Request)

	// mu guards what follows: what other goroutines touch to interrupt a Read.
	// They move the read deadline only while reading is true.
	mu       sync.Mutex
	reading  bool
	poisoned bool // the read deadline was moved into the past
	finished bool // the request being awaited is done
	woken    bool // Wake was called
	draining bool
	armed    time.Time // the read deadline that is set unless poisoned; zero: none

	inline [inlineSize]byte
}

// NewConn returns a Conn on nc that shares nothing. Servers make their own; it is exported for tests
// and tools.
func NewConn(nc net.Conn, limits Limits) *Conn { return newConn(nc, limits, NewShared(0, 0)) }

func newConn(nc net.Conn, limits Limits, shared *Shared) *Conn {
	c := &Conn{
		nc: nc, limits: limits.withDefaults(), shared: shared, done: make(chan struct{}, 1),
		accepted: time.Now(),
	}
	c.in = c.inline[:]
	c.onDone = c.requestDone
	return c
}

// Accepted returns when the connection was accepted, before its TLS handshake:
// what a protocol's own handshake timeout counts from.
func (c *Conn) Accepted() time.Time { return c.accepted }

// Clock returns how long ago the connection was accepted.
func (c *Conn) Clock() time.Duration { return time.Since(c.accepted) }

// floodSize is how much, read at once, is more than a unit.
const floodSize = 16 << 10

// Turn is called when a unit of commands begins. It waits for a turn if the unit before was received together with this
// one, or much was received at once.
func (c *Conn) Turn() {
	if c.turned || c.floods {
		c.rest() // whoever waits longer is first
		c.shared.turns <- struct{}{}
		c.atWork = true
	}
	c.turned = true
}

// rest ends the turn that the connection has, if it does. It is called before everything that may take long without
// work: reads, writes and waiting for the engine.
func (c *Conn) rest() {
	if c.atWork {
		c.atWork = false
		<-c.shared.turns
	}
}

// Answering is Clock for whoever is about to write what has been collected, which then needs no look of its own at
// the clock.
func (c *Conn) Answering() time.Duration {
	c.looked = c.Clock()
	return c.looked
}

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// NetConn returns the underlying connection, for its TLS state. It must not be
// read from or written to.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Draining reports whether the server is stopping: the connection should end
// once what it has received is answered.
func (c *Conn) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// Wake makes the read that is in progress, or else the next one that would have
// to wait for input, return ErrWoken. It is for protocols whose answers come out of order: an
// engine callback queues the answer and wakes the connection to write it.
func (c *Conn) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	c.interrupt()
}

// drain makes reads that would have to wait for input return ErrDraining from
// now on, and the write in progress end soon.
func (c *Conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	c.interrupt()
	// An error means that the connection is closed, which ends a write too.
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.drainTime()))
}

// interrupt ends the Read in progress, if any. The caller holds mu.
func (c *Conn) interrupt() {
	if c.reading {
		c.poisoned = true
		// An error means that the connection is closed, which ends the Read too.
		_ = c.nc.SetReadDeadline(aLongTimeAgo)
	}
}

// close ends the connection and gives its buffers back.
func (c *Conn) close() {
	c.rest()
	_ = c.nc.Close() // the peer is gone or about to be; there is nobody to tell
	c.delivered()
	c.r, c.w, c.scanned = 0, 0, 0
	c.releaseInput()
	putBuffer(c.out)
	c.out = nil
}
