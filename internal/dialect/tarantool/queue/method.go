package queue

import (
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

func (q *Client) take(c *proc.Call) {
	wait := job.WaitForever
	if arg := c.Args.At(0); !arg.IsNil() {
		f, ok := arg.Number()
		if !ok {
			c.Raise(proc.TextInvalid)
			return
		}
		if wait = proc.Seconds(f); wait >= proc.Century {
			wait = job.WaitForever
		}
	}
	owner, kept := q.owner(), q.keep(false)
	c.Fetch(&job.Fetch{
		Namespace: q.namespace, Max: 1, Wait: max(wait, 0), Holder: owner, Exclusive: true,
		// a restart must not undo what is kept through it
		OnEnd: job.EndRelease, Door: dialect.DoorTarantool, Firm: kept,
	}, q.tube.name, taken)
}

func taken(c *proc.Call, res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		showTask(c, &res.Jobs[0])
	case res.Err == nil, res.Err.Kind == job.Timeout, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.Nothing()
	default:
		c.Refuse(res.Err)
	}
}

// taskID reads the id of a task, the first argument, into c.Number. If it is none it
// answers that.
func taskID(c *proc.Call) bool {
	arg := c.Args.At(0)
	if arg.IsNil() {
		c.Fail(iproto.CodeKeyParts, "Invalid key part count in an exact match (expected 1, got 0)")
		return false
	}
	id, ok := arg.Uint()
	if !ok {
		c.Fail(iproto.CodeKeyType, "Supplied key type of part 0 does not match index part type: expected unsigned")
		return false
	}
	c.Number = id
	return true
}

// foreign is added to the ids of jobs that have no number in their queue, because
// they came into it before it was a tube. No tube counts so far.
const foreign = 1 << 52

// ref names the task that the client calls by c.Number.
func (q *Client) ref(c *proc.Call) job.Ref {
	if c.Number >= foreign {
		return job.ByID(q.namespace, q.tube.name, job.ID(c.Number-foreign))
	}
	return job.BySerial(q.namespace, q.tube.name, c.Number)
}

// shownID is the id under which a client is shown a job.
func shownID(j *job.Job) uint64 {
	if j.Flags.Has(job.FlagSerial) {
		return j.Serial
	}
	return uint64(j.ID) + foreign
}

// notFound answers that there is no such task.
func notFound(c *proc.Call) { c.Raise("Task " + strconv.FormatUint(c.Number, 10) + " not found") }

func (q *Client) ack(c *proc.Call) {
	if !taskID(c) {
		return
	}
	cmd := c.NewAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = q.ref(c), q.owner(), job.NeedHeld, true
	c.Submit(cmd, acked)
}

func acked(c *proc.Call, res *job.Result) {
	if res.Err != nil {
		settleRefused(c, res.Err)
		return
	}
	answerTask(c, &res.Jobs[0], taskDone)
}

// settleRefused answers that a task could not be settled by its taker. Whatever the
// reason, the text is the same.
func settleRefused(c *proc.Call, err *job.Error) {
	if err.Kind == job.NotFound {
		c.Raise(proc.TextNotTaken)
		return
	}
	c.Refuse(err)
}

func (q *Client) release(c *proc.Call) {
	if !taskID(c) {
		return
	}
	opts, ok := c.Args.At(1).Fields()
	if !ok {
		c.Raise(proc.TextInvalid)
		return
	}
	delay := time.Duration(0)
	for key, val, more := opts.Next(); more && q.tube.kind.timed(); key, val, more = opts.Next() {
		if name, _ := key.Bytes(); string(name) != "delay" || val.IsNil() {
			continue
		}
		if delay, ok = secondsOf(val); !ok {
			c.Raise(proc.TextInvalid)
			return
		}
	}
	cmd := c.NewRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = q.ref(c), q.owner(), job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.StretchTTL = job.PlaceOld, max(delay, 0), true
	c.Submit(cmd, released)
}

func released(c *proc.Call, res *job.Result) {
	cmd, _ := c.Command.(*job.Release)
	state := taskReady // somebody may have taken it by now, which is not the releaser's business
	if cmd.Delay > 0 {
		state = taskDelayed
	}
	settled(c, res, state)
}

// settled answers a command of the taker that has left the task there.
func settled(c *proc.Call, res *job.Result, state string) {
	switch {
	case res.Err != nil:
		settleRefused(c, res.Err)
	case len(res.Jobs) == 0: // its time to live ended in that moment
		c.Raise(proc.TextNotTaken)
	default:
		answerTask(c, &res.Jobs[0], state)
	}
}

