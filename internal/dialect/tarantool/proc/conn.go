package proc

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Conn is one connection. Except where it says so, it is used by its own goroutine
// only.
type Conn struct {
	*dialect.Conn
	Names dialect.Names
	host  *Host
	wire  Wire

	began     time.Duration // when the packets that are being done were received, by Clock
	rendering time.Duration // since when calls that are done are answered; zero: none is

	Own  job.Holder // the connection as a holder, for the legacy procedures
	held bool       // own has been used

	gathering *unit           // takes the commands of calls; nil: none yet
	units     []*unit         // submitted and not answered
	waits     []*waiting      // submitted and may be waiting
	soon      int             // how many of them do not wait
	ended     []*waiting      // done and not answered
	need      uint64          // how long the packet is of which a part has been received
	unsent    []delivery      // in output that has not been written yet
	spare     []*job.Delivery // that are over

	onUnit func(*engine.Request) // unitDone
	signal chan struct{}         // capacity 1: left or finished have changed

	// mu guards what the engine's goroutines tell.
	mu       sync.Mutex
	left     int        // units that are not done
	finished []*waiting // done, and the connection does not know yet
	asleep   bool       // the connection waits for input
}

// ID is the number under which the connection is known to clients.
func (c *Conn) ID() uint64 { return HolderNumber(c.Own) }

// HolderNumber is the number under which a holder is shown to clients. It fits 32
// bits, because Tarantool 1.5 shows no more.
func HolderNumber(h job.Holder) uint64 { return h.Num & 0xffffffff }

// Holder returns the connection as a holder: what it fetches for that is given back
// when the connection ends.
func (c *Conn) Holder() job.Holder {
	c.held = true
	return c.Own
}

// serve does what the client asks until the connection ends.
func (c *Conn) serve() error {
	c.SetOut(append(c.Out(), c.wire.Greeting()...))
	for {
		more, err := c.gather()
		c.answer()
		if err != nil {
			c.wire.Refuse(c, err)
			_ = c.flush() // the reason of the end is known
			return err
		}
		if !more || c.OutFull() {
			if err := c.flush(); err != nil {
				return err
			}
		}
		if more {
			continue
		}
		err = c.sleep()
		switch {
		case err == nil, errors.Is(err, dialect.ErrWoken):
		case errors.Is(err, dialect.ErrDraining):
			c.leave()
			return err
		default:
			return err
		}
	}
}

// sleep waits for input, or until a call that waited is done.
func (c *Conn) sleep() error {
	c.mu.Lock()
	if len(c.finished) > 0 {
		c.mu.Unlock()
		return nil
	}
	c.asleep = true
	c.mu.Unlock()
	err := c.Fill(int(max(c.need, fillMin))) //nolint:gosec // gather bounds it
	c.mu.Lock()
	c.asleep = false
	c.mu.Unlock()
	return err
}

// fillMin is how much is read at once, if it is there.
const fillMin = 64 << 10

// gather does the packets that have been received, up to the bound. It reports
// whether there may be more.
func (c *Conn) gather() (more bool, err error) {
	c.Turn()
	c.began = c.Clock()
	for range c.host.MaxInFlight {
		in := c.Peek()
		size, err := c.wire.Frame(in)
		if err == nil && size > uint64(c.host.MaxPacket) { //nolint:gosec // not negative
			err = ErrTooLong
		}
		if err != nil {
			return false, err
		}
		c.need = size
		if size == 0 || size > uint64(len(in)) {
			return false, nil
		}
		c.Consume(int(size)) //nolint:gosec // not longer than in
		c.wire.Packet(c, in[:size:size])
	}
	return true, nil
}

// unit returns the unit that is being gathered.
func (c *Conn) unit() *unit {
	if c.gathering == nil {
		c.gathering = getUnit()
	}
	return c.gathering
}

// Settle makes sure that what was submitted before is applied before what is read of the engine next.
func (c *Conn) Settle() { c.submitUnit(false) }

// Scratch returns memory for arguments that did not come as MessagePack. What is kept with SetScratch stays until the
// calls that are gathered are answered.
func (c *Conn) Scratch() []byte { return c.unit().scratch }

// SetScratch keeps what Scratch returned, with what has been appended to it.
func (c *Conn) SetScratch(b []byte) { c.unit().scratch = b }

// submitUnit hands what has been gathered to the engine, in order with what else is
// submitted. Last tells that nothing else is before the connection waits for it.
func (c *Conn) submitUnit(last bool) {
	u := c.gathering
	if u == nil || len(u.calls) == 0 {
		return
	}
	c.gathering = nil
	c.units = append(c.units, u)
	c.mu.Lock()
	c.left++
	c.mu.Unlock()
	u.req.Done, u.req.Stays, u.req.Door = c.onUnit, last, dialect.DoorTarantool
	c.host.Engine.Submit(&u.req)
}

// unitDone is called by the engine.
func (c *Conn) unitDone(*engine.Request) {
	c.mu.Lock()
	c.left--
	c.mu.Unlock()
	c.notify()
}

