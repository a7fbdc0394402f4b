package tarantool

import (
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// method returns the command of a method of tubes by its name; unknown if there is none.
func method(name []byte) command {
	switch string(name) {
	case "put":
		return commandPut
	case "take":
		return commandTake
	case "ack":
		return commandAck
	case "release":
		return commandRelease
	case "peek":
		return commandPeek
	case "bury":
		return commandBury
	case "kick":
		return commandKick
	case "delete":
		return commandDelete
	case "touch":
		return commandTouch
	case "truncate":
		return commandTruncate
	case "release_all":
		return commandReleaseAll
	case "drop":
		return commandDrop
	case "grant":
		return commandGrant
	case "on_task_change":
		return commandOnTaskChange
	}
	return commandUnknown
}

func take(c *call) {
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
		Namespace: c.conn.d.opts.Namespace, Max: 1, Wait: max(wait, 0), Holder: c.conn.owner(), Exclusive: true,
		OnEnd: job.EndRelease, Door: dialect.DoorTarantool,
	}, c.tube.name, taken)
}

func taken(c *call, res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		c.task(&res.Jobs[0])
	case res.Err == nil, res.Err.Kind == job.Timeout, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.nothing()
	default:
		c.refuse(res.Err)
	}
}

// taskID reads the id of a task, the first argument, into c.id. If it is none it
// answers that.
func (c *call) taskID() bool {
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
	c.id = id
	return true
}

// foreign is added to the ids of jobs that have no number in their queue, because
// they came into it before it was a tube. No tube counts so far.
const foreign = 1 << 52

// ref names the task that the client calls by c.id.
func (c *call) ref() job.Ref {
	if c.id >= foreign {
		return job.ByID(c.conn.d.opts.Namespace, c.tube.name, job.ID(c.id-foreign))
	}
	return job.BySerial(c.conn.d.opts.Namespace, c.tube.name, c.id)
}

// shownID is the id under which a client is shown a job.
func shownID(j *job.Job) uint64 {
	if j.Flags.Has(job.FlagSerial) {
		return j.Serial
	}
	return uint64(j.ID) + foreign
}

// notFound answers that there is no such task.
func (c *call) notFound() { c.raise("Task " + strconv.FormatUint(c.id, 10) + " not found") }

func ack(c *call) {
	if !c.taskID() {
		return
	}
	cmd := c.newAck()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = c.ref(), c.conn.owner(), job.NeedHeld, true
	c.submit(cmd, acked)
}

func acked(c *call, res *job.Result) {
	if res.Err != nil {
		c.settleRefused(res.Err)
		return
	}
	c.answerTask(&res.Jobs[0], taskDone)
}

// settleRefused answers that a task could not be settled by its taker. Whatever the
// reason, the text is the same.
func (c *call) settleRefused(err *job.Error) {
	if err.Kind == job.NotFound {
		c.raise(textNotTaken)
		return
	}
	c.refuse(err)
}

func release(c *call) {
	if !c.taskID() {
		return
	}
	opts, ok := c.args.At(1).Fields()
	if !ok {
		c.raise(textInvalid)
		return
	}
	delay := time.Duration(0)
	for key, val, more := opts.Next(); more && c.tube.kind.timed(); key, val, more = opts.Next() {
		if name, _ := key.Bytes(); string(name) != "delay" || val.IsNil() {
			continue
		}
		if delay, ok = secondsOf(val); !ok {
			c.raise(textInvalid)
			return
		}
	}
	cmd := c.newRelease()
	cmd.Ref, cmd.By, cmd.Need, cmd.Want = c.ref(), c.conn.owner(), job.NeedHeld, true
	cmd.Place, cmd.Delay, cmd.StretchTTL = job.PlaceOld, max(delay, 0), true
	c.submit(cmd, released)
}

func released(c *call, res *job.Result) {
	cmd, _ := c.cmd.(*job.Release)
	state := taskReady // somebody may have taken it by now, which is not the releaser's business
	if cmd.Delay > 0 {
		state = taskDelayed
	}
	c.settled(res, state)
}

// settled answers a command of the taker that has left the task there.
func (c *call) settled(res *job.Result, state string) {
	switch {
	case res.Err != nil:
		c.settleRefused(res.Err)
	case len(res.Jobs) == 0: // its time to live ended in that moment
		c.raise(textNotTaken)
	default:
		c.answerTask(&res.Jobs[0], state)
	}
}

