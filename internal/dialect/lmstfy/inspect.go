package lmstfy

import (
	"errors"
	"net/http"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// The calls of this file read committed data: what a client was told before is in it.

// size tells how many jobs of a state a queue has.
func (x *exchange) size(state job.State) {
	info, _, err := x.d.opts.Engine.Queue(x.home, x.queue)
	if err != nil {
		x.failed(err)
		return
	}
	b := getBuffer()
	defer putBuffer(b)
	b.out = appendSize(b.out, x.namespace, x.queue, "size", info.Counts[state])
	x.reply(http.StatusOK, b.out)
}

// peek shows the job that is next.
func (x *exchange) peek() {
	page, err := x.d.opts.Engine.List(engine.ListOptions{
		Namespace: x.home, Queue: x.queue, State: job.Ready,
		Limit: 1, Bodies: true,
	})
	if err != nil && !isNotFound(err) {
		x.failed(err)
		return
	}
	if len(page.Jobs) == 0 {
		x.fail(http.StatusNotFound, textQueueEmpty)
		return
	}
	x.show(&page.Jobs[0])
}

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*job.Error](err)
	return ok && refused.Kind == job.NotFound
}

// peekJob shows a job in any state, but not one that is done or whose time has run
// out.
func (x *exchange) peekJob() {
	if len(x.id) > idMax {
		x.fail(http.StatusNotFound, textNoJob)
		return
	}
	j, err := x.d.opts.Engine.Get(refTo(x.home, x.queue, x.id))
	if err != nil {
		x.failed(err)
		return
	}
	if at := j.Policy.ExpireAt; j.State.Finished() || at != 0 && at <= x.d.opts.Engine.Now() {
		x.fail(http.StatusNotFound, textNoJob)
		return
	}
	x.show(&j)
}

func (x *exchange) show(j *job.Job) {
	x.pool.read.Add(1)
	b := getBuffer()
	defer putBuffer(b)
	b.out = appendJob(b.out, x.namespace, j, x.d.opts.Engine.Now(), false)
	x.reply(http.StatusOK, b.out)
}

// peekDead tells how many dead jobs there are, and the first of them.
func (x *exchange) peekDead() {
	size, head, err := x.dead()
	if err != nil {
		x.failed(err)
		return
	}
	b := getBuffer()
	defer putBuffer(b)
	b.out = appendDead(b.out, x.namespace, x.queue, size, head)
	x.reply(http.StatusOK, b.out)
}

// dead reads both from one view, so that they agree.
func (x *exchange) dead() (size uint64, head *job.Job, err error) {
	err = x.d.opts.Engine.Read(func(v *engine.View) error {
		info, ok, err := v.Queue(x.home, x.queue)
		if err != nil || !ok {
			return err
		}
		page, err := v.List(engine.ListOptions{
			Namespace: x.home, Queue: x.queue, State: job.Dead, Limit: 1, Bodies: true,
		})
		size = info.Counts[job.Dead]
		if len(page.Jobs) > 0 {
			head = &page.Jobs[0]
		}
		return err
	})
	return size, head, err
}