// waitDone is called by the engine.
func (c *Conn) waitDone(w *waiting) {
	c.mu.Lock()
	c.finished = append(c.finished, w)
	asleep := c.asleep
	c.mu.Unlock()
	if asleep {
		c.Wake()
	} else {
		c.notify()
	}
}

func (c *Conn) notify() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// await waits until the engine has answered everything but what waits, or with all
// also that. Commands refer to the input: no read may come before.
func (c *Conn) await(all bool) {
	for {
		c.mu.Lock()
		left := c.left
		fresh := len(c.ended)
		c.ended = append(c.ended, c.finished...)
		c.finished = emptied(c.finished)
		c.mu.Unlock()
		for _, w := range c.ended[fresh:] {
			c.unpark(w)
		}
		if left == 0 && c.soon == 0 && (!all || len(c.waits) == 0) {
			return
		}
		<-c.signal
	}
}

// unpark takes a call that is done out of those that wait.
func (c *Conn) unpark(w *waiting) {
	last := c.waits[len(c.waits)-1]
	c.waits[w.at], last.at = last, w.at
	c.waits[len(c.waits)-1] = nil
	if c.waits = c.waits[:len(c.waits)-1]; len(c.waits) == 0 {
		c.waits = emptied(c.waits)
	}
	if w.soon {
		c.soon--
	}
}

// emptied returns the list without anything in it. One that was long is not kept: an
// idle connection must not cost what a busy one did.
func emptied(list []*waiting) []*waiting {
	clear(list)
	if cap(list) > listKept {
		return nil
	}
	return list[:0]
}

const listKept = 64

// answer submits what has been gathered, waits for it and renders what is done.
func (c *Conn) answer() {
	c.submitUnit(true)
	c.await(false)
	c.render()
}

// render answers the calls that are done.
func (c *Conn) render() {
	if len(c.units) > 0 || len(c.ended) > 0 {
		c.rendering = c.Answering()
	}
	for _, u := range c.units {
		for i, call := range u.calls {
			c.finish(call, &u.req.Results[i])
		}
	}
	// Not before: a call may have been made in one unit and submitted with the next.
	for i, u := range c.units {
		u.release()
		c.units[i] = nil
	}
	c.units = c.units[:0]
	if c.gathering != nil { // its calls were answered at once
		c.gathering.release()
		c.gathering = nil
	}
	for i, w := range c.ended {
		c.finish(&w.call, &w.req.Results[0])
		w.release()
		c.ended[i] = nil
	}
	c.ended = emptied(c.ended)
	c.rendering = 0
}

// finish answers one call.
func (c *Conn) finish(call *Call, res *job.Result) {
	c.deliver(call, res)
	call.done(call, res)
	if c.OutFull() {
		_ = c.flush() // the next one says so again
	}
}

// leave ends a connection of a server that is stopping: the client is told, and what
// waits is answered.
func (c *Conn) leave() {
	c.wire.Goodbye(c)
	c.cancelWaits()
	c.await(true)
	c.render()
	_ = c.flush() // the reason of the end is known
}

// cancelWaits ends the waits of all calls.
func (c *Conn) cancelWaits() {
	for _, w := range c.waits {
		c.host.Engine.Cancel(&w.req)
	}
}

// CancelTakes ends the waits of a holder that the connection is about to leave: what
// they would get could not be acknowledged through it.
func (c *Conn) CancelTakes(h job.Holder) {
	for _, w := range c.waits {
		if w.fetch.Holder == h {
			c.host.Engine.Cancel(&w.req)
		}
	}
}

// end gives back what the connection held. Its waits are ended first, so that
// nothing is given to a client that is gone.
func (c *Conn) end(reason error) {
	c.cancelWaits()
	c.await(true) // units may be left after a panic
	for _, u := range c.units {
		for i, call := range u.calls {
			c.deliver(call, &u.req.Results[i])
		}
	}
	for _, w := range c.ended {
		if w != nil {
			c.deliver(&w.call, &w.req.Results[0])
			w.release()
		}
	}
	draining := errors.Is(reason, dialect.ErrDraining)
	var cmds []job.Command
	for _, d := range c.unsent {
		cmds = append(cmds, &job.Return{Refs: []job.Ref{d.ref}, By: d.holder})
	}
	// A server that is stopping leaves the leases to the rules of a restart.
	if c.held && !draining {
		cmds = append(cmds, &job.EndHolder{Holder: c.Own})
	}
	if len(cmds) > 0 {
		c.Do(c.host.Engine, &engine.Request{Commands: cmds})
	}
	c.delivered()
	if !draining {
		c.wire.Leave()
	}
	if errors.Is(reason, ErrTooLong) || errors.Is(reason, iproto.ErrFrame) || errors.Is(reason, dialect.ErrForeign) {
		c.Linger()
	}
}

// LogReadFailed logs that the engine could not be read.
func (c *Conn) LogReadFailed(err error) {
	c.host.Logger.Error("cannot read the queues", slog.String("dialect", "tarantool"), slog.Any("error", err))
}

// Count counts a packet that called no procedure.
func (c *Conn) Count(command int, ok bool) {
	c.host.Commands.Count(command, ok, c.Clock()-c.began)
}
