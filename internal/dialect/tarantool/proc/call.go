package proc

import (
	"time"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Done answers a call whose command is done. It runs on the connection's
// goroutine. The result is valid until it returns.
type Done func(c *Call, res *job.Result)

// Call is one call of a procedure. The procedure runs on the connection's goroutine, in the order in which calls
// arrive, and must not wait: it answers at once (Begin and End, Nothing, Fail, Raise), or hands a command over (Submit,
// Fetch, PushWait) whose end then answers. It answers exactly once.
//
// Its name and arguments are parts of the input: they are valid in the procedure itself and in the end of what was
// submitted with Submit, but not in the end of what waits (Fetch, PushWait).
type Call struct {
	Conn    *Conn
	Shape   Shape
	CountAs int  // the command that it counts as
	Quiet   bool // whatever is returned, the client does not want it
	Name    []byte
	Args    iproto.Args
	sync    uint64        // how the client names the call; in Tarantool 1.5 the request id
	began   time.Duration // when it was read, by the clock of the connection

	// What a procedure keeps for its end, however late that comes. The fields mean
	// what the procedure wants them to mean.
	Number uint64
	Text   string
	Option bool

	Command job.Command // what was handed over
	done    Done
}

// Settle makes sure that what was submitted before is applied before what the
// procedure reads of the engine next.
func (c *Call) Settle() { c.Conn.Settle() }

// Do runs commands that are rare and do not wait, after everything that was
// submitted before. The connection waits for them.
func (c *Call) Do(cmds ...job.Command) []job.Result {
	c.Settle()
	req := &engine.Request{Commands: cmds}
	c.Conn.Do(c.Conn.host.Engine, req)
	return req.Results
}

// Submit has cmd, which does not wait, applied together with its neighbours. The
// command must stay as it is until done is called; NewPush and its like make such.
func (c *Call) Submit(cmd job.Command, done Done) {
	c.Command, c.done = cmd, done
	c.Conn.unit().add(c)
}

// Fetch has a task fetched from one queue. If f says so it waits, without holding
// up anything else. Deliveries that do not reach the client are given back.
func (c *Call) Fetch(f *job.Fetch, queue string, done Done) {
	f.Delivery = c.Conn.newDelivery()
	if f.Wait <= 0 {
		cmd := c.Conn.unit().fetches.Get()
		cmd.set(f, queue)
		c.Submit(&cmd.Fetch, done)
		return
	}
	w := c.park(done)
	if w == nil {
		return
	}
	w.fetch.set(f, queue)
	w.submit(&w.fetch.Fetch)
}

// PushWait has a task pushed that may have to wait for room in its queue.
func (c *Call) PushWait(p *job.Push, done Done) {
	if p.RoomWait <= 0 {
		c.Submit(p, done)
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
func (c *Call) park(done Done) *waiting {
	if len(c.Conn.waits) >= c.Conn.host.MaxWaiting {
		c.Raise(textTooManyWaiting)
		return nil
	}
	w := getWaiting()
	w.call = *c
	w.call.Name, w.call.Args, w.call.done = nil, iproto.Args{}, done
	return w
}

const textTooManyWaiting = "too many calls of this connection are waiting"

// NewPush returns an empty command for Submit. It belongs to the unit that it is submitted with, and is used again
// afterwards. So do those of NewAck and NewRelease.
func (c *Call) NewPush() *job.Push { return c.Conn.unit().pushes.Get() }

// NewAck returns an empty command for Submit.
func (c *Call) NewAck() *job.Ack { return c.Conn.unit().acks.Get() }

// NewRelease returns an empty command for Submit.
func (c *Call) NewRelease() *job.Release { return c.Conn.unit().releases.Get() }

// NewCall returns an empty call.
func (c *Conn) NewCall(sync uint64) *Call {
	call := c.unit().all.Get()
	call.Conn, call.sync, call.began = c, sync, c.began
	return call
}

// count counts the call, which is answered.
func (c *Call) count(ok bool) {
	now := c.Conn.rendering
	if now == 0 {
		now = c.Conn.Clock()
	}
	c.Conn.host.Commands.Count(c.CountAs, ok, now-c.began)
}

// ReadFailed answers that the engine could not be read.
func (c *Call) ReadFailed(err error) {
	c.Conn.LogReadFailed(err)
	c.Raise(textInternal)
}

// Procedures are a set of procedures, which are known by their place in it.
type Procedures[A any] []struct {
	Name string
	Run  func(A, *Call)
}

// Names returns the names by number.
func (p Procedures[A]) Names() (names []string) {
	for i := range p {
		names = append(names, p[i].Name)
	}
	return names
}

// Numbers returns the numbers by name.
func (p Procedures[A]) Numbers() map[string]int {
	m := make(map[string]int, len(p))
	for i := range p {
		m[p[i].Name] = i
	}
	return m
}
