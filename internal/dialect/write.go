package dialect

import (
	"net"
	"time"
)

// flushSize is how much output is collected before it is written although more
// may follow.
const flushSize = 64 << 10

// drainTimeout is how long a peer that does not read may hold up a server that
// is stopping.
const drainTimeout = 5 * time.Second

// Out returns the output that has not been written yet, for appending to it;
// SetOut takes the result. Nothing is sent before Flush.
func (c *Conn) Out() []byte {
	if c.out == nil {
		c.out = getBuffer(bufferMin)
	}
	return c.out
}

// SetOut replaces the unwritten output by b, which was made by appending to Out.
func (c *Conn) SetOut(b []byte) { c.out = b }

// OutFull reports whether so much output has been collected that it should be
// flushed before more is made.
func (c *Conn) OutFull() bool { return len(c.out) >= flushSize }

// Flush sends the collected output with one write and gives its buffer back.
// After an error everything collected later fails in the same way.
func (c *Conn) Flush() error {
	if len(c.out) > 0 && c.writeErr == nil {
		if c.writeErr = c.write(); c.writeErr == nil {
			c.delivered()
		}
	}
	putBuffer(c.out)
	c.out = nil
	return c.writeErr
}

func (c *Conn) write() error {
	c.rest()
	if err := c.armWrite(); err != nil {
		return err
	}
	_, err := c.nc.Write(c.out)
	return err
}

// armWrite makes sure that the next write ends in time.
func (c *Conn) armWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.looked
	if c.looked = 0; now == 0 {
		now = c.Clock()
	}
	if c.draining {
		return c.nc.SetWriteDeadline(c.accepted.Add(now + c.drainTime()))
	}
	// The deadline is set for twice the time and renewed when less than the
	// time is left of it, which spares most calls.
	if c.writeArmed-now >= c.limits.WriteTimeout {
		return nil
	}
	c.writeArmed = now + 2*c.limits.WriteTimeout
	return c.nc.SetWriteDeadline(c.accepted.Add(c.writeArmed))
}

// drainTime is how long a write may take while the server is stopping.
func (c *Conn) drainTime() time.Duration { return min(drainTimeout, c.limits.WriteTimeout) }

// lingerTime is how long a closing connection lets its peer finish reading.
const lingerTime = time.Second

// Linger is called before a connection ends that may still have input under
// way: closing it at once would reset the connection and could destroy the last
// reply before the peer has read it. It sends that reply, then drops input for
// a short time or until the peer closes.
func (c *Conn) Linger() {
	if c.Flush() != nil || c.readErr != nil {
		return
	}
	if CloseWrite(c.nc) != nil {
		return
	}
	c.r, c.w, c.scanned = 0, 0, 0
	c.SetDeadline(time.Now().Add(lingerTime))
	for c.fill(bufferMin, forCommand) == nil {
		c.r, c.w, c.scanned = 0, 0, 0
	}
}

// CloseWrite ends the sending on a connection, if it can do that alone.
func CloseWrite(nc net.Conn) error {
	if cw, ok := nc.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}
