package workq

import (
	"errors"
	"log/slog"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// walk is where a client stands that reads page after page. A page that goes on
// behind the last one is read from its cursor, whatever the depth; others are
// counted off from the beginning.
type walk struct {
	object object
	name   string
	next   uint32 // the offset that the cursor stands for
	cursor string
}

// walkFrom is the offset from which a walk goes by its cursor. Before it, counting
// off is quick, and exact while the queue changes.
const walkFrom = 1000

// at returns the cursor for a page, or how many entries to pass over.
func (w *walk) at(r *request) (cursor string, skip int) {
	if w.object == r.object && w.name == r.name && w.next == r.offset && r.offset >= walkFrom {
		return w.cursor, 0
	}
	return "", int(r.offset)
}

// remember notes where the page that was read has ended; nowhere without a cursor.
func (w *walk) remember(r *request, count int, cursor string) {
	*w = walk{}
	if cursor != "" {
		*w = walk{object: r.object, name: r.name, next: r.offset + uint32(count), cursor: cursor} //nolint:gosec // at most limitMax
	}
}

// pageBytes is how much of a page is collected before it is sent in pieces.
const pageBytes = 1 << 20

// runInspect reads committed data. What this connection was told before is
// committed first.
func (c *conn) runInspect() error {
	var err error
	switch c.req.object {
	case objectServer:
		err = c.inspectServer()
	case objectQueues:
		err = c.inspectQueues()
	case objectQueue:
		err = c.inspectQueue()
	case objectJobs:
		err = c.inspectJobs(job.Ready)
	case objectScheduled:
		err = c.inspectJobs(job.Scheduled)
	case objectJob:
		err = c.inspectJob()
	}
	if err == nil {
		return nil
	}
	if written, ok := errors.AsType[*writeError](err); ok {
		return written.err
	}
	if refused, ok := errors.AsType[*job.Error](err); ok {
		c.fail(refusal(refused.Kind))
		return nil
	}
	c.d.opts.Logger.Error("cannot read jobs", slog.String("dialect", c.d.Name()), slog.Any("error", err))
	c.fail(textInternal)
	return nil
}

// writeError is an error of the connection in the middle of a long reply.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func (c *conn) inspectServer() error {
	evicted, err := c.d.evicted()
	if err != nil {
		return err
	}
	c.SetOut(appendServer(c.Out(), c.d.Stats().Open, evicted, c.d.started))
	return nil
}

// shown reports whether clients can see a queue: other protocols allow names that
// cannot be named here.
func shown(q *job.QueueInfo) bool { return !q.Hidden && validName(q.Name) }

func (c *conn) inspectQueues() error {
	r := &c.req
	after, skip := c.walk.at(r)
	page := make([]job.QueueInfo, 0, r.limit)
	err := c.d.eachQueue(after, func(q *job.QueueInfo) bool {
		switch {
		case !shown(q):
		case skip > 0:
			skip--
		default:
			page = append(page, *q)
		}
		return len(page) < r.limit
	})
	if err != nil {
		return err
	}
	last := ""
	out := appendCount(c.Out(), len(page))
	for i := range page {
		out = appendQueue(out, &page[i])
		last = page[i].Name
	}
	c.SetOut(out)
	c.walk.remember(r, len(page), last)
	return nil
}

// queue returns the queue that c.req names.
func (c *conn) queue() (job.QueueInfo, error) {
	q, ok, err := c.d.opts.Engine.Queue(c.d.opts.Namespace, c.req.name)
	if err == nil && (!ok || q.Hidden) {
		err = job.ErrNoQueue
	}
	return q, err
}

func (c *conn) inspectQueue() error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	c.SetOut(appendQueue(appendCount(c.Out(), 1), &q))
	return nil
}

func (c *conn) inspectJob() error {
	j, err := c.d.opts.Engine.Get(c.ref(c.req.id))
	if err != nil {
		return err
	}
	c.SetOut(appendJob(appendCount(c.Out(), 1), &j))
	return nil
}

func (c *conn) inspectJobs(state job.State) error {
	r := &c.req
	q, err := c.queue()
	if err != nil {
		return err
	}
	if uint64(r.offset) >= q.Counts[state] {
		c.SetOut(appendCount(c.Out(), 0))
		return nil
	}
	cursor, skip := c.walk.at(r)
	page, err := c.d.opts.Engine.List(engine.ListOptions{
		Namespace: c.d.opts.Namespace, Queue: r.name, State: state, After: cursor, Skip: skip, Limit: r.limit,
	})
	if err != nil {
		return err
	}
	c.walk.remember(r, len(page.Jobs), page.Next)
	return c.sendJobs(page.Jobs)
}

// sendJobs renders a page of jobs. Its payloads are read one by one: a page could
// have a hundred of a megabyte each.
func (c *conn) sendJobs(jobs []job.Job) error {
	// A page of ordinary size is one write, and jobs that go meanwhile are not in it.
	items, count, rest := []byte(nil), 0, jobs
	for len(rest) > 0 && len(items) < pageBytes {
		j, err := c.whole(&rest[0])
		switch {
		case err == nil:
			items = appendJob(items, &j)
			count++
		case !isGone(err):
			return err
		}
		rest = rest[1:]
	}
	out := appendCount(c.Out(), count+len(rest))
	c.SetOut(append(out, items...))
	// The rest of a larger one has been announced: a job that goes now is shown
	// without its payload.
	for i := range rest {
		if err := c.Flush(); err != nil {
			return &writeError{err}
		}
		j, err := c.whole(&rest[i])
		if isGone(err) {
			j, err = rest[i], nil
		}
		if err != nil {
			return &writeError{err} // half a reply cannot be taken back
		}
		c.SetOut(appendJob(c.Out(), &j))
	}
	return nil
}

// whole reads a listed job with its payload.
func (c *conn) whole(j *job.Job) (job.Job, error) {
	return c.d.opts.Engine.Get(job.ByID(j.Namespace, j.Queue, j.ID))
}

func isGone(err error) bool {
	refused, ok := errors.AsType[*job.Error](err)
	return ok && refused.Kind == job.NotFound
}
