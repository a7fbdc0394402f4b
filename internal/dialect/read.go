package dialect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// SetDeadline sets when reads that wait for input give up with ErrTimeout; the
// zero time means never. Time spent in Await is not looked at: set the deadline
// again afterwards.
func (c *Conn) SetDeadline(t time.Time) { c.deadline = t }

// Midway tells whether the command goes on with the next line: then all of its lines have the time of one command.
func (c *Conn) Midway(midway bool) {
	c.midway = midway
	c.arrived()
}

// arrived follows everything that is consumed: what comes next has time of its own.
func (c *Conn) arrived() {
	if !c.midway {
		c.begun = 0
	}
}

// finishBy returns when the rest of the command that has begun to arrive must be there; zero if none has. Part tells
// that a part of it has been consumed.
func (c *Conn) finishBy(part bool) time.Time {
	if !part && !c.midway && c.w == c.r {
		return time.Time{}
	}
	if c.begun == 0 {
		c.begun = max(c.Clock(), 1)
	}
	return c.accepted.Add(c.begun + c.shared.patience)
}

// Buffered returns how many bytes have been received and not consumed.
func (c *Conn) Buffered() int { return c.w - c.r }

// HasLine reports whether a whole line has been received, so that ReadLine will
// not wait.
func (c *Conn) HasLine() bool { return c.findLine() >= 0 }

// findLine returns the index in c.in of the LF that ends the first line, or -1.
func (c *Conn) findLine() int {
	if i := bytes.IndexByte(c.in[c.scanned:c.w], '\n'); i >= 0 {
		// Not remembered beyond the LF: the line has not been consumed yet.
		c.scanned += i
		return c.scanned
	}
	c.scanned = c.w
	return -1
}

// ReadLine returns the next line without its LF. The slice is valid, and may be
// overwritten by the caller, until the next read that has to wait for input:
// lines that HasLine has announced may be read and kept together. A line
// beyond the limit gives ErrLineTooLong and is not buffered further. A first line that is foreign gives
// ErrForeign, and so does every read after it.
func (c *Conn) ReadLine() ([]byte, error) {
	for {
		i := c.findLine()
		n := i - c.r
		if i < 0 {
			n = c.w - c.r
		}
		if n > c.limits.MaxLine {
			return nil, ErrLineTooLong
		}
		if i >= 0 {
			line := c.in[c.r:i:i]
			if !c.spoken && IsForeign(line) {
				c.readErr = ErrForeign
				return nil, ErrForeign
			}
			c.spoken = true
			c.r, c.scanned = i+1, i+1
			c.arrived()
			return line, nil
		}
		if err := c.fill(c.limits.MaxLine+1, forCommand); err != nil {
			return nil, err
		}
	}
}

// Peek returns what has been received and not consumed, without consuming it.
func (c *Conn) Peek() []byte { return c.in[c.r:c.w:c.w] }

// Fill waits until more input has been received than before, up to limit bytes
// unconsumed in all. It is for protocols that frame their input themselves,
// with Peek and Consume.
func (c *Conn) Fill(limit int) error { return c.fill(limit, forCommand) }

// Consume drops the first n buffered bytes. Slices of them stay valid as those
// of ReadLine do.
func (c *Conn) Consume(n int) {
	c.r += min(n, c.w-c.r)
	c.scanned = max(c.scanned, c.r)
	c.arrived()
}

// ReadBlock returns the next n bytes, valid as those of ReadLine are. The buffer
// grows as they arrive, so that an announced length costs nothing by itself.
func (c *Conn) ReadBlock(n int) ([]byte, error) {
	if n < 0 || n > c.limits.MaxBlock {
		return nil, ErrBlockTooLong
	}
	for c.w-c.r < n {
		if err := c.fill(n, forRest); err != nil {
			return nil, err
		}
	}
	b := c.in[c.r : c.r+n : c.r+n]
	c.Consume(n)
	return b, nil
}

// Discard drops the next n bytes, waiting for them as needed but buffering none.
func (c *Conn) Discard(n int64) error {
	for {
		have := min(int64(c.w-c.r), n)
		c.Consume(int(have))
		if n -= have; n <= 0 {
			return nil
		}
		if err := c.fill(bufferMin, forRest); err != nil {
			return err
		}
	}
}

// purpose is what input is waited for.
type purpose uint8

const (
	forCommand purpose = iota // a command, or the rest of one of which nothing has been consumed
	forRest                   // the rest of a command of which a part has been consumed
	forAnswer                 // nothing: the client waits for an answer, which ends the read
)

