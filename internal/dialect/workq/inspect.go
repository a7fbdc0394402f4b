package workq

import (
	"errors"
	"fmt"
	"time"

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

const (
	// pageBytes is how much of a page is collected before it is sent in pieces.
	pageBytes = 1 << 20
	// pageTime is how long a client may take to read a page that is sent in pieces:
	// meanwhile the space of every job that is deleted is kept for it.
	pageTime = 5 * time.Minute
)

// view runs f on the committed data of one moment.
func (d *Dialect) view(f func(*engine.View) error) (err error) {
	v, err := d.opts.Engine.View()
	if err != nil {
		return err
	}
	defer func() { // also after a panic
		if cerr := v.Close(); err == nil && cerr != nil {
			err = &lateError{cerr}
		}
	}()
	return f(v)
}

// runInspect reads committed data, all of a reply from the same moment. What this
// connection was told before is committed first.
func (c *conn) runInspect() error {
	if c.req.object == objectQueues {
		defer c.TakeAlone()()
	}
	err := c.d.view(func(v *engine.View) error {
		switch c.req.object {
		case objectServer:
			return c.inspectServer()
		case objectQueues:
			return c.inspectQueues(v)
		case objectQueue:
			return c.inspectQueue(v)
		case objectJobs:
			return c.inspectJobs(v, job.Ready)
		case objectScheduled:
			return c.inspectJobs(v, job.Scheduled)
		case objectJob:
			return c.inspectJob(v)
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if late, ok := errors.AsType[*lateError](err); ok {
		return late.err
	}
	c.fail(refusal(c.d.ReadFailed(err)))
	return nil
}

// lateError comes when a reply, or a part of it, has been made: it cannot be answered
// any more and ends the connection.
type lateError struct{ err error }

func (e *lateError) Error() string { return e.err.Error() }

func (c *conn) inspectServer() error {
	expired, err := c.d.expired()
	if err != nil {
		return err
	}
	// Queues that were removed have taken their part of the count with them.
	evicted := max(expired, c.d.base) - c.d.base
	c.SetOut(appendServer(c.Out(), c.d.Stats().Open, evicted, c.d.started))
	return nil
}

// expired returns how many jobs of the namespace have expired unfinished, ever.
func (d *Dialect) expired() (uint64, error) {
	s, err := d.opts.Engine.Sums(d.opts.Namespace)
	return s.Totals[job.CountExpired], err
}

// shown reports whether clients can see a queue: other protocols allow names that
// cannot be named here.
func shown(q *job.QueueInfo) bool { return !q.Hidden && validName(q.Name) }

func (c *conn) inspectQueues(v *engine.View) error {
	r := &c.req
	after, skip := c.walk.at(r)
	page := make([]job.QueueInfo, 0, r.limit)
	err := v.EachQueue(c.d.opts.Namespace, after, func(q *job.QueueInfo) bool {
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
func (c *conn) queue(v *engine.View) (job.QueueInfo, error) {
	q, ok, err := v.Queue(c.d.opts.Namespace, c.req.name)
	if err == nil && (!ok || q.Hidden) {
		err = job.ErrNoQueue
	}
	return q, err
}

func (c *conn) inspectQueue(v *engine.View) error {
	q, err := c.queue(v)
	if err != nil {
		return err
	}
	c.SetOut(appendQueue(appendCount(c.Out(), 1), &q))
	return nil
}

func (c *conn) inspectJob(v *engine.View) error {
	j, err := v.Get(c.ref(c.req.id))
	if err != nil {
		return err
	}
	c.SetOut(appendJob(appendCount(c.Out(), 1), &j))
	return nil
}

func (c *conn) inspectJobs(v *engine.View, state job.State) error {
	r := &c.req
	q, err := c.queue(v)
	if err != nil {
		return err
	}
	if uint64(r.offset) >= q.Counts[state] {
		c.SetOut(appendCount(c.Out(), 0))
		return nil
	}
	cursor, skip := c.walk.at(r)
	page, err := v.List(engine.ListOptions{
		Namespace: c.d.opts.Namespace, Queue: r.name, State: state, After: cursor, Skip: skip, Limit: r.limit,
	})
	if err != nil {
		return err
	}
	c.walk.remember(r, len(page.Jobs), page.Next)
	return c.sendJobs(v, page.Jobs)
}

// sendJobs renders a page of jobs. Its payloads are read one by one: a page could
// have a hundred of a megabyte each.
func (c *conn) sendJobs(v *engine.View, jobs []job.Job) error {
	began, sent := time.Now(), false
	out := appendCount(c.Out(), len(jobs))
	for i := range jobs {
		j, err := v.Get(job.ByID(jobs[i].Namespace, jobs[i].Queue, jobs[i].ID))
		switch {
		case err == nil:
		case sent:
			return &lateError{fmt.Errorf("read job %d of a page: %w", i, err)}
		default:
			return err
		}
		out = appendJob(out, &j)
		if len(out) < pageBytes {
			continue
		}
		c.SetOut(out)
		if err := c.Flush(); err != nil {
			return &lateError{err}
		}
		if time.Since(began) > pageTime {
			return &lateError{errSlowPage}
		}
		out, sent = c.Out(), true
	}
	c.SetOut(out)
	return nil
}

// errSlowPage ends a connection that keeps a page waiting.
var errSlowPage = errors.New("page not read in time")
