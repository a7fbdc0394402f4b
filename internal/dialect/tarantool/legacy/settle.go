package legacy

import (
	"errors"
	"time"

	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// The error texts (B.3).
const (
	textNotTaken  = "Task is not taken"
	textNotBuried = "Task is not buried"
	textTimeout   = "Timeout can't be less then 0"
	textNoData    = "Can not put unique task without data"

	textOwner        = "Only consumer that took the task can it "
	textOwnerAck     = textOwner + "ack"
	textOwnerTouch   = textOwner + "touch"
	textOwnerDone    = textOwner + "done" // bury says so, too
	textOwnerRelease = textOwner + "release"
)

// target reads space and tube, which the call then keeps. It answers if they
// are none.
func (a *API) target(c *proc.Call) (namespace string, ok bool) {
	space, okSpace := readSpace(c.Args.At(0))
	name, okTube := c.Args.At(1).Bytes()
	if !okSpace || !okTube || len(name) == 0 || len(name) > tubeNameMax {
		c.Raise(proc.TextInvalid)
		return "", false
	}
	c.Number, c.Text = space, c.Conn.Names.String(name)
	return a.namespaceOf(c, space), true
}

// taskRef reads space and id. It answers if there can be no such task.
func (a *API) taskRef(c *proc.Call) (ref job.Ref, ok bool) {
	space, ok := readSpace(c.Args.At(0))
	if !ok {
		c.Raise(proc.TextInvalid)
		return ref, false
	}
	c.Number = space
	if ref, ok = readRef(a.namespaceOf(c, space), c.Args.At(1)); !ok {
		c.Raise(proc.TextNotFound)
	}
	return ref, ok
}

// tally counts calls for statistics.
func (a *API) tally(c *proc.Call, tube string, counter counter, n uint64) {
	a.stats.add(tubeName{c.Number, tube}, counter, n)
}

// refusal is the text for a refusal of the engine. Owner is what somebody is
// told who has not taken the task himself.
func refusal(kind job.Kind, owner string) string {
	switch kind {
	case job.NotLeased:
		return textNotTaken
	case job.NotOwner:
		return owner
	case job.NotFound:
		return proc.TextNotFound
	case job.Invalid, job.Duplicate, job.Exists, job.Finished, job.BadState, job.Full, job.Busy, job.Waiting,
		job.Timeout, job.Canceled, job.TooLarge, job.NoSpace, job.Draining, job.Internal, job.Locked, job.Overloaded,
		job.ManyQueues, job.Lapsing:
	}
	return proc.Refusal(kind)
}

// settled returns the end of a procedure that answers the one task it was
// about, with a status or, if that is empty, with the status that the task has now.
// The task may have been given to the next worker already.
func (a *API) settled(counter counter, owner, status string) proc.Done {
	return func(c *proc.Call, res *job.Result) {
		switch {
		case res.Err != nil:
			c.Raise(refusal(res.Err.Kind, owner))
			return
		case len(res.Jobs) == 0: // its time ended in the same moment
			c.Raise(proc.TextNotFound)
			return
		}
		j := &res.Jobs[0]
		a.tally(c, j.Queue, counter, 1)
		if status == "" {
			answerTask(c, j, statusOf(j.State))
			return
		}
		answerTask(c, j, status)
	}
}

func (a *API) ack(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		cmd := c.NewAck()
		cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.Conn.Own, job.NeedHeld, true
		c.Submit(cmd, a.onAck)
	}
}

// finish is queue.done: the task stays, with other data.
func (a *API) finish(c *proc.Call) {
	ref, ok := a.taskRef(c)
	if !ok {
		return
	}
	cmd := c.NewAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.Conn.Own, job.NeedHeld, true
	cmd.Keep, cmd.NewBody = true, true
	cmd.Body, cmd.BodyKind = proc.StoredBody(dataFrom(&c.Args, 2))
	c.Submit(cmd, a.onDone)
}

