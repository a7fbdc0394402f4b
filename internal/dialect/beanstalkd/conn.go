package beanstalkd

import (
	"bytes"
	"errors"
	"io"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	dialect.Pipeline
	d       *Dialect
	holder  job.Holder
	req     request // the one being worked on
	spoken  bool    // the first line has been read
	skipped int     // bytes of a line that is too long and whose rest is still to come
	names   dialect.Names

	used     *tube
	watched  []*tube
	queues   []string // the names of those that are watched
	producer bool
	worker   bool

	fetch job.Fetch
}

// readAhead is how much input is buffered at a time, bodies excepted.
const readAhead = 64 << 10

// handle serves one connection until it ends.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := d.newConn(dc)
	err := dialect.ErrPanic
	defer func() { c.end(err) }()
	if err = c.Serve(c); errors.Is(err, dialect.ErrLineTooLong) {
		c.Linger()
	}
	_ = c.Flush() // err is the reason already
	return err
}

func (d *Dialect) newConn(dc *dialect.Conn) *conn {
	c := &conn{Pipeline: d.NewPipeline(dc), d: d, holder: d.opts.Engine.NewHolder()}
	c.used = d.tubes.use(defaultTube)
	c.watch(defaultTube)
	return c
}

// end releases the jobs that the connection holds, and its tubes.
func (c *conn) end(reason error) {
	if c.worker {
		c.EndHolder(c.holder, reason)
		c.d.workers.Add(-1)
	}
	c.d.tubes.change(c.used.name, -1, 0)
	c.d.opts.Shared.DropNames(len(c.watched) - 1) // the first came with the connection
	for _, t := range c.watched {
		c.d.tubes.change(t.name, 0, -1)
	}
	if c.producer {
		c.d.producers.Add(-1)
	}
}

// HasLine reports whether a whole line has been received, so that Read will not wait.
func (c *conn) HasLine() bool { return bytes.Contains(c.Peek(), []byte(crlf)) }

// Read reads the next command line into c.req. Only CR LF ends a line.
func (c *conn) Read(bool) (rest int64, err error) {
	for {
		in := c.Peek()
		end := bytes.Index(in[:min(len(in), lineMax)], []byte(crlf))
		switch {
		case end >= 0:
			line := in[:end]
			c.Consume(end + len(crlf))
			return c.take(line)
		case len(in) >= lineMax:
			if err := c.skip(in); err != nil {
				return 0, err
			}
			continue
		}
		if err := c.Fill(readAhead); err != nil {
			return 0, err
		}
	}
}

// take makes a request of a line. It returns the size of its body, with the CR LF.
func (c *conn) take(line []byte) (rest int64, err error) {
	c.req = request{size: -1, text: replyFormat}
	if c.skipped == 0 {
		parse(line, &c.req)
		if (c.req.verb == verbUnknown || !c.spoken) && dialect.IsForeign(line) {
			return 0, dialect.ErrForeign
		}
		c.spoken = true
	}
	c.skipped, c.Verb = 0, uint8(c.req.verb)
	if c.req.size < 0 {
		return 0, nil
	}
	return c.req.size + int64(len(crlf)), nil
}

// skipMax is how much of a line is dropped before it ends the connection.
const skipMax = 64 << 10

// skip drops what has been received of a line that is too long. The reply comes when the line has ended.
func (c *conn) skip(in []byte) error {
	if !c.spoken && dialect.IsForeign(in) {
		return dialect.ErrForeign
	}
	c.spoken = true
	n := len(in)
	if end := bytes.Index(in, []byte(crlf)); end >= 0 {
		n = end
	} else if in[n-1] == '\r' {
		n--
	}
	if c.skipped += n; c.skipped > skipMax {
		return dialect.ErrLineTooLong
	}
	c.Consume(n)
	return nil
}

// Take takes c.req into the unit. A body that is too long is dropped.
func (c *conn) Take(u *dialect.Unit) (later bool, err error) {
	r := &c.req
	var body []byte
	if r.size >= 0 {
		if body, err = c.body(); err != nil {
			return false, err
		}
	}
	return c.command(u, body), nil
}

// body reads the body of c.req. One that is too long is dropped, and so is one that does not end where it should: then
// c.req has a text.
func (c *conn) body() ([]byte, error) {
	r := &c.req
	if r.size > int64(c.d.opts.MaxJob) {
		r.text = replyTooBig
		n := r.size + int64(len(crlf))
		if err := c.FlushFor(n); err != nil {
			return nil, err
		}
		return nil, c.Discard(n)
	}
	body, ended, err := c.ReadBody(int(r.size))
	if err == nil && !ended {
		r.text = replyExpectedCRLF
	}
	return body, err
}

// Later runs the commands that may wait, and those that read what the commands before them have done.
func (c *conn) Later() error {
	switch c.req.verb { //nolint:exhaustive // command has chosen
	case verbReserve, verbReserveTimeout, verbReserveJob:
		return c.runReserve()
	case verbPauseTube:
		c.runPause()
	case verbQuit:
		return dialect.ErrQuit
	default:
		c.runRead()
	}
	return nil
}

// runReserve runs the fetch that has been prepared in c.fetch. The connection counts among those that wait if it may.
func (c *conn) runReserve() error {
	if !c.fetch.One && c.fetch.Wait != 0 {
		c.countWait(1)
		defer c.countWait(-1)
	}
	err := c.Wait(&c.fetch, func(res *job.Result) {
		if res.Err == nil && len(res.Jobs) > 0 {
			c.SetOut(appendJob(append(c.Out(), "RESERVED "...), &res.Jobs[0]))
		} else {
			c.fail(reserveRefusal(res.Err))
		}
	})
	if errors.Is(err, io.EOF) {
		// Whoever has only ended its sending is told, as by the original.
		c.SetOut(append(c.Out(), replyTimedOut...))
	}
	return err
}

func (c *conn) countWait(n int64) {
	c.d.waiting.Add(n)
	for _, t := range c.watched {
		t.waiting.Add(n)
	}
}

// reserveRefusal is the reply to a reserve that got no job. A server that is stopping has none.
func reserveRefusal(err *job.Error) string {
	if err == nil || err.Kind == job.Draining {
		return replyTimedOut
	}
	return refusal(err.Kind)
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.Failed = true
	c.SetOut(append(c.Out(), text...))
}
