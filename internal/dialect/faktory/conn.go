package faktory

import (
	"errors"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// conn is one connection. It is used by its own goroutine only.
type conn struct {
	dialect.Pipeline
	d      *Dialect
	worker *worker // nil for a client without a wid
	// holder is the worker's, which all its connections share, or the connection's own.
	holder job.Holder
	names  dialect.Names
	jids   recent

	line []byte // the one being worked on
	arg  []byte // the argument of the command that runs after the unit

	fetch     job.Fetch
	fetchList []byte   // the queues that the last fetch named, as sent
	queues    []string // and as names
}

// What ends a connection without the client's doing.
var (
	errDropped  = errors.New("worker without heartbeat")
	errShutdown = errors.New("shutdown in progress")
)

// handle serves one connection until it ends. Leases belong to no connection, so there
// is nothing to give back then.
func (d *Dialect) handle(dc *dialect.Conn) error {
	c := &conn{Pipeline: d.NewPipeline(dc), d: d}
	err := c.handshake()
	if err == nil {
		defer c.leave()
		err = c.Serve(c)
		switch {
		case errors.Is(err, dialect.ErrLineTooLong):
			c.fail(textTooLong)
		case errors.Is(err, errShutdown):
			c.fail(textShutdown)
		}
	}
	switch {
	case errors.Is(err, dialect.ErrQuit) && c.Buffered() == 0:
		return c.Flush()
	case errors.Is(err, dialect.ErrLineTooLong), errors.Is(err, errRefused), errors.Is(err, errShutdown),
		errors.Is(err, dialect.ErrQuit):
		c.Linger()
	default:
		_ = c.Flush() // err is the reason already
	}
	return err
}

// Read reads the next line.
func (c *conn) Read(more bool) (rest int64, err error) {
	for {
		c.line, err = c.ReadLine()
		switch {
		case more:
			return 0, err
		case c.worker != nil && c.worker.dropped.Load():
			return 0, errDropped
		case errors.Is(err, dialect.ErrWoken):
			continue
		case err == nil && c.Draining():
			return 0, errShutdown
		}
		return 0, err
	}
}

// Later runs the commands that are no part of a unit.
func (c *conn) Later() error {
	defer func() { c.arg = nil }()
	switch verb(c.Verb) { //nolint:exhaustive // command has chosen
	case verbFetch:
		return c.runFetch()
	case verbPushB:
		c.runPushB()
	case verbTrack:
		c.runTrackGet()
	case verbBatch:
		c.runBatchStatus()
	case verbInfo:
		c.runInfo()
	case verbQueue:
		c.runQueue()
	case verbMutate:
		c.runMutate()
	case verbEnd:
		c.SetOut(append(c.Out(), replyOK...))
		return dialect.ErrQuit
	}
	return nil
}

// fail answers an error with the usual code.
func (c *conn) fail(text string) { c.refuse(codeErr + text) }

// refuse answers an error with the code that it begins with.
func (c *conn) refuse(line string) {
	c.Failed = true
	c.SetOut(appendError(c.Out(), line))
}
