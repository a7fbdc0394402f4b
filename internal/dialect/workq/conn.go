package workq

import (
	"errors"
	"io"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	*dialect.Conn
	d      *Dialect
	holder job.Holder
	parser parser
	// req is the request being worked on. With pending its line has been consumed
	// and its block has not arrived yet.
	req     request
	pending bool
	walk    walk
	tally   dialect.Tally
	failed  bool // the last reply is an error

	// key is the last id that was made a string: a worker names a job several times.
	key string

	// A command that may wait has its own request, so that a waiting connection
	// needs no unit.
	fetch   job.Fetch
	run     job.Run
	await   job.Await
	waitCmd [1]job.Command
	waitReq engine.Request
}

// after says what follows a unit: a command that cannot be part of one.
type after uint8

const (
	afterNothing after = iota
	afterWait
	afterInspect
	afterEnd     // the line is not one of this protocol
	afterForeign // it is one of another protocol
)

// errLineEnd means that a line ended without a CR.
var errLineEnd = errors.New("line ended by LF alone")

// handle serves one connection until it ends. Leases belong to no connection, so
// there is nothing to give back then.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := &conn{Conn: dc, d: d, holder: d.opts.Engine.NewHolder(), tally: dialect.NewTally(d.commands, dc)}
	c.parser.maxBlock = d.opts.MaxPayload
	err := c.serve()
	if errors.Is(err, dialect.ErrLineTooLong) || errors.Is(err, errLineEnd) {
		c.Linger()
	}
	return err
}

func (c *conn) serve() error {
	for {
		if err := c.read(); err != nil {
			_ = c.Flush() // err is the reason already
			return err
		}
		c.tally.Begin()
		next, err := c.unit()
		if err != nil {
			return err
		}
		c.failed = false
		switch next {
		case afterNothing:
		case afterWait:
			err = c.runWait()
		case afterInspect:
			err = c.runInspect()
			c.tally.Ended(int(verbInspect), err == nil && !c.failed)
		case afterEnd:
			err = errLineEnd
		case afterForeign:
			_ = c.Flush() // the reason of the end is known
			err = dialect.ErrForeign
		}
		// Replies to what has been received already leave together.
		if err == nil && (c.OutFull() || c.pending || !c.HasLine()) {
			err = c.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// read reads the next command line into c.req, unless one is there.
func (c *conn) read() error {
	if c.pending {
		return nil
	}
	line, err := c.ReadLine()
	if err != nil {
		return err
	}
	line, ok := cutCR(line)
	if !ok {
		return errLineEnd
	}
	c.parser.parse(line, &c.req)
	if c.req.verb == verbUnknown && dialect.IsForeign(line) {
		return dialect.ErrForeign
	}
	return nil
}

// unit takes c.req and the commands behind it that have been received already,
// submits them as one unit and renders the replies.
func (c *conn) unit() (next after, err error) {
	u := getUnit()
	defer u.release()
	c.pending = false
	body, err := c.block()
	if err != nil {
		return afterNothing, err
	}
	next = c.command(u, body)
	for next == afterNothing && len(u.replies) < unitMax && c.HasLine() {
		if err := c.read(); err != nil {
			switch {
			case errors.Is(err, errLineEnd):
				next = afterEnd
			case errors.Is(err, dialect.ErrForeign):
				next = afterForeign
			}
			break // too long; the next read says so again
		}
		// To wait for a block would invalidate the blocks before it.
		if c.req.size >= 0 && c.Buffered() < c.req.size+len(crlf) {
			c.pending = true
			break
		}
		if body, err = c.block(); err != nil {
			return afterNothing, err
		}
		next = c.command(u, body)
	}
	if len(u.req.Commands) > 0 {
		c.Do(c.d.opts.Engine, &u.req)
	}
	c.answer(u)
	return next, nil
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

// block reads the block of c.req, if it has one.
func (c *conn) block() ([]byte, error) {
	r := &c.req
	if r.size < 0 {
		return nil, nil
	}
	n := r.size + len(crlf)
	if c.Buffered() < n {
		// The client may wait for earlier replies before it sends the rest.
		if err := c.Flush(); err != nil {
			return nil, err
		}
	}
	b, err := c.ReadBlock(n)
	if err != nil {
		return nil, err
	}
	if string(b[r.size:]) != crlf {
		r.text = textPayloadSize
		if r.verb == verbFail {
			r.text = textResultSize
		}
	}
	return b[:r.size:r.size], nil
}

// runWait runs the command that has been prepared in c.waitCmd. The replies before
// it leave first, because it may wait.
func (c *conn) runWait() error {
	if err := c.Flush(); err != nil {
		return err
	}
	c.waitReq.Commands = c.waitCmd[:]
	gone := false
	if c.req.wait == 0 && c.req.verb != verbRun {
		c.Do(c.d.opts.Engine, &c.waitReq)
	} else {
		gone = c.Await(c.d.opts.Engine, &c.waitReq)
	}
	res := &c.waitReq.Results[0]
	defer c.forget(res) // an idle connection keeps no body
	if gone {
		c.giveBack(res)
		return io.EOF
	}
	switch {
	case res.Err != nil:
		c.fail(refusal(res.Err.Kind))
	case len(res.Jobs) == 0:
		c.fail(textTimeout)
	case c.req.verb == verbLease:
		c.SetOut(c.appendLease(c.Out(), &res.Jobs[0]))
	default:
		c.SetOut(c.appendResult(c.Out(), &res.Jobs[0]))
	}
	c.tally.Ended(int(c.req.verb), dialect.Served(res.Err))
	if err := c.Flush(); err != nil {
		c.giveBack(res)
		return err
	}
	return nil
}

// forget lets go of what the last wait has kept alive.
func (c *conn) forget(res *job.Result) {
	res.Reset()
	c.run.Spec.Body = nil
}

// giveBack returns a leased job that did not reach the client.
func (c *conn) giveBack(res *job.Result) {
	if c.req.verb != verbLease || res.Err != nil || len(res.Jobs) == 0 {
		return
	}
	ret := &job.Return{By: c.holder}
	for i := range res.Jobs {
		ret.Refs = append(ret.Refs, res.Jobs[i].Ref())
	}
	c.Do(c.d.opts.Engine, &engine.Request{Commands: []job.Command{ret}})
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.failed = true
	c.SetOut(appendError(c.Out(), text))
}
