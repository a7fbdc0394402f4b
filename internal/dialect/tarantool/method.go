package tarantool

import (
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

func (q *queueClient) take(c *call) {
	wait := job.WaitForever
	if arg := c.args.At(0); !arg.IsNil() {
		f, ok := arg.Number()
		if !ok {
			c.raise(textInvalid)
			return
		}
		if wait = seconds(f); wait >= century {
			wait = job.WaitForever
		}
	}
	c.fetch(&job.Fetch{
		Namespace: q.namespace, Max: 1, Wait: max(wait, 0), Holder: q.owner(), Exclusive: true,
		OnEnd: job.EndRelease, Door: dialect.DoorTarantool,
	}, q.tube.name, taken)
}

func taken(c *call, res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		showTask(c, &res.Jobs[0])
	case res.Err == nil, res.Err.Kind == job.Timeout, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.nothing()
	default:
		c.refuse(res.Err)
	}
}

// taskID reads the id of a task, the first argument, into c.number. If it is none it
// answers that.
func taskID(c *call) bool {
	arg := c.args.At(0)
	if arg.IsNil() {
		c.fail(iproto.CodeKeyParts, "Invalid key part count in an exact match (expected 1, got 0)")
		return false
	}
	id, ok := arg.Uint()
	if !ok {
		c.fail(iproto.CodeKeyType, "Supplied key type of part 0 does not match index part type: expected unsigned")
		return false
	}
	c.number = id
	return true
}

// foreign is added to the ids of jobs that have no number in their queue, because
// they came into it before it was a tube. No tube counts so far.
const foreign = 1 << 52

// ref names the task that the client calls by c.number.
func (q *queueClient) ref(c *call) job.Ref {
	if c.number >= foreign {
		return job.ByID(q.namespace, q.tube.name, job.ID(c.number-foreign))
	}
	return job.BySerial(q.namespace, q.tube.name, c.number)
}

// shownID is the id under which a client is shown a job.
func shownID(j *job.Job) uint64 {
	if j.Flags.Has(job.FlagSerial) {
		return j.Serial
	}
	return uint64(j.ID) + foreign
}

// notFound answers that there is no such task.
func notFound(c *call) { c.raise("Task " + strconv.FormatUint(c.number, 10) + " not found") }

func (q *queueClient) ack(c *call) {
	if !taskID(c) {
		return
	}
	cmd := c.newAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = q.ref(c), q.owner(), job.NeedHeld, true
	c.submit(cmd, acked)
}

func acked(c *call, res *job.Result) {
	if res.Err != nil {
		settleRefused(c, res.Err)
		return
	}
	answerTask(c, &res.Jobs[0], taskDone)
}

// settleRefused answers that a task could not be settled by its taker. Whatever the
// reason, the text is the same.
func settleRefused(c *call, err *job.Error) {
	if err.Kind == job.NotFound {
		c.raise(textNotTaken)
		return
	}
	c.refuse(err)
}

func (q *queueClient) release(c *call) {
	if !taskID(c) {
		return
	}
	opts, ok := c.args.At(1).Fields()
	if !ok {
		c.raise(textInvalid)
		return
	}
	delay := time.Duration(0)
	for key, val, more := opts.Next(); more && q.tube.kind.timed(); key, val, more = opts.Next() {
		if name, _ := key.Bytes(); string(name) != "delay" || val.IsNil() {
			continue
		}
		if delay, ok = secondsOf(val); !ok {
			c.raise(textInvalid)
			return
		}
	}
	cmd := c.newRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = q.ref(c), q.owner(), job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.StretchTTL = job.PlaceOld, max(delay, 0), true
	c.submit(cmd, released)
}

func released(c *call, res *job.Result) {
	cmd, _ := c.cmd.(*job.Release)
	state := taskReady // somebody may have taken it by now, which is not the releaser's business
	if cmd.Delay > 0 {
		state = taskDelayed
	}
	settled(c, res, state)
}

// settled answers a command of the taker that has left the task there.
func settled(c *call, res *job.Result, state string) {
	switch {
	case res.Err != nil:
		settleRefused(c, res.Err)
	case len(res.Jobs) == 0: // its time to live ended in that moment
		c.raise(textNotTaken)
	default:
		answerTask(c, &res.Jobs[0], state)
	}
}

func (q *queueClient) peek(c *call) {
	if !taskID(c) {
		return
	}
	c.settle()
	j, err := q.engine.Get(q.ref(c))
	switch {
	case err == nil:
		showTask(c, &j)
	case isNotFound(err):
		notFound(c)
	default:
		c.readFailed(err)
	}
}

