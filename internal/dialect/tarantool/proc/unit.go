package proc

import (
	"sync"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// unit is a series of calls whose commands are submitted together. Units are
// pooled: their commands and calls are used again.
type unit struct {
	req      engine.Request
	calls    []*Call // whose commands are in req, in the same order
	all      dialect.Freelist[Call]
	pushes   dialect.Freelist[job.Push]
	acks     dialect.Freelist[job.Ack]
	releases dialect.Freelist[job.Release]
	fetches  dialect.Freelist[fetchOne]
	scratch  []byte // arguments that did not come as MessagePack
}

// scratchKept is how much scratch a pooled unit keeps.
const scratchKept = 64 << 10

// fetchOne is a fetch from one queue.
type fetchOne struct {
	job.Fetch
	queue [1]string
}

func (f *fetchOne) set(from *job.Fetch, queue string) {
	f.Fetch = *from
	f.queue[0] = queue
	f.Queues = f.queue[:]
}

var units = sync.Pool{New: func() any { return new(unit) }}

func getUnit() *unit {
	u, ok := units.Get().(*unit)
	if !ok {
		return new(unit)
	}
	return u
}

func (u *unit) release() {
	clear(u.req.Commands)
	u.req.Commands = u.req.Commands[:0]
	for i := range u.req.Results {
		u.req.Results[i].Reset() // let the bodies go
	}
	clear(u.calls)
	u.calls = u.calls[:0]
	u.all.Release()
	u.pushes.Release()
	u.acks.Release()
	u.releases.Release()
	u.fetches.Release()
	if u.scratch = u.scratch[:0]; cap(u.scratch) > scratchKept {
		u.scratch = nil
	}
	units.Put(u)
}

func (u *unit) add(c *Call) {
	u.req.Commands = append(u.req.Commands, c.Command)
	u.calls = append(u.calls, c)
}

// waiting is a call whose command may wait for long. It costs nothing but this.
type waiting struct {
	call   Call
	req    engine.Request
	cmd    [1]job.Command
	fetch  fetchOne
	push   job.Push
	onDone func(*engine.Request) // made once
	at     int                   // its place in the connection's list
	soon   bool                  // it does not wait, or not any more
}

var waitings = sync.Pool{New: func() any { return new(waiting) }}

func getWaiting() *waiting {
	w, ok := waitings.Get().(*waiting)
	if !ok {
		w = new(waiting)
	}
	if w.onDone == nil {
		w.onDone = func(*engine.Request) { w.call.Conn.waitDone(w) }
	}
	return w
}

func (w *waiting) release() {
	*w = waiting{req: w.req, onDone: w.onDone}
	w.req.Commands = nil
	for i := range w.req.Results {
		w.req.Results[i].Reset()
	}
	waitings.Put(w)
}

// submit hands the call's one command to the engine, behind those gathered before.
func (w *waiting) submit(cmd job.Command) {
	c := w.call.Conn
	c.submitUnit(false)
	w.call.Command, w.cmd[0] = cmd, cmd
	w.req.Commands = w.cmd[:]
	w.req.Done, w.req.Door = w.onDone, dialect.DoorTarantool
	w.at = len(c.waits)
	c.waits = append(c.waits, w)
	if !c.host.Engine.Submit(&w.req) {
		w.soon = true
		c.soon++
	}
}
