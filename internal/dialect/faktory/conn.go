package faktory

import (
	"errors"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	*dialect.Conn
	d      *Dialect
	worker *worker // nil for a client without a wid
	// holder is the worker's, which all its connections share, or the connection's own.
	holder job.Holder
	names  dialect.Names
	jids   recent
	tally  dialect.Tally
	verb   verb // of the last command
	failed bool // the last reply is an error

	arg []byte // the argument of the command that runs after the unit

	// A fetch has its own request, so that a waiting connection needs no unit.
	fetch     job.Fetch
	fetchCmd  [1]job.Command
	fetchReq  engine.Request
	fetchList []byte   // the queues that the last fetch named, as sent
	queues    []string // and as names
}

// after is what follows a unit: a command that cannot be part of one. It answers by
// appending to the output; an error ends the connection.
type after func(*conn) error

// What ends a connection without the client's doing.
var (
	errDropped  = errors.New("worker without heartbeat")
	errShutdown = errors.New("shutdown in progress")
	errEnd      = errors.New("end of the session")
)

// handle serves one connection until it ends. Leases belong to no connection, so there
// is nothing to give back then.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := &conn{Conn: dc, d: d, tally: dialect.NewTally(d.commands, dc)}
	err := c.handshake()
	if err == nil {
		defer c.leave()
		err = c.serve()
	}
	switch {
	case errors.Is(err, errEnd) && c.Buffered() == 0:
		return c.Flush()
	case errors.Is(err, dialect.ErrLineTooLong), errors.Is(err, errRefused), errors.Is(err, errShutdown), errors.Is(err, errEnd):
		c.Linger()
	default:
		_ = c.Flush() // err is the reason already
	}
	return err
}

func (c *conn) serve() error {
	for {
		line, err := c.ReadLine()
		switch {
		case c.worker != nil && c.worker.dropped.Load():
			return errDropped
		case errors.Is(err, dialect.ErrWoken):
			continue
		case errors.Is(err, dialect.ErrLineTooLong):
			c.fail(textTooLong)
			return err
		case err != nil:
			return err
		case c.Draining():
			c.fail(textShutdown)
			return errShutdown
		}
		c.tally.Begin()
		if next := c.unit(line); next != nil {
			c.failed = false
			if err := next(c); err != nil {
				return err
			}
			c.tally.Ended(int(c.verb), !c.failed)
		}
		// Replies to what has been received already leave together.
		if c.OutFull() || !c.HasLine() {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
}

// fail answers an error with the usual code.
func (c *conn) fail(text string) { c.refuse(codeErr + text) }

// refuse answers an error with the code that it begins with.
func (c *conn) refuse(line string) {
	c.failed = true
	c.SetOut(appendError(c.Out(), line))
}

// unit takes line and the lines behind it that have been received already, submits
// their commands as one unit and renders the replies.
func (c *conn) unit(line []byte) after {
	u := getUnit()
	defer u.release()
	next := c.take(u, line)
	for next == nil && !u.full() && c.HasLine() {
		var err error
		if line, err = c.ReadLine(); err != nil {
			break // too long; the next read says so again
		}
		next = c.take(u, line)
	}
	if len(u.req.Commands) > 0 {
		c.Do(c.d.opts.Engine, &u.req)
	}
	c.answer(u)
	return next
}

// take takes one command line into the unit, with the verb that its reply counts for.
func (c *conn) take(u *unit, line []byte) after {
	n := len(u.replies)
	next := c.command(u, line)
	if len(u.replies) > n {
		u.replies[n].verb = c.verb
	}
	return next
}

// answer renders the replies of a unit that is done and counts them.
func (c *conn) answer(u *unit) {
	if len(u.replies) == 0 {
		return
	}
	took := c.tally.Took()
	out := c.Out()
	for i := range u.replies {
		start := len(out)
		out = u.render(out, &u.replies[i])
		c.tally.Count(int(u.replies[i].verb), out[start] != '-', took)
	}
	c.SetOut(out)
}

// do runs commands that are no part of a unit and do not wait.
func (c *conn) do(cmds ...job.Command) []job.Result {
	req := &engine.Request{Commands: cmds}
	c.Do(c.d.opts.Engine, req)
	return req.Results
}