// fill reads once from the peer. At most limit bytes are kept unconsumed.
// For Await it returns errFinished as soon as the request is done,
// heeds no deadline and reports a full buffer as errFull.
func (c *Conn) fill(limit int, what purpose) error {
	c.rest()
	if c.readErr != nil {
		return c.readErr
	}
	if err := c.makeRoom(limit); err != nil {
		return err
	}
	await := what == forAnswer
	for {
		var deadline, whole time.Time
		if !await {
			deadline, whole = c.deadline, c.finishBy(what == forRest)
			if !whole.IsZero() && (deadline.IsZero() || whole.Before(deadline)) {
				deadline = whole
			}
		}
		tick := c.pooled && c.w == 0
		if tick {
			// Give the pooled buffer back if nothing comes for a while.
			if t := time.Now().Add(idleTick); deadline.IsZero() || t.Before(deadline) {
				deadline = t
			}
		}
		n, err := c.read(deadline, limit, await)
		if n > 0 {
			c.w += n
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				c.readErr = err
			}
			return nil
		}
		switch {
		case err == nil:
			err = io.ErrNoProgress
		case errors.Is(err, os.ErrDeadlineExceeded):
			switch {
			case await:
			case past(c.deadline):
				return ErrTimeout
			case past(whole):
				return ErrSlow
			}
			if tick {
				c.busy = false
				if err := c.makeRoom(limit); err != nil {
					return err
				}
			}
			continue // a deadline that was set for less, or a wake that came and went
		case errors.Is(err, errFinished), errors.Is(err, ErrWoken), errors.Is(err, ErrDraining):
			return err
		}
		c.readErr = err
		return err
	}
}

// past reports whether there is a deadline and it has passed.
func past(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// read does one Read, with other goroutines able to interrupt it.
func (c *Conn) read(deadline time.Time, limit int, await bool) (int, error) {
	c.looked = 0 // it may take long
	c.mu.Lock()
	if err := c.interruption(await); err != nil {
		c.mu.Unlock()
		return 0, err
	}
	// A deadline that is earlier than it need be is left alone: moving it at
	// every command costs more than one needless wake-up now and then.
	if c.poisoned || c.mustArm(deadline) {
		c.poisoned = false
		c.armed = deadline
		if err := c.nc.SetReadDeadline(deadline); err != nil {
			c.mu.Unlock()
			return 0, err
		}
	}
	c.reading = true
	c.mu.Unlock()

	room := c.in[c.w:min(len(c.in), c.r+limit)]
	n, err := c.nc.Read(room)
	c.busy = n == len(room) || c.pooled && n > inlineSize
	c.turned, c.floods = false, n >= floodSize || n == len(room) && n > bufferMin/4

	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if e := c.interruption(await); e != nil {
			return 0, e
		}
	}
	return n, err
}

// mustArm reports whether the read deadline that is set cannot stand in for
// deadline. The caller holds mu.
func (c *Conn) mustArm(deadline time.Time) bool {
	if c.armed.IsZero() {
		return !deadline.IsZero()
	}
	return !deadline.IsZero() && deadline.Before(c.armed) || !time.Now().Before(c.armed)
}

// interruption says why a Read must not begin or was ended. The caller holds mu.
func (c *Conn) interruption(await bool) error {
	switch {
	case await && c.finished:
		return errFinished
	case !await && c.woken:
		c.woken = false
		return ErrWoken
	case c.draining:
		return ErrDraining
	}
	return nil
}

// makeRoom makes sure that at least one byte can be read, moving what is
// unconsumed to the front or to a larger buffer. limit bounds what may be
// unconsumed (errFull).
func (c *Conn) makeRoom(limit int) error {
	held := c.w - c.r
	if held >= limit {
		return errFull
	}
	if held == 0 {
		c.r, c.w, c.scanned = 0, 0, 0
		switch {
		case c.busy && !c.pooled:
			c.in, c.pooled = getBuffer(bufferMin), true
			c.in = c.in[:cap(c.in)]
		case !c.busy || len(c.in) > bufferMin:
			c.releaseInput()
		}
		return nil
	}
	if c.w < len(c.in) {
		return nil
	}
	if c.r > 0 && held <= len(c.in)/2 && (c.pooled || !c.busy) {
		c.moveTo(c.in)
		return nil
	}
	size := max(bufferMin, min(2*held, limit))
	if !c.claim.Set(c.shared, bufferSize(size)) {
		return ErrBusy
	}
	b := getBuffer(size)
	c.moveInput(b[:cap(b)])
	return nil
}

// moveTo moves what is unconsumed to the front of b, which becomes the buffer.
func (c *Conn) moveTo(b []byte) {
	c.scanned -= c.r
	c.w = copy(b, c.in[c.r:c.w])
	c.r = 0
	c.in = b
}

// moveInput moves what is unconsumed into another pooled buffer.
func (c *Conn) moveInput(b []byte) {
	old, wasPooled := c.in, c.pooled
	c.moveTo(b)
	c.pooled = true
	if wasPooled {
		putBuffer(old)
	}
}

// releaseInput gives the pooled buffer back if what is unconsumed fits the
// connection's own.
func (c *Conn) releaseInput() {
	if !c.pooled || c.w-c.r > inlineSize {
		return
	}
	old := c.in
	c.moveTo(c.inline[:])
	c.pooled = false
	c.claim.Drop()
	putBuffer(old)
}
