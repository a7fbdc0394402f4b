package engine

import (
	"context"

	"millrace/internal/job"
)

// Request is a unit of commands that one caller submits: they are applied in
// order without anything in between and answered together. Only a fetch from very many
// queues, which takes several steps, lets others come in between. Only the last command
// of a unit may wait. A Request may be reused once it is done.
type Request struct {
	Commands []job.Command
	// Results has one entry per command once the request is done.
	Results []job.Result
	// Done is called exactly once when the request is done, on whatever goroutine made
	// it so, perhaps that of Submit: it must not block and must not submit from within.
	Done func(*Request)
	// Stays tells that the caller does nothing else until the request is done, so
	// that Submit may commit on its goroutine.
	Stays bool
	// Door is through which the request came; it is counted there.
	Door job.Door

	token uint64 // names its wait; new with every Submit
	needs uint64 // the step that must be durable before Done
	flush bool   // has no commands: it is done when all before it is committed

	walking job.Command // its fetch that takes several steps and has not been answered
	walked  job.Result  // what that was answered by somebody else

	holds   int64    // about how many bytes while it waits
	applied job.Time // when its commands were applied
	waited  bool     // its last command had to wait
	atOnce  bool     // it needs no commit
}

// barrier waits until everything that has been applied so far is committed. In a cluster it also
// proves that this node led after the call.
func (e *Engine) barrier() {
	done := make(chan struct{})
	e.onceCommitted(func() { close(done) })
	<-done
}

// onceCommitted calls done when everything that has been applied so far is committed, or when the engine has failed.
func (e *Engine) onceCommitted(done func()) {
	e.Submit(&Request{flush: true, Done: func(*Request) { done() }})
}

// Caller submits requests one at a time and waits for them: what a connection
// or an HTTP handler that handles one request after another needs. It is not
// safe for concurrent use.
type Caller struct {
	engine *Engine
	req    Request
	done   chan struct{}
}

// NewCaller returns a Caller.
func (e *Engine) NewCaller() *Caller { return e.NewCallerAt(0) }

// NewCallerAt returns a Caller whose requests count as having come through a door.
func (e *Engine) NewCallerAt(door job.Door) *Caller {
	c := &Caller{engine: e, done: make(chan struct{}, 1)}
	c.req.Door = door
	c.req.Stays = true
	c.req.Done = func(*Request) { c.done <- struct{}{} }
	return c
}

// Do submits the commands as one unit and waits until they are answered. If ctx
// ends first, a waiting command is cancelled; Do still returns only when the
// engine has let go of it, so a job that was delivered meanwhile is in the
// result and must be settled or returned. The results are valid until the next Do.
func (c *Caller) Do(ctx context.Context, cmds ...job.Command) []job.Result {
	c.req.Commands = append(c.req.Commands[:0], cmds...)
	c.engine.Submit(&c.req)
	select {
	case <-c.done:
	case <-ctx.Done():
		c.engine.Cancel(&c.req)
		<-c.done
	}
	return c.req.Results
}
