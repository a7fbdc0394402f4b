package workq

import (
	"errors"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	dialect.Pipeline
	d      *Dialect
	holder job.Holder
	parser parser
	req    request // the one being worked on
	walk   walk

	// key is the last id that was made a string: a worker names a job several times.
	key string

	// Those that may wait.
	fetch job.Fetch
	run   job.Run
	await job.Await
}

// errLineEnd means that a line ended without a CR.
var errLineEnd = errors.New("line ended by LF alone")

// handle serves one connection until it ends. Leases belong to no connection, so
// there is nothing to give back then.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := d.newConn(dc)
	err := c.Serve(c)
	if errors.Is(err, dialect.ErrLineTooLong) || errors.Is(err, errLineEnd) {
		c.Linger()
	}
	_ = c.Flush() // err is the reason already
	return err
}

func (d *Dialect) newConn(dc *dialect.Conn) *conn {
	c := &conn{Pipeline: d.NewPipeline(dc), d: d, holder: d.opts.Engine.NewHolder()}
	c.parser.maxBlock = d.opts.MaxPayload
	return c
}

// Read reads the next command line into c.req.
func (c *conn) Read(bool) (rest int64, err error) {
	line, err := c.ReadLine()
	if err != nil {
		return 0, err
	}
	line, ok := cutCR(line)
	if !ok {
		return 0, errLineEnd
	}
	c.parser.parse(line, &c.req)
	c.Verb = uint8(c.req.verb)
	if c.req.verb == verbUnknown && dialect.IsForeign(line) {
		return 0, dialect.ErrForeign
	}
	if c.req.size < 0 {
		return 0, nil
	}
	return int64(c.req.size + len(crlf)), nil
}

// Take takes c.req into the unit.
func (c *conn) Take(u *dialect.Unit) (later bool, err error) {
	r := &c.req
	var body []byte
	if r.size >= 0 {
		var ended bool
		if body, ended, err = c.ReadBody(r.size); err != nil {
			return false, err
		}
		switch {
		case ended:
		case r.verb == verbFail:
			r.text = textResultSize
		default:
			r.text = textPayloadSize
		}
	}
	return c.command(u, body), nil
}

// Later runs the commands that may wait, and inspect.
func (c *conn) Later() error {
	switch c.req.verb { //nolint:exhaustive // command has chosen
	case verbLease:
		return c.Wait(&c.fetch, c.answer)
	case verbResult:
		return c.Wait(&c.await, c.answer)
	case verbRun:
		defer func() { c.run.Spec.Body = nil }() // an idle connection keeps no body
		return c.Wait(&c.run, c.answer)
	default:
		return c.runInspect()
	}
}

// answer renders the result of a command that may have waited.
func (c *conn) answer(res *job.Result) {
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
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.Failed = true
	c.SetOut(appendError(c.Out(), text))
}