func peek(c *call) {
	if !c.taskID() {
		return
	}
	c.settle()
	j, err := c.engine().Get(c.ref())
	switch {
	case err == nil:
		c.task(&j)
	case isNotFound(err):
		c.notFound()
	default:
		c.readFailed(err)
	}
}

func bury(c *call) {
	if c.taskID() {
		c.submit(&job.Bury{Ref: c.ref(), Need: job.NeedAny, Want: true}, buried)
	}
}

func buried(c *call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound, res.Err == nil && len(res.Jobs) == 0:
		c.notFound()
	case res.Err != nil:
		c.refuse(res.Err)
	default:
		c.task(&res.Jobs[0])
	}
}

func remove(c *call) {
	if c.taskID() {
		c.submit(&job.Delete{Ref: c.ref(), Need: job.NeedAny, Want: true}, removed)
	}
}

func removed(c *call, res *job.Result) {
	switch {
	case res.Err != nil && res.Err.Kind == job.NotFound:
		c.notFound()
	case res.Err != nil:
		c.refuse(res.Err)
	default:
		c.answerTask(&res.Jobs[0], taskDone)
	}
}

func kick(c *call) {
	count := 1.0
	if arg := c.args.At(0); !arg.IsNil() {
		var ok bool
		if count, ok = arg.Number(); !ok {
			c.raise(textInvalid)
			return
		}
	}
	if count > kickStep {
		c.kickMany(count)
		return
	}
	c.submit(c.kickCommand(int(max(count, 0))), kicked)
}

func (c *call) kickCommand(count int) *job.Kick {
	return &job.Kick{Namespace: c.conn.d.opts.Namespace, Queue: c.tube.name, Count: count}
}

// kickStep is how many tasks are brought back in one step: others must get their turn.
const kickStep = 1000

// kickMany brings back at most count of the tasks that are buried now.
func (c *call) kickMany(count float64) {
	c.settle()
	q, _, err := c.engine().Queue(c.conn.d.opts.Namespace, c.tube.name)
	if err != nil {
		c.readFailed(err)
		return
	}
	most := int(min(count, float64(q.Counts[job.Buried])))
	var all job.Result
	for all.Count < most {
		step := min(kickStep, most-all.Count)
		res := c.do(c.kickCommand(step))[0]
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

func touch(c *call) {
	more, ok := secondsOf(c.args.At(1))
	if !ok && !c.args.At(1).IsNil() {
		c.raise(textInvalid)
		return
	}
	if more <= 0 {
		c.nothing()
		return
	}
	if !c.taskID() {
		return
	}
	if !c.tube.kind.timed() {
		c.touchRefused()
		return
	}
	c.submit(&job.Touch{Ref: c.ref(), By: c.conn.owner(), Need: job.NeedHeld, Add: more, Want: true}, touched)
}

func touched(c *call, res *job.Result) { c.settled(res, taskTaken) }

// touchRefused answers a touch in a tube whose tasks have no time: whose task it is
// is looked at first.
func (c *call) touchRefused() {
	c.settle()
	j, err := c.engine().Get(c.ref())
	if err == nil && j.State == job.Leased && j.Lease.Holder == c.conn.owner() {
		c.raise(kindNames[c.tube.kind] + " queue does not support touch")
		return
	}
	c.raise(textNotTaken)
}

func truncate(c *call) {
	c.submit(&job.Remove{Namespace: c.conn.d.opts.Namespace, Queue: c.tube.name, KeepQueue: true}, done)
}

func releaseAll(c *call) {
	c.submit(&job.ReleaseAll{Namespace: c.conn.d.opts.Namespace, Queue: c.tube.name}, done)
}

// done answers a command that returns nothing.
func done(c *call, res *job.Result) {
	if res.Err != nil && res.Err.Kind != job.NotFound {
		c.refuse(res.Err)
		return
	}
	c.nothing()
}

func drop(c *call) {
	res := c.do(&job.Remove{Namespace: c.conn.d.opts.Namespace, Queue: c.tube.name, IfIdle: true})
	if err := res[0].Err; err != nil && err.Kind != job.NotFound {
		c.refuse(err)
		return
	}
	r := c.begin()
	r.lone()
	r.boolean(true)
	c.end(&r)
}