func (a *API) release(c *proc.Call) {
	ref, ok := a.taskRef(c)
	if !ok {
		return
	}
	delay, okDelay := readSeconds(c.Args.At(2), 0)
	ttl, okTTL := readSeconds(c.Args.At(3), 0)
	if !okDelay || !okTTL {
		c.Raise(proc.TextInvalid)
		return
	}
	done := a.onRelease
	if delay > 0 {
		done = a.onPostpone
	}
	a.giveBack(c, ref, job.PlaceOld, delay, ttl, done)
}

func (a *API) requeue(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		a.giveBack(c, ref, job.PlaceBack, 0, 0, a.onRequeue)
	}
}

func (*API) giveBack(c *proc.Call, ref job.Ref, place job.Place, delay, ttl time.Duration, done proc.Done) {
	cmd := c.NewRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.Conn.Own, job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.TTL = place, delay, ttl
	c.Submit(cmd, done)
}

func (a *API) bury(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		c.Submit(&job.Bury{Ref: ref, By: c.Conn.Own, Need: job.NeedHeld, Want: true}, a.onBury)
	}
}

func (a *API) touch(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		c.Submit(&job.Touch{Ref: ref, By: c.Conn.Own, Need: job.NeedHeld, Restart: true, Want: true}, a.onTouch)
	}
}

func (a *API) remove(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		c.Submit(&job.Delete{Ref: ref, By: c.Conn.Own, Need: job.NeedAny, Want: true}, a.onDelete)
	}
}

// dig makes one buried task ready.
func (a *API) dig(c *proc.Call) {
	if ref, ok := a.taskRef(c); ok {
		c.Submit(&job.Kick{Ref: ref, One: true, Want: true}, func(c *proc.Call, res *job.Result) {
			if res.Err != nil && res.Err.Kind == job.BadState {
				c.Raise(textNotBuried)
				return
			}
			a.onDig(c, res)
		})
	}
}

// kick makes several buried tasks of a tube ready.
func (a *API) kick(c *proc.Call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	count, ok := readCount(c.Args.At(2))
	if !ok {
		c.Raise(proc.TextInvalid)
		return
	}
	c.Submit(&job.Kick{Namespace: namespace, Queue: c.Text, Count: count}, func(c *proc.Call, res *job.Result) {
		a.number(c, res, countDig)
	})
}

// truncate removes all tasks of a tube.
func (a *API) truncate(c *proc.Call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	c.Submit(&job.Remove{Namespace: namespace, Queue: c.Text, KeepQueue: true}, func(c *proc.Call, res *job.Result) {
		if res.Err != nil && res.Err.Kind == job.NotFound {
			res.Err = nil // a tube that nobody has used is empty
		}
		a.number(c, res, countDelete)
	})
}

// number answers how many tasks something was done to.
func (a *API) number(c *proc.Call, res *job.Result, counter counter) {
	if res.Err != nil {
		c.Refuse(res.Err)
		return
	}
	a.tally(c, c.Text, counter, uint64(res.Count)) //nolint:gosec // not negative
	r := c.Begin()
	r.Lone()
	r.Uint32(uint32(res.Count)) //nolint:gosec // the engine bounds it
	c.End(&r)
}

// restartCheck asks whether the tube is looked after, which it always is.
func (a *API) restartCheck(c *proc.Call) {
	if _, ok := a.target(c); ok {
		r := c.Begin()
		r.Lone()
		r.Str("already started")
		c.End(&r)
	}
}

func (a *API) peek(c *proc.Call) {
	if j, ok := a.get(c); ok {
		a.tally(c, j.Queue, countPeek, 1)
		answerTask(c, &j, statusOf(j.State))
	}
}

func (a *API) showMeta(c *proc.Call) {
	if j, ok := a.get(c); ok {
		a.tally(c, j.Queue, countMeta, 1)
		answerMeta(c, &j, a.engine.Now())
	}
}

// get reads the task that the call names. It answers if there is none.
func (a *API) get(c *proc.Call) (j job.Job, ok bool) {
	ref, ok := a.taskRef(c)
	if !ok {
		return j, false
	}
	c.Settle()
	j, err := a.engine.Get(ref)
	if err != nil {
		readFailed(c, err)
		return j, false
	}
	return j, true
}

// readFailed answers an error of a read.
func readFailed(c *proc.Call, err error) {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		c.Refuse(refused)
		return
	}
	c.ReadFailed(err)
}
