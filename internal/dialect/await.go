package dialect

import (
	"errors"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Engine is what connections need of the engine to run requests.
type Engine interface {
	Submit(r *engine.Request) (waits bool)
	Cancel(r *engine.Request)
	Sent(d *job.Delivery)
}

// requestDone is the Done of every request of this connection. The send comes
// last: whoever has received it knows that the deadline will not be moved any more.
func (c *Conn) requestDone(*engine.Request) {
	c.mu.Lock()
	c.finished = true
	c.interrupt()
	c.mu.Unlock()
	c.done <- struct{}{}
}

// Do submits a request that does not wait for long and waits for its end. It
// sets the request's Done.
func (c *Conn) Do(e Engine, req *engine.Request) {
	c.submit(e, req)
	c.wait()
}

// wait waits for the end of the request.
func (c *Conn) wait() {
	select {
	case <-c.done:
	default:
		c.rest()
		<-c.done
	}
}

func (c *Conn) submit(e Engine, req *engine.Request) (waits bool) {
	c.mu.Lock()
	c.finished = false
	c.mu.Unlock()
	req.Done, req.Stays, req.Door = c.onDone, true, c.door
	if n := len(req.Commands); n > 0 {
		if f, ok := req.Commands[n-1].(*job.Fetch); ok {
			c.follow(e, f)
		}
	}
	return e.Submit(req)
}

// follow has a fetch, which is the last command of its request, tell the engine when its answer has been written.
func (c *Conn) follow(e Engine, f *job.Fetch) {
	if c.delivery == nil {
		c.delivery = new(job.Delivery) // not a part of the connection, which a lease may outlive
	}
	c.engine, f.Delivery = e, c.delivery
}

// delivered tells the engine that the answer of the last fetch has been written, or never will be.
func (c *Conn) delivered() {
	if c.delivery != nil {
		c.engine.Sent(c.delivery)
	}
}

// Await submits a request that may wait for long and waits for its end, while
// watching the peer and collecting what it pipelines; slices of input are not
// valid any more afterwards. It sets the request's Done.
//
// If the peer goes meanwhile the request is cancelled and gone is true. Await
// still returns only when the request is done, and a job may have been delivered
// before the cancel: the caller must give it back with job.Return.
func (c *Conn) Await(e Engine, req *engine.Request) (gone bool) {
	if !c.submit(e, req) {
		c.wait() // for the commit at the longest
		return false
	}
	for {
		select {
		case <-c.done:
			return false
		default:
		}
		c.busy = false
		c.releaseInput()
		err := c.fill(awaitMax, forAnswer)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errFinished), errors.Is(err, errFull), errors.Is(err, ErrDraining):
			// Draining: the engine answers everything that waits.
			<-c.done
			return false
		default:
			e.Cancel(req)
			<-c.done
			return true
		}
	}
}
