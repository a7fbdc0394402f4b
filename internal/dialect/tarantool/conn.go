package tarantool

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

// wire is one of the two wire protocols on a connection. Its methods run on the
// connection's goroutine.
type wire interface {
	// greeting returns what the server says first.
	greeting() []byte
	// frame returns the length of the packet that in begins with, everything that
	// belongs to it included; zero if in does not tell yet. An error ends the
	// connection after refuse has told it.
	frame(in []byte) (size uint64, err error)
	// refuse answers a packet that frame refused (with its error), or that is too
	// long (errTooLong).
	refuse(c *conn, err error)
	// packet does one whole packet. What it answers at once it appends to Out.
	packet(c *conn, p []byte)
	// goodbye tells the client that the server is stopping, if there are words for it.
	goodbye(c *conn)
	// leave is called when a connection has ended, unless the server is stopping.
	leave()
}

// errTooLong means that a packet is longer than the limit.
var errTooLong = errors.New("packet too long")

// conn is one connection. Except where it says so, it is used by its own goroutine
// only.
type conn struct {
	*dialect.Conn
	d     *Dialect
	wire  wire
	names dialect.Names

	commands  *dialect.Commands
	began     time.Duration // when the packets that are being done were received, by Clock
	rendering time.Duration // since when calls that are done are answered; zero: none is

	own  job.Holder // the connection as a holder, for the legacy procedures
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

// delivery is a task on its way to the client.
type delivery struct {
	ref    job.Ref
	holder job.Holder
	way    *job.Delivery
}

// handle serves one connection until it ends.
func (d *Dialect) handle(dc *dialect.Conn, commands *dialect.Commands, newWire func(*conn) wire) error {
	c := &conn{Conn: dc, d: d, commands: commands, own: d.opts.Engine.NewHolder(), signal: make(chan struct{}, 1)}
	c.onUnit, c.wire = c.unitDone, newWire(c)
	err := errPanic
	defer func() { c.end(err) }()
	err = c.serve()
	return err
}

// errPanic stands for the reason of an end that no code returned.
var errPanic = errors.New("panic")

// id is the number under which the connection is known to clients.
func (c *conn) id() uint64 { return holderNumber(c.own) }

// holderNumber is the number under which a holder is shown to clients. It fits 32
// bits, because Tarantool 1.5 shows no more.
func holderNumber(h job.Holder) uint64 { return h.Num & 0xffffffff }

// holder returns the connection as a holder: what it fetches for that is given back
// when the connection ends.
func (c *conn) holder() job.Holder {
	c.held = true
	return c.own
}

// serve does what the client asks until the connection ends.
func (c *conn) serve() error {
	c.SetOut(append(c.Out(), c.wire.greeting()...))
	for {
		more, err := c.gather()
		c.answer()
		if err != nil {
			c.wire.refuse(c, err)
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
func (c *conn) sleep() error {
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
func (c *conn) gather() (more bool, err error) {
	c.Turn()
	c.began = c.Clock()
	for range c.d.opts.MaxInFlight {
		in := c.Peek()
		size, err := c.wire.frame(in)
		if err == nil && size > uint64(c.d.opts.MaxPacket) { //nolint:gosec // not negative
			err = errTooLong
		}
		if err != nil {
			return false, err
		}
		c.need = size
		if size == 0 || size > uint64(len(in)) {
			return false, nil
		}
		c.Consume(int(size)) //nolint:gosec // not longer than in
		c.wire.packet(c, in[:size:size])
	}
	return true, nil
}

// unit returns the unit that is being gathered.
func (c *conn) unit() *unit {
	if c.gathering == nil {
		c.gathering = getUnit()
	}
	return c.gathering
}

// submitUnit hands what has been gathered to the engine, in order with what else is
// submitted. Last tells that nothing else is before the connection waits for it.
func (c *conn) submitUnit(last bool) {
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
	c.d.opts.Engine.Submit(&u.req)
}

// unitDone is called by the engine.
func (c *conn) unitDone(*engine.Request) {
	c.mu.Lock()
	c.left--
	c.mu.Unlock()
	c.notify()
}

// waitDone is called by the engine.
func (c *conn) waitDone(w *waiting) {
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

func (c *conn) notify() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// await waits until the engine has answered everything but what waits, or with all
// also that. Commands refer to the input: no read may come before.
func (c *conn) await(all bool) {
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
func (c *conn) unpark(w *waiting) {
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
func (c *conn) answer() {
	c.submitUnit(true)
	c.await(false)
	c.render()
}

// render answers the calls that are done.
func (c *conn) render() {
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
func (c *conn) finish(call *call, res *job.Result) {
	c.deliver(call, res)
	call.done(call, res)
	if c.OutFull() {
		_ = c.flush() // the next one says so again
	}
}

// deliver notes the tasks that a call is about to give to the client.
func (c *conn) deliver(call *call, res *job.Result) {
	f, ok := call.cmd.(*job.Fetch)
	if !ok {
		return
	}
	if len(res.Jobs) == 0 {
		c.recycle(f.Delivery)
	}
	for i := range res.Jobs {
		c.unsent = append(c.unsent, delivery{ref: res.Jobs[i].Ref(), holder: f.Holder, way: f.Delivery})
	}
}

// newDelivery returns what follows the answer of a take. Several may be on their way at a time.
func (c *conn) newDelivery() *job.Delivery {
	n := len(c.spare)
	if n == 0 {
		return new(job.Delivery)
	}
	d := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return d
}

// delivered tells the engine that what was on its way has been written, or never will be.
func (c *conn) delivered() {
	for _, d := range c.unsent {
		c.d.opts.Engine.Sent(d.way)
		c.recycle(d.way)
	}
	c.unsent = c.unsent[:0]
}

// recycle keeps a delivery that is over, for the next take.
func (c *conn) recycle(d *job.Delivery) {
	if len(c.spare) < listKept {
		c.spare = append(c.spare, d)
	}
}

// flush sends the output. What was delivered with it has reached the client as far
// as anybody can tell.
func (c *conn) flush() error {
	err := c.Flush()
	if err == nil {
		c.delivered()
	}
	return err
}

// leave ends a connection of a server that is stopping: the client is told, and what
// waits is answered.
func (c *conn) leave() {
	c.wire.goodbye(c)
	c.cancelWaits()
	c.await(true)
	c.render()
	_ = c.flush() // the reason of the end is known
}

// cancelWaits ends the waits of all calls.
func (c *conn) cancelWaits() {
	for _, w := range c.waits {
		c.d.opts.Engine.Cancel(&w.req)
	}
}

// cancelTakes ends the waits of a holder that the connection is about to leave: what
// they would get could not be acknowledged through it.
func (c *conn) cancelTakes(h job.Holder) {
	for _, w := range c.waits {
		if w.fetch.Holder == h {
			c.d.opts.Engine.Cancel(&w.req)
		}
	}
}

// end gives back what the connection held. Its waits are ended first, so that
// nothing is given to a client that is gone.
func (c *conn) end(reason error) {
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
		cmds = append(cmds, &job.EndHolder{Holder: c.own})
	}
	if len(cmds) > 0 {
		c.Do(c.d.opts.Engine, &engine.Request{Commands: cmds})
	}
	c.delivered()
	if !draining {
		c.wire.leave()
	}
	if errors.Is(reason, errTooLong) || errors.Is(reason, iproto.ErrFrame) || errors.Is(reason, dialect.ErrForeign) {
		c.Linger()
	}
}

// logReadFailed logs that the engine could not be read.
func (c *conn) logReadFailed(err error) {
	c.d.opts.Logger.Error("cannot read the queues", slog.String("dialect", c.d.Name()), slog.Any("error", err))
}

// count counts a packet that called no procedure.
func (c *conn) count(command int, ok bool) {
	c.commands.Count(command, ok, c.Clock()-c.began)
}
