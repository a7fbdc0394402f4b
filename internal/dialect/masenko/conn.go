package masenko

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	*dialect.Conn
	d      *Dialect
	holder job.Holder
	held   bool         // a fetch was made, so jobs may be held
	tx     *transaction // between ATOMIC and DONE
	names  dialect.Names
	tally  dialect.Tally
	verb   verb // of the last command
	failed bool // the last reply is an error

	// A fetch has its own request, so that a waiting connection needs no unit.
	fetch    job.Fetch
	fetchCmd [1]job.Command
	fetchReq engine.Request
	queues   []string

	// aliases are the jobs without a number of their own that this connection
	// has fetched, by the number it was told. Numbers repeat only 2^32 jobs apart.
	aliases map[uint32]job.Ref
}

// after says what follows a unit: a request that cannot be part of one.
type after uint8

const (
	afterNothing after = iota
	afterFetch
	afterInfo
	afterQuit
	afterForeign // the line is one of another protocol
)

// handle serves one connection until it ends.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := &conn{Conn: dc, d: d, holder: d.opts.Engine.NewHolder(), tally: dialect.NewTally(d.commands, dc)}
	err := errPanic
	defer func() { c.end(err) }()
	err = c.serve()
	return err
}

// errPanic stands for the reason of an end that no code returned.
var errPanic = errors.New("panic")

// end fails the tasks that the connection holds. Only then does it wait for a
// client that may still be sending.
func (c *conn) end(reason error) {
	if c.tx != nil {
		c.tx.claim.Drop()
	}
	// A draining server leaves the leases: the client has done nothing wrong,
	// and the restart releases them without counting a failure.
	if c.held && !errors.Is(reason, dialect.ErrDraining) {
		c.Do(c.d.opts.Engine, &engine.Request{Commands: []job.Command{&job.EndHolder{Holder: c.holder}}})
	}
	if errors.Is(reason, dialect.ErrLineTooLong) {
		c.Linger()
	}
}

func (c *conn) serve() error {
	for {
		c.SetDeadline(time.Now().Add(c.d.opts.Heartbeat))
		line, err := c.ReadLine()
		if err != nil {
			return c.readFailed(err)
		}
		c.tally.Begin()
		next := c.unit(line)
		c.failed = false
		switch next {
		case afterNothing:
		case afterFetch:
			if err := c.runFetch(); err != nil {
				return err
			}
		case afterInfo:
			c.runInfo()
			c.tally.Ended(int(verbInfo), !c.failed)
		case afterQuit:
			c.SetOut(append(c.Out(), replyOK...))
			c.d.counters.ok(verbQuit, responseOK)
			c.tally.Ended(int(verbQuit), true)
			return c.Flush()
		case afterForeign:
			_ = c.Flush() // the reason of the end is known
			return dialect.ErrForeign
		}
		// Replies to what has been received already leave together.
		if c.OutFull() || !c.HasLine() {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
}

// readFailed says good-bye where the protocol has something to say. It returns
// the reason of the end, whether or not the client could still be told.
func (c *conn) readFailed(err error) error {
	switch {
	case errors.Is(err, dialect.ErrTimeout):
		c.fail(textNoHeartbeat)
	case errors.Is(err, dialect.ErrLineTooLong):
		c.fail(textLineLong)
	}
	_ = c.Flush() // err is the reason already
	return err
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.failed = true
	c.SetOut(appendError(c.Out(), text))
	c.d.counters.responses[responseErr].Add(1)
}

// unit takes line and the lines behind it that have been received already,
// submits their commands as one unit and renders the replies.
func (c *conn) unit(line []byte) after {
	u := getUnit()
	defer u.release()
	next := c.take(u, line)
	for next == afterNothing && len(u.replies) < unitMax && c.HasLine() {
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

// take takes one request line into the unit, with the verb that its reply counts for.
func (c *conn) take(u *unit, line []byte) after {
	n := len(u.replies)
	next := c.command(u, line)
	if len(u.replies) > n {
		u.replies[n].asked = c.verb
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
		out = c.render(out, u, &u.replies[i])
		c.tally.Count(int(u.replies[i].asked), !isError(out[start:]), took)
	}
	c.SetOut(out)
}

// runFetch runs the fetch that has been prepared in c.fetch. The replies before
// it leave first, because it may wait.
func (c *conn) runFetch() error {
	if err := c.Flush(); err != nil {
		return err
	}
	c.held = true
	c.fetchCmd[0] = &c.fetch
	c.fetchReq.Commands = c.fetchCmd[:]
	gone := c.Await(c.d.opts.Engine, &c.fetchReq)
	res := &c.fetchReq.Results[0]
	defer res.Reset() // an idle connection keeps no body
	if gone {
		c.giveBack(res)
		return io.EOF
	}
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		j := &res.Jobs[0]
		c.SetOut(appendTask(c.Out(), j, c.number(j)))
		c.d.counters.ok(verbFetch, responseOK)
	case res.Err == nil, res.Err.Kind == job.Timeout, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.SetOut(append(c.Out(), replyEmpty...))
		c.d.counters.ok(verbFetch, responseEmpty)
	default:
		c.fail(refusal(res.Err.Kind))
	}
	c.tally.Ended(int(verbFetch), dialect.Served(res.Err))
	if err := c.Flush(); err != nil {
		c.giveBack(res)
		return err
	}
	return nil
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

func (c *conn) runInfo() {
	queues, err := dialect.Shown(c.d.opts.Engine, c.d.opts.Namespace)
	if err != nil {
		c.d.opts.Logger.Error("cannot list the queues", slog.String("dialect", c.d.Name()), slog.Any("error", err))
		c.fail(textInternal)
		return
	}
	c.SetOut(appendInfo(c.Out(), queues, &c.d.counters, c.d.Stats().Open))
	c.d.counters.ok(verbInfo, responseOK)
}

// number returns the number under which the client is told a job. Jobs that
// other protocols pushed may have none of their own.
func (c *conn) number(j *job.Job) uint32 {
	n := j.ID.Number()
	if j.Flags.Has(job.FlagNumbered) {
		return n
	}
	if c.aliases == nil {
		c.aliases = make(map[uint32]job.Ref)
	}
	for {
		if old, taken := c.aliases[n]; n != 0 && (!taken || old.ID == j.ID) {
			c.aliases[n] = j.Ref()
			return n
		}
		n--
	}
}

// ref names the task that the client calls by number.
func (c *conn) ref(number uint32) job.Ref {
	if ref, ok := c.aliases[number]; ok {
		return ref
	}
	return job.ByNumber(c.d.opts.Namespace, number)
}
