package masenko

import (
	"errors"
	"log/slog"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	dialect.Pipeline
	d      *Dialect
	holder job.Holder
	line   []byte       // the one being worked on
	held   bool         // a fetch was made, so jobs may be held
	tx     *transaction // between ATOMIC and DONE
	names  dialect.Names

	fetch  job.Fetch
	queues []string

	// aliases are the jobs without a number of their own that this connection
	// has fetched, by the number it was told. Numbers repeat only 2^32 jobs apart.
	aliases map[uint32]job.Ref
}

// handle serves one connection until it ends.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := d.newConn(dc)
	err := dialect.ErrPanic
	defer func() { c.end(err) }()
	err = c.Serve(c)
	switch {
	case errors.Is(err, dialect.ErrTimeout):
		c.fail(textNoHeartbeat)
	case errors.Is(err, dialect.ErrLineTooLong):
		c.fail(textLineLong)
	}
	_ = c.Flush() // err is the reason already
	return err
}

func (d *Dialect) newConn(dc *dialect.Conn) *conn {
	return &conn{Pipeline: d.NewPipeline(dc), d: d, holder: d.opts.Engine.NewHolder()}
}

// end fails the tasks that the connection holds. Only then does it wait for a
// client that may still be sending.
func (c *conn) end(reason error) {
	if c.tx != nil {
		c.tx.claim.Drop()
	}
	if c.held {
		c.EndHolder(c.holder, reason) // the restart of a draining server counts no failure
	}
	if errors.Is(reason, dialect.ErrLineTooLong) {
		c.Linger()
	}
}

// Read reads the next line.
func (c *conn) Read(more bool) (rest int64, err error) {
	if !more {
		c.SetDeadline(time.Now().Add(c.d.opts.Heartbeat))
	}
	c.Midway(c.tx != nil && c.tx.claim != (dialect.Claim{})) // a long transaction has the time of one command
	c.line, err = c.ReadLine()
	return 0, err
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.Failed = true
	c.SetOut(appendError(c.Out(), text))
	c.d.counters.responses[responseErr].Add(1)
}

// Later runs the requests that are no part of a unit.
func (c *conn) Later() error {
	switch verb(c.Verb) { //nolint:exhaustive // command has chosen
	case verbFetch:
		c.held = true
		return c.Wait(&c.fetch, c.fetched)
	case verbInfo:
		c.runInfo()
		return nil
	default:
		c.SetOut(append(c.Out(), replyOK...))
		c.d.counters.ok(verbQuit, responseOK)
		return dialect.ErrQuit
	}
}

// fetched answers a FETCH.
func (c *conn) fetched(res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		j := &res.Jobs[0]
		c.SetOut(appendTask(c.Out(), j, c.number(j)))
		c.d.counters.ok(verbFetch, responseOK)
	case dialect.Served(res.Err):
		c.SetOut(append(c.Out(), replyEmpty...))
		c.d.counters.ok(verbFetch, responseEmpty)
	default:
		c.fail(refusal(res.Err.Kind))
	}
}

func (c *conn) runInfo() {
	defer c.TakeAlone()()
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
