package tarantool

import (
	"errors"
	"time"

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

// legacyProcedure returns the command of a procedure of the legacy set, which works on space and tube, by its name;
// unknown if there is none.
func legacyProcedure(name []byte) command {
	switch string(name) {
	case "queue.put":
		return commandLegacyPut
	case "queue.urgent":
		return commandLegacyUrgent
	case "queue.put_unique":
		return commandLegacyPutUnique
	case "queue.take":
		return commandLegacyTake
	case "queue.ack":
		return commandLegacyAck
	case "queue.done":
		return commandLegacyDone
	case "queue.release":
		return commandLegacyRelease
	case "queue.requeue":
		return commandLegacyRequeue
	case "queue.bury":
		return commandLegacyBury
	case "queue.touch":
		return commandLegacyTouch
	case "queue.dig":
		return commandLegacyDig
	case "queue.unbury":
		return commandLegacyUnbury
	case "queue.kick":
		return commandLegacyKick
	case "queue.delete":
		return commandLegacyDelete
	case "queue.peek":
		return commandLegacyPeek
	case "queue.meta":
		return commandLegacyMeta
	case "queue.truncate":
		return commandLegacyTruncate
	case "queue.restart_check":
		return commandLegacyRestartCheck
	case "queue.statistics":
		return commandLegacyStatistics
	case "queue.statistic":
		return commandLegacyStatistic
	}
	return commandUnknown
}

// legacyTarget reads space and tube, which the call then keeps. It answers if they
// are none.
func (c *call) legacyTarget() (namespace string, ok bool) {
	space, okSpace := legacySpace(c.args.At(0))
	name, okTube := c.args.At(1).Bytes()
	if !okSpace || !okTube || len(name) == 0 || len(name) > legacyTubeMax {
		c.raise(textInvalid)
		return "", false
	}
	c.space, c.text = space, c.conn.names.String(name)
	return c.conn.legacyNamespace(space), true
}

// legacyTaskRef reads space and id. It answers if there can be no such task.
func (c *call) legacyTaskRef() (ref job.Ref, ok bool) {
	space, ok := legacySpace(c.args.At(0))
	if !ok {
		c.raise(textInvalid)
		return ref, false
	}
	c.space = space
	if ref, ok = legacyRef(c.conn.legacyNamespace(space), c.args.At(1)); !ok {
		c.raise(textNotFound)
	}
	return ref, ok
}

// tally counts calls for statistics.
func (c *call) tally(tube string, counter legacyCounter, n uint64) {
	c.conn.d.legacy.add(legacyTube{c.space, tube}, counter, n)
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

// legacySettled returns the end of a procedure that answers the one task it was
// about, with a status or, if that is empty, with the status that the task has now.
// The task may have been given to the next worker already.
func legacySettled(counter legacyCounter, owner, status string) doneFunc {
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
		c.tally(j.Queue, counter, 1)
		if status == "" {
			c.legacyTask(j, legacyStatus(j.State))
			return
		}
		c.legacyTask(j, status)
	}
}

var (
	legacyAcked     = legacySettled(legacyCountAck, legacyTextOwnerAck, legacyTaken)
	legacyFinished  = legacySettled(legacyCountDone, legacyTextOwnerDone, legacyDone)
	legacyReleased  = legacySettled(legacyCountRelease, legacyTextOwnerRelease, legacyReady)
	legacyPostponed = legacySettled(legacyCountRelease, legacyTextOwnerRelease, legacyDelayed)
	legacyRequeued  = legacySettled(legacyCountRequeue, legacyTextOwnerRelease, legacyReady)
	legacyIsBuried  = legacySettled(legacyCountBury, legacyTextOwnerDone, legacyBuried)
	legacyTouched   = legacySettled(legacyCountTouch, legacyTextOwnerTouch, legacyTaken)
	legacyDeleted   = legacySettled(legacyCountDelete, legacyTextNotTaken, "")
	legacyDug       = legacySettled(legacyCountDig, legacyTextNotBuried, legacyReady)
)

func (c *call) legacyAck() {
	if ref, ok := c.legacyTaskRef(); ok {
		cmd := c.newAck()
		cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
		c.submit(cmd, legacyAcked)
	}
}

// legacyFinish is queue.done: the task stays, with other data.
func (c *call) legacyFinish() {
	ref, ok := c.legacyTaskRef()
	if !ok {
		return
	}
	cmd := c.newAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
	cmd.Keep, cmd.NewBody = true, true
	cmd.Body, cmd.BodyKind = storedBody(legacyData(&c.args, 2))
	c.submit(cmd, legacyFinished)
}

func (c *call) legacyRelease() {
	ref, ok := c.legacyTaskRef()
	if !ok {
		return
	}
	delay, okDelay := legacySeconds(c.args.At(2), 0)
	ttl, okTTL := legacySeconds(c.args.At(3), 0)
	if !okDelay || !okTTL {
		c.raise(textInvalid)
		return
	}
	done := legacyReleased
	if delay > 0 {
		done = legacyPostponed
	}
	c.legacyGiveBack(ref, job.PlaceOld, delay, ttl, done)
}

func (c *call) legacyRequeue() {
	if ref, ok := c.legacyTaskRef(); ok {
		c.legacyGiveBack(ref, job.PlaceBack, 0, 0, legacyRequeued)
	}
}

func (c *call) legacyGiveBack(ref job.Ref, place job.Place, delay, ttl time.Duration, done doneFunc) {
	cmd := c.newRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = ref, c.conn.own, job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.TTL = place, delay, ttl
	c.submit(cmd, done)
}

func (c *call) legacyBury() {
	if ref, ok := c.legacyTaskRef(); ok {
		c.submit(&job.Bury{Ref: ref, By: c.conn.own, Need: job.NeedHeld, Want: true}, legacyIsBuried)
	}
}

func (c *call) legacyTouch() {
	if ref, ok := c.legacyTaskRef(); ok {
		c.submit(&job.Touch{Ref: ref, By: c.conn.own, Need: job.NeedHeld, Restart: true, Want: true}, legacyTouched)
	}
}

func (c *call) legacyDelete() {
	if ref, ok := c.legacyTaskRef(); ok {
		c.submit(&job.Delete{Ref: ref, By: c.conn.own, Need: job.NeedAny, Want: true}, legacyDeleted)
	}
}

// legacyDig makes one buried task ready.
func (c *call) legacyDig() {
	if ref, ok := c.legacyTaskRef(); ok {
		c.submit(&job.Kick{Ref: ref, One: true, Want: true}, func(c *call, res *job.Result) {
			if res.Err != nil && res.Err.Kind == job.BadState {
				c.raise(legacyTextNotBuried)
				return
			}
			legacyDug(c, res)
		})
	}
}

// legacyKick makes several buried tasks of a tube ready.
func (c *call) legacyKick() {
	namespace, ok := c.legacyTarget()
	if !ok {
		return
	}
	count, ok := legacyCount(c.args.At(2))
	if !ok {
		c.raise(textInvalid)
		return
	}
	c.submit(&job.Kick{Namespace: namespace, Queue: c.text, Count: count}, func(c *call, res *job.Result) {
		c.legacyNumber(res, legacyCountDig)
	})
}

// legacyTruncate removes all tasks of a tube.
func (c *call) legacyTruncate() {
	namespace, ok := c.legacyTarget()
	if !ok {
		return
	}
	c.submit(&job.Remove{Namespace: namespace, Queue: c.text, KeepQueue: true}, func(c *call, res *job.Result) {
		if res.Err != nil && res.Err.Kind == job.NotFound {
			res.Err = nil // a tube that nobody has used is empty
		}
		c.legacyNumber(res, legacyCountDelete)
	})
}

// legacyNumber answers how many tasks something was done to.
func (c *call) legacyNumber(res *job.Result, counter legacyCounter) {
	if res.Err != nil {
		c.refuse(res.Err)
		return
	}
	c.tally(c.text, counter, uint64(res.Count)) //nolint:gosec // not negative
	r := c.begin()
	r.lone()
	r.u32(uint32(res.Count)) //nolint:gosec // the engine bounds it
	c.end(&r)
}

// legacyRestartCheck asks whether the tube is looked after, which it always is.
func (c *call) legacyRestartCheck() {
	if _, ok := c.legacyTarget(); ok {
		r := c.begin()
		r.lone()
		r.str("already started")
		c.end(&r)
	}
}

func (c *call) legacyPeek() {
	if j, ok := c.legacyGet(); ok {
		c.tally(j.Queue, legacyCountPeek, 1)
		c.legacyTask(&j, legacyStatus(j.State))
	}
}

func (c *call) legacyShowMeta() {
	if j, ok := c.legacyGet(); ok {
		c.tally(j.Queue, legacyCountMeta, 1)
		c.legacyMeta(&j, c.engine().Now())
	}
}

// legacyGet reads the task that the call names. It answers if there is none.
func (c *call) legacyGet() (j job.Job, ok bool) {
	ref, ok := c.legacyTaskRef()
	if !ok {
		return j, false
	}
	c.settle()
	j, err := c.engine().Get(ref)
	if err != nil {
		c.legacyReadFailed(err)
		return j, false
	}
	return j, true
}

// legacyReadFailed answers an error of a read.
func (c *call) legacyReadFailed(err error) {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		c.refuse(refused)
		return
	}
	c.readFailed(err)
}