func (q *queueClient) bury(c *call) {
	if taskID(c) {
		c.submit(&job.Bury{Ref: q.ref(c), Need: job.NeedAny, Want: true}, buried)
	}
}

func buried(c *call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound, res.Err == nil && len(res.Jobs) == 0:
		notFound(c)
	case res.Err != nil:
		c.refuse(res.Err)
	default:
		showTask(c, &res.Jobs[0])
	}
}

func (q *queueClient) remove(c *call) {
	if taskID(c) {
		c.submit(&job.Delete{Ref: q.ref(c), Need: job.NeedAny, Want: true}, removed)
	}
}

func removed(c *call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound:
		notFound(c)
	case res.Err != nil:
		c.refuse(res.Err)
	default:
		answerTask(c, &res.Jobs[0], taskDone)
	}
}

func (q *queueClient) kick(c *call) {
	count := 1.0
	if arg := c.args.At(0); !arg.IsNil() {
		var ok bool
		if count, ok = arg.Number(); !ok {
			c.raise(textInvalid)
			return
		}
	}
	if count > kickStep {
		q.kickMany(c, count)
		return
	}
	c.submit(q.kickCommand(int(max(count, 0))), kicked)
}

func (q *queueClient) kickCommand(count int) *job.Kick {
	return &job.Kick{Namespace: q.namespace, Queue: q.tube.name, Count: count}
}

// kickStep is how many tasks are brought back in one step: others must get their turn.
const kickStep = 1000

// kickMany brings back at most count of the tasks that are buried now.
func (q *queueClient) kickMany(c *call, count float64) {
	c.settle()
	found, _, err := q.engine.Queue(q.namespace, q.tube.name)
	if err != nil {
		c.readFailed(err)
		return
	}
	most := int(min(count, float64(found.Counts[job.Buried])))
	var all job.Result
	for all.Count < most {
		step := min(kickStep, most-all.Count)
		res := c.do(q.kickCommand(step))[0]
		all.Count += res.Count
		if all.Err = res.Err; res.Err != nil || res.Count < step {
			break
		}
	}
	kicked(c, &all)
}

func kicked(c *call, res *job.Result) {
	if res.Err != nil {
		c.refuse(res.Err)
		return
	}
	r := c.begin()
	r.lone()
	r.u64(uint64(res.Count)) //nolint:gosec // a count
	c.end(&r)
}

func (q *queueClient) touch(c *call) {
	more, ok := secondsOf(c.args.At(1))
	if !ok && !c.args.At(1).IsNil() {
		c.raise(textInvalid)
		return
	}
	if more <= 0 {
		c.nothing()
		return
	}
	if !taskID(c) {
		return
	}
	if !q.tube.kind.timed() {
		q.touchRefused(c)
		return
	}
	c.submit(&job.Touch{Ref: q.ref(c), By: q.owner(), Need: job.NeedHeld, Add: more, Want: true}, touched)
}

func touched(c *call, res *job.Result) { settled(c, res, taskTaken) }

// touchRefused answers a touch in a tube whose tasks have no time: whose task it is
// is looked at first.
func (q *queueClient) touchRefused(c *call) {
	c.settle()
	j, err := q.engine.Get(q.ref(c))
	if err == nil && j.State == job.Leased && j.Lease.Holder == q.owner() {
		c.raise(kindNames[q.tube.kind] + " queue does not support touch")
		return
	}
	c.raise(textNotTaken)
}

func (q *queueClient) truncate(c *call) {
	c.submit(&job.Remove{Namespace: q.namespace, Queue: q.tube.name, KeepQueue: true}, done)
}

func (q *queueClient) releaseAll(c *call) {
	c.submit(&job.ReleaseAll{Namespace: q.namespace, Queue: q.tube.name}, done)
}

// done answers a command that returns nothing.
func done(c *call, res *job.Result) {
	if res.Err != nil && res.Err.Kind != job.NotFound {
		c.refuse(res.Err)
		return
	}
	c.nothing()
}

func (q *queueClient) drop(c *call) {
	res := c.do(&job.Remove{Namespace: q.namespace, Queue: q.tube.name, IfIdle: true})
	if err := res[0].Err; err != nil && err.Kind != job.NotFound {
		c.refuse(err)
		return
	}
	r := c.begin()
	r.lone()
	r.boolean(true)
	c.end(&r)
}
