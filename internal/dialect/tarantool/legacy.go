package tarantool

import (
	"errors"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// The error texts of the legacy procedures (protocol section B.3).
const (
	legacyTextNotTaken  = "Task is not taken"
	legacyTextNotBuried = "Task is not buried"
	legacyTextTimeout   = "Timeout can't be less then 0"
	legacyTextNoData    = "Can not put unique task without data"

	legacyTextOwner        = "Only consumer that took the task can it "
	legacyTextOwnerAck     = legacyTextOwner + "ack"
	legacyTextOwnerTouch   = legacyTextOwner + "touch"
	legacyTextOwnerDone    = legacyTextOwner + "done" // bury says so, too
	legacyTextOwnerRelease = legacyTextOwner + "release"
)

// legacyAPI is the legacy procedures on the queues of an engine.
type legacyAPI struct {
	engine    *engine.Engine
	namespace string // of space 0
	stats     legacyStats

	// What answers the calls. They are made once, because calls are many.
	onPut, onPutUnique, onTake                      doneFunc
	onAck, onDone, onRelease, onPostpone, onRequeue doneFunc
	onBury, onTouch, onDelete, onDig                doneFunc
}

func newLegacyAPI(e *engine.Engine, namespace string) *legacyAPI {
	a := &legacyAPI{engine: e, namespace: namespace}
	a.onPut, a.onPutUnique, a.onTake = a.putDone, a.uniqueDone, a.takeDone
	a.onAck = a.settled(legacyCountAck, legacyTextOwnerAck, legacyTaken)
	a.onDone = a.settled(legacyCountDone, legacyTextOwnerDone, legacyDone)
	a.onRelease = a.settled(legacyCountRelease, legacyTextOwnerRelease, legacyReady)
	a.onPostpone = a.settled(legacyCountRelease, legacyTextOwnerRelease, legacyDelayed)
	a.onRequeue = a.settled(legacyCountRequeue, legacyTextOwnerRelease, legacyReady)
	a.onBury = a.settled(legacyCountBury, legacyTextOwnerDone, legacyBuried)
	a.onTouch = a.settled(legacyCountTouch, legacyTextOwnerTouch, legacyTaken)
	a.onDelete = a.settled(legacyCountDelete, legacyTextNotTaken, "")
	a.onDig = a.settled(legacyCountDig, legacyTextNotBuried, legacyReady)
	return a
}

// target reads space and tube, which the call then keeps. It answers if they
// are none.
func (a *legacyAPI) target(c *call) (namespace string, ok bool) {
	space, okSpace := legacySpace(c.args.At(0))
	name, okTube := c.args.At(1).Bytes()
	if !okSpace || !okTube || len(name) == 0 || len(name) > legacyTubeMax {
		c.raise(textInvalid)
		return "", false
	}
	c.number, c.text = space, c.conn.names.String(name)
	return a.namespaceOf(c, space), true
}

// taskRef reads space and id. It answers if there can be no such task.
func (a *legacyAPI) taskRef(c *call) (ref job.Ref, ok bool) {
	space, ok := legacySpace(c.args.At(0))
	if !ok {
		c.raise(textInvalid)
		return ref, false
	}
	c.number = space
	if ref, ok = legacyRef(a.namespaceOf(c, space), c.args.At(1)); !ok {
		c.raise(textNotFound)
	}
	return ref, ok
}

// tally counts calls for statistics.
func (a *legacyAPI) tally(c *call, tube string, counter legacyCounter, n uint64) {
	a.stats.add(legacyTube{c.number, tube}, counter, n)
}

// legacyRefusal is the text for a refusal of the engine. Owner is what somebody is
// told who has not taken the task himself.
func legacyRefusal(kind job.Kind, owner string) string {
	switch kind {
	case job.NotLeased:
		return legacyTextNotTaken
	case job.NotOwner:
		return owner
	case job.NotFound:
		return textNotFound
	case job.Invalid, job.Duplicate, job.Exists, job.Finished, job.BadState, job.Full, job.Busy, job.Waiting,
		job.Timeout, job.Canceled, job.TooLarge, job.NoSpace, job.Draining, job.Internal, job.Locked, job.Overloaded, job.ManyQueues, job.Lapsing:
	}
	return refusal(kind)
}

// settled returns the end of a procedure that answers the one task it was
// about, with a status or, if that is empty, with the status that the task has now.
// The task may have been given to the next worker already.
func (a *legacyAPI) settled(counter legacyCounter, owner, status string) doneFunc {
	return func(c *call, res *job.Result) {
		switch {
		case res.Err != nil:
			c.raise(legacyRefusal(res.Err.Kind, owner))
			return
		case len(res.Jobs) == 0: // its time ended in the same moment
			c.raise(textNotFound)
			return
		}
		j := &res.Jobs[0]
		a.tally(c, j.Queue, counter, 1)
		if status == "" {
			legacyTask(c, j, legacyStatus(j.State))
			return
		}
		legacyTask(c, j, status)
	}
}

func (a *legacyAPI) ack(c *call) {
	if ref, ok := a.taskRef(c); ok {
		cmd := c.newAck()
		cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
		c.submit(cmd, a.onAck)
	}
}

// finish is queue.done: the task stays, with other data.
func (a *legacyAPI) finish(c *call) {
	ref, ok := a.taskRef(c)
	if !ok {
		return
	}
	cmd := c.newAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
	cmd.Keep, cmd.NewBody = true, true
	cmd.Body, cmd.BodyKind = storedBody(legacyData(&c.args, 2))
	c.submit(cmd, a.onDone)
}

func (a *legacyAPI) release(c *call) {
	ref, ok := a.taskRef(c)
	if !ok {
		return
	}
	delay, okDelay := legacySeconds(c.args.At(2), 0)
	ttl, okTTL := legacySeconds(c.args.At(3), 0)
	if !okDelay || !okTTL {
		c.raise(textInvalid)
		return
	}
	done := a.onRelease
	if delay > 0 {
		done = a.onPostpone
	}
	a.giveBack(c, ref, job.PlaceOld, delay, ttl, done)
}

func (a *legacyAPI) requeue(c *call) {
	if ref, ok := a.taskRef(c); ok {
		a.giveBack(c, ref, job.PlaceBack, 0, 0, a.onRequeue)
	}
}

func (*legacyAPI) giveBack(c *call, ref job.Ref, place job.Place, delay, ttl time.Duration, done doneFunc) {
	cmd := c.newRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.TTL = place, delay, ttl
	c.submit(cmd, done)
}

func (a *legacyAPI) bury(c *call) {
	if ref, ok := a.taskRef(c); ok {
		c.submit(&job.Bury{Ref: ref, By: c.conn.own, Need: job.NeedHeld, Want: true}, a.onBury)
	}
}

func (a *legacyAPI) touch(c *call) {
	if ref, ok := a.taskRef(c); ok {
		c.submit(&job.Touch{Ref: ref, By: c.conn.own, Need: job.NeedHeld, Restart: true, Want: true}, a.onTouch)
	}
}

func (a *legacyAPI) remove(c *call) {
	if ref, ok := a.taskRef(c); ok {
		c.submit(&job.Delete{Ref: ref, By: c.conn.own, Need: job.NeedAny, Want: true}, a.onDelete)
	}
}

// dig makes one buried task ready.
func (a *legacyAPI) dig(c *call) {
	if ref, ok := a.taskRef(c); ok {
		c.submit(&job.Kick{Ref: ref, One: true, Want: true}, func(c *call, res *job.Result) {
			if res.Err != nil && res.Err.Kind == job.BadState {
				c.raise(legacyTextNotBuried)
				return
			}
			a.onDig(c, res)
		})
	}
}

// kick makes several buried tasks of a tube ready.
func (a *legacyAPI) kick(c *call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	count, ok := legacyCount(c.args.At(2))
	if !ok {
		c.raise(textInvalid)
		return
	}
	c.submit(&job.Kick{Namespace: namespace, Queue: c.text, Count: count}, func(c *call, res *job.Result) {
		a.number(c, res, legacyCountDig)
	})
}

// truncate removes all tasks of a tube.
func (a *legacyAPI) truncate(c *call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	c.submit(&job.Remove{Namespace: namespace, Queue: c.text, KeepQueue: true}, func(c *call, res *job.Result) {
		if res.Err != nil && res.Err.Kind == job.NotFound {
			res.Err = nil // a tube that nobody has used is empty
		}
		a.number(c, res, legacyCountDelete)
	})
}

// number answers how many tasks something was done to.
func (a *legacyAPI) number(c *call, res *job.Result, counter legacyCounter) {
	if res.Err != nil {
		c.refuse(res.Err)
		return
	}
	a.tally(c, c.text, counter, uint64(res.Count)) //nolint:gosec // not negative
	r := c.begin()
	r.lone()
	r.u32(uint32(res.Count)) //nolint:gosec // the engine bounds it
	c.end(&r)
}

// restartCheck asks whether the tube is looked after, which it always is.
func (a *legacyAPI) restartCheck(c *call) {
	if _, ok := a.target(c); ok {
		r := c.begin()
		r.lone()
		r.str("already started")
		c.end(&r)
	}
}

func (a *legacyAPI) peek(c *call) {
	if j, ok := a.get(c); ok {
		a.tally(c, j.Queue, legacyCountPeek, 1)
		legacyTask(c, &j, legacyStatus(j.State))
	}
}

func (a *legacyAPI) showMeta(c *call) {
	if j, ok := a.get(c); ok {
		a.tally(c, j.Queue, legacyCountMeta, 1)
		legacyMeta(c, &j, a.engine.Now())
	}
}

// get reads the task that the call names. It answers if there is none.
func (a *legacyAPI) get(c *call) (j job.Job, ok bool) {
	ref, ok := a.taskRef(c)
	if !ok {
		return j, false
	}
	c.settle()
	j, err := a.engine.Get(ref)
	if err != nil {
		readFailed(c, err)
		return j, false
	}
	return j, true
}

// readFailed answers an error of a read.
func readFailed(c *call, err error) {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		c.refuse(refused)
		return
	}
	c.readFailed(err)
}
