package tarantool

import (
	"time"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// doneFunc answers a call whose command is done. It runs on the connection's
// goroutine. The result is valid until it returns.
type doneFunc func(c *call, res *job.Result)

// call is one call of a procedure. The procedure runs on the connection's goroutine, in the order in
// which calls arrive, and must not wait: it answers at once (begin and end, nothing,
// fail, raise), or hands a command over (submit, fetch, pushWait) whose end then
// answers. It answers exactly once.
//
// Its name and arguments are parts of the input:
// they are valid in the procedure itself and in the end of what was submitted with
// submit, but not in the end of what waits (fetch, pushWait).
type call struct {
	conn  *conn
	sync  uint64 // how the client names the call; in Tarantool 1.5 the request id
	shape shape
	began time.Duration // when it was read, by the clock of the connection
	// command is what it counts as.
	command int
	quiet   bool // whatever is returned, the client does not want it
	name    []byte
	args    iproto.Args

	// What a procedure keeps for its end, however late that comes. The fields mean
	// what the procedure wants them to mean.
	number uint64
	text   string
	option bool

	cmd  job.Command
	done doneFunc
}

// engine returns the engine, for its reads and its clock. A procedure that reads
// calls settle first.
func (c *call) engine() *engine.Engine { return c.conn.d.opts.Engine }

// settle makes sure that what was submitted before is applied before what the
// procedure reads of the engine next.
func (c *call) settle() { c.conn.submitUnit(false) }

// do runs commands that are rare and do not wait, after everything that was
// submitted before. The connection waits for them.
func (c *call) do(cmds ...job.Command) []job.Result {
	c.settle()
	req := &engine.Request{Commands: cmds}
	c.conn.Do(c.engine(), req)
	return req.Results
}

// submit has cmd, which does not wait, applied together with its neighbours. The
// command must stay as it is until done is called; the new functions make such.
func (c *call) submit(cmd job.Command, done doneFunc) {
	c.cmd, c.done = cmd, done
	c.conn.unit().add(c)
}

// fetch has a task fetched from one queue. If f says so it waits, without holding
// up anything else. Deliveries that do not reach the client are given back.
func (c *call) fetch(f *job.Fetch, queue string, done doneFunc) {
	f.Delivery = c.conn.newDelivery()
	if f.Wait <= 0 {
		cmd := c.conn.unit().fetches.Get()
		cmd.set(f, queue)
		c.submit(&cmd.Fetch, done)
		return
	}
	w := c.park(done)
	if w == nil {
		return
	}
	w.fetch.set(f, queue)
	w.submit(&w.fetch.Fetch)
}

// pushWait has a task pushed that may have to wait for room in its queue.
func (c *call) pushWait(p *job.Push, done doneFunc) {
	if p.RoomWait <= 0 {
		c.submit(p, done)
		return
	}
	w := c.park(done)
	if w == nil {
		return
	}
	w.push = *p
	w.push.Spec.Body = append([]byte(nil), p.Spec.Body...) // the input is gone by then
	w.submit(&w.push)
}

// park makes the call one that waits. If there are too many it is refused, and nil
// returned.
func (c *call) park(done doneFunc) *waiting {
	if len(c.conn.waits) >= c.conn.d.opts.MaxWaiting {
		c.raise(textTooManyWaiting)
		return nil
	}
	w := getWaiting()
	w.call = *c
	w.call.name, w.call.args, w.call.done = nil, iproto.Args{}, done
	return w
}

const textTooManyWaiting = "too many calls of this connection are waiting"

// The commands that calls are made of most often come from the unit that they will
// be submitted with. They are empty, and used again afterwards.

func (c *call) newPush() *job.Push       { return c.conn.unit().pushes.Get() }
func (c *call) newAck() *job.Ack         { return c.conn.unit().acks.Get() }
func (c *call) newRelease() *job.Release { return c.conn.unit().releases.Get() }

// newCall returns an empty call.
func (c *conn) newCall(sync uint64) *call {
	call := c.unit().all.Get()
	call.conn, call.sync, call.began = c, sync, c.began
	return call
}

// count counts the call, which is answered.
func (c *call) count(ok bool) {
	now := c.conn.rendering
	if now == 0 {
		now = c.conn.Clock()
	}
	c.conn.commands.Count(c.command, ok, now-c.began)
}

// readFailed answers that the engine could not be read.
func (c *call) readFailed(err error) {
	c.conn.logReadFailed(err)
	c.raise(textInternal)
}