func (q *Client) peek(c *proc.Call) {
	if !taskID(c) {
		return
	}
	c.Settle()
	j, err := q.engine.Get(q.ref(c))
	switch {
	case err == nil:
		showTask(c, &j)
	case isNotFound(err):
		notFound(c)
	default:
		c.ReadFailed(err)
	}
}

func (q *Client) bury(c *proc.Call) {
	if taskID(c) {
		c.Submit(&job.Bury{Ref: q.ref(c), Need: job.NeedAny, Want: true}, buried)
	}
}

func buried(c *proc.Call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound, res.Err == nil && len(res.Jobs) == 0:
		notFound(c)
	case res.Err != nil:
		c.Refuse(res.Err)
	default:
		showTask(c, &res.Jobs[0])
	}
}

func (q *Client) remove(c *proc.Call) {
	if taskID(c) {
		c.Submit(&job.Delete{Ref: q.ref(c), Need: job.NeedAny, Want: true}, removed)
	}
}

func removed(c *proc.Call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound:
		notFound(c)
	case res.Err != nil:
		c.Refuse(res.Err)
	default:
		answerTask(c, &res.Jobs[0], taskDone)
	}
}

func (q *Client) kick(c *proc.Call) {
	count := 1.0
	if arg := c.Args.At(0); !arg.IsNil() {
		var ok bool
		if count, ok = arg.Number(); !ok {
			c.Raise(proc.TextInvalid)
			return
		}
	}
	if count > kickStep {
		q.kickMany(c, count)
		return
	}
	c.Submit(q.kickCommand(int(max(count, 0))), kicked)
}

func (q *Client) kickCommand(count int) *job.Kick {
	return &job.Kick{Namespace: q.namespace, Queue: q.tube.name, Count: count}
}

// kickStep is how many tasks are brought back in one step: others must get their turn.
const kickStep = 1000

// kickMany brings back at most count of the tasks that are buried now.
func (q *Client) kickMany(c *proc.Call, count float64) {
	c.Settle()
	found, _, err := q.engine.Queue(q.namespace, q.tube.name)
	if err != nil {
		c.ReadFailed(err)
		return
	}
	most := int(min(count, float64(found.Counts[job.Buried])))
	var all job.Result
	for all.Count < most {
		step := min(kickStep, most-all.Count)
		res := c.Do(q.kickCommand(step))[0]
		all.Count += res.Count
		if all.Err = res.Err; res.Err != nil || res.Count < step {
			break
		}
	}
	kicked(c, &all)
}

func kicked(c *proc.Call, res *job.Result) {
	if res.Err != nil {
		c.Refuse(res.Err)
		return
	}
	r := c.Begin()
	r.Lone()
	r.Uint64(uint64(res.Count)) //nolint:gosec // a count
	c.End(&r)
}

func (q *Client) touch(c *proc.Call) {
	more, ok := secondsOf(c.Args.At(1))
	if !ok && !c.Args.At(1).IsNil() {
		c.Raise(proc.TextInvalid)
		return
	}
	if more <= 0 {
		c.Nothing()
		return
	}
	if !taskID(c) {
		return
	}
	if !q.tube.kind.timed() {
		q.touchRefused(c)
		return
	}
	c.Submit(&job.Touch{Ref: q.ref(c), By: q.owner(), Need: job.NeedHeld, Add: more, Want: true}, touched)
}

func touched(c *proc.Call, res *job.Result) { settled(c, res, taskTaken) }

// touchRefused answers a touch in a tube whose tasks have no time: whose task it is
// is looked at first.
func (q *Client) touchRefused(c *proc.Call) {
	c.Settle()
	j, err := q.engine.Get(q.ref(c))
	if err == nil && j.State == job.Leased && j.Lease.Holder == q.owner() {
		c.Raise(kindNames[q.tube.kind] + " queue does not support touch")
		return
	}
	c.Raise(proc.TextNotTaken)
}

func (q *Client) truncate(c *proc.Call) {
	c.Submit(&job.Remove{Namespace: q.namespace, Queue: q.tube.name, KeepQueue: true}, done)
}

func (q *Client) releaseAll(c *proc.Call) {
	c.Submit(&job.ReleaseAll{Namespace: q.namespace, Queue: q.tube.name}, done)
}

// done answers a command that returns nothing.
func done(c *proc.Call, res *job.Result) {
	if res.Err != nil && res.Err.Kind != job.NotFound {
		c.Refuse(res.Err)
		return
	}
	c.Nothing()
}

func (q *Client) drop(c *proc.Call) {
	res := c.Do(&job.Remove{Namespace: q.namespace, Queue: q.tube.name, IfIdle: true})
	if err := res[0].Err; err != nil && err.Kind != job.NotFound {
		c.Refuse(err)
		return
	}
	r := c.Begin()
	r.Lone()
	r.Bool(true)
	c.End(&r)
}
