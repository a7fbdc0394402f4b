package beanstalkd

import (
	"bytes"
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
	// req is the request being worked on. With pending its line has been consumed and its body has not arrived yet.
	req     request
	pending bool
	spoken  bool // the first line has been read
	skipped int  // bytes of a line that is too long and whose rest is still to come
	failed  bool // the last reply is an error
	names   dialect.Names
	tally   dialect.Tally

	used     *tube
	watched  []*tube
	queues   []string // the names of those that are watched
	producer bool
	worker   bool

	// A command that may wait has its own request, so that a waiting connection needs no unit.
	fetch   job.Fetch
	waitCmd [1]job.Command
	waitReq engine.Request
}

// after says what follows a unit: a command that cannot be part of one.
type after uint8

const (
	afterNothing after = iota
	afterReserve
	afterRead  // it reads what the commands before it have done
	afterPause // so does this one, before it changes something
	afterQuit
	afterForeign // the line is one of another protocol
)

// readAhead is how much input is buffered at a time, bodies excepted.
const readAhead = 64 << 10

// handle serves one connection until it ends.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := &conn{Conn: dc, d: d, holder: d.opts.Engine.NewHolder(), tally: dialect.NewTally(d.commands, dc)}
	c.used = d.tubes.use(defaultTube)
	c.watch(defaultTube)
	err := errPanic
	defer func() { c.end(err) }()
	err = c.serve()
	if errors.Is(err, dialect.ErrLineTooLong) {
		c.Linger()
	}
	return err
}

// errPanic stands for the reason of an end that no code returned.
var errPanic = errors.New("panic")

// end releases the jobs that the connection holds, and its tubes.
func (c *conn) end(reason error) {
	// A draining server leaves the leases: the restart releases them.
	if c.worker && !errors.Is(reason, dialect.ErrDraining) {
		c.Do(c.d.opts.Engine, &engine.Request{Commands: []job.Command{&job.EndHolder{Holder: c.holder}}})
	}
	c.d.tubes.change(c.used.name, -1, 0)
	for _, t := range c.watched {
		c.d.tubes.change(t.name, 0, -1)
	}
	if c.producer {
		c.d.producers.Add(-1)
	}
	if c.worker {
		c.d.workers.Add(-1)
	}
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
		case afterReserve:
			err = c.runReserve()
		case afterRead:
			c.runRead()
			c.tally.Ended(int(c.req.verb), !c.failed)
		case afterPause:
			c.runPause()
			c.tally.Ended(int(c.req.verb), !c.failed)
		case afterQuit:
			c.tally.Ended(int(verbQuit), true)
			return c.Flush()
		case afterForeign:
			_ = c.Flush() // the reason of the end is known
			err = dialect.ErrForeign
		}
		// Replies to what has been received already leave together.
		if err == nil && (c.OutFull() || c.pending || !c.hasLine()) {
			err = c.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// hasLine reports whether a whole line has been received, so that read will not wait.
func (c *conn) hasLine() bool { return bytes.Contains(c.Peek(), []byte(crlf)) }

// read reads the next command line into c.req, unless one is there. Only CR LF ends a line.
func (c *conn) read() error {
	if c.pending {
		return nil
	}
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
				return err
			}
			continue
		}
		if err := c.Fill(readAhead); err != nil {
			return err
		}
	}
}

// take makes a request of a line.
func (c *conn) take(line []byte) error {
	if c.skipped > 0 {
		c.skipped = 0
		c.req = request{size: -1, text: replyFormat}
		return nil
	}
	parse(line, &c.req)
	if (c.req.verb == verbUnknown || !c.spoken) && dialect.IsForeign(line) {
		return dialect.ErrForeign
	}
	c.spoken = true
	return nil
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

// unit takes c.req and the commands behind it that have been received already, submits them as one unit and renders
// the replies.
func (c *conn) unit() (next after, err error) {
	u := getUnit()
	defer u.release()
	c.pending = false
	body, err := c.body()
	if err != nil {
		return afterNothing, err
	}
	next = c.command(u, body)
	for next == afterNothing && len(u.replies) < unitMax && c.hasLine() {
		if err := c.read(); err != nil {
			if errors.Is(err, dialect.ErrForeign) {
				next = afterForeign
			}
			break // the next read says so again
		}
		// To wait for a body would invalidate the bodies before it.
		if c.req.size >= 0 && int64(c.Buffered()) < c.req.size+int64(len(crlf)) {
			c.pending = true
			break
		}
		if body, err = c.body(); err != nil {
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
		var ok bool
		out, ok = u.render(out, &u.replies[i])
		c.tally.Count(int(u.replies[i].verb), ok, took)
	}
	c.SetOut(out)
}

// body reads the body of c.req, if it has one. One that is too long is dropped, and so is one that does not end where
// it should: then c.req has a text.
func (c *conn) body() ([]byte, error) {
	r := &c.req
	if r.size < 0 {
		return nil, nil
	}
	n := r.size + int64(len(crlf))
	if int64(c.Buffered()) < n {
		// The client may wait for earlier replies before it sends the rest.
		if err := c.Flush(); err != nil {
			return nil, err
		}
	}
	if r.size > int64(c.d.opts.MaxJob) {
		r.text = replyTooBig
		return nil, c.Discard(n)
	}
	b, err := c.ReadBlock(int(n))
	if err != nil {
		return nil, err
	}
	if string(b[r.size:]) != crlf {
		r.text = replyExpectedCRLF
	}
	return b[:r.size:r.size], nil
}

// runReserve runs the fetch that has been prepared in c.fetch. The replies before it leave first, because it may wait.
func (c *conn) runReserve() error {
	if err := c.Flush(); err != nil {
		return err
	}
	c.waitCmd[0] = &c.fetch
	c.waitReq.Commands = c.waitCmd[:]
	gone := c.await()
	res := &c.waitReq.Results[0]
	defer res.Reset() // an idle connection keeps no body
	switch {
	case gone:
		// Whoever has only ended its sending is told, as by the original.
		c.giveBack(res)
		c.SetOut(append(c.Out(), replyTimedOut...))
		_ = c.Flush() // the reason of the end is known
		return io.EOF
	case res.Err == nil && len(res.Jobs) > 0:
		c.SetOut(appendJob(append(c.Out(), "RESERVED "...), &res.Jobs[0]))
	default:
		c.fail(reserveRefusal(res.Err))
	}
	c.tally.Ended(int(c.req.verb), dialect.Served(res.Err))
	if err := c.Flush(); err != nil {
		c.giveBack(res)
		return err
	}
	return nil
}

// await runs the request, and counts the connection among those that wait if it may. It reports whether the client
// has gone meanwhile.
func (c *conn) await() (gone bool) {
	if c.fetch.One || c.fetch.Wait == 0 {
		c.Do(c.d.opts.Engine, &c.waitReq)
		return false
	}
	c.countWait(1)
	defer c.countWait(-1)
	return c.Await(c.d.opts.Engine, &c.waitReq)
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

// giveBack returns a delivery that did not reach the client.
func (c *conn) giveBack(res *job.Result) {
	if res.Err != nil || len(res.Jobs) == 0 {
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
	c.SetOut(append(c.Out(), text...))
}
