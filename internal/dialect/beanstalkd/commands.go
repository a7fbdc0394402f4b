package beanstalkd

import (
	"math"
	"slices"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// defaultTube is there from the start, and is what a connection uses and watches at first.
const defaultTube = "default"

// command takes c.req into the unit.
func (c *conn) command(u *dialect.Unit, body []byte) (later bool) {
	r := &c.req
	c.d.asked[r.verb].Add(1)
	if r.verb == verbPut && !c.producer {
		c.producer = true
		c.d.producers.Add(1)
	}
	if r.text != "" {
		u.Refuse(r.text)
		return false
	}
	switch r.verb {
	case verbPut:
		cmd := u.Pushes.Get()
		c.spec(&cmd.Spec, body)
		u.Add(cmd)
	case verbDelete, verbRelease, verbBury, verbTouch, verbKick, verbKickJob:
		c.change(u)
	case verbUse:
		c.use(c.names.String(r.tube))
		u.Tell("USING " + c.used.name + crlf)
	case verbWatch, verbIgnore:
		c.choose(u)
	case verbListTubeUsed:
		u.Tell("USING " + c.used.name + crlf)
	case verbReserve, verbReserveTimeout, verbReserveJob:
		c.prepareReserve()
		return true
	case verbPauseTube, verbQuit, verbPeek, verbPeekReady, verbPeekDelayed, verbPeekBuried, verbStatsJob, verbStatsTube,
		verbStats, verbListTubes,
		verbListTubesWatched:
		return true
	case verbUnknown: // it has a text
	}
	return false
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// spec fills in what a put fixes.
func (c *conn) spec(s *job.Spec, body []byte) {
	r := &c.req
	s.Namespace, s.Queue = c.d.opts.Namespace, c.used.name
	s.Body = body
	s.Delay = seconds(r.delay)
	fill(s, r.priority, seconds(r.ttr))
}

// fill fills in what all jobs have.
func fill(s *job.Spec, pri uint32, ttr time.Duration) {
	s.Numbered = true
	s.BodyKind = job.BodyBytes
	s.Origin = dialect.DoorBeanstalkd
	s.Policy = job.Policy{
		Priority: priority(pri),
		Lease:    max(ttr, time.Second),
		Lapse:    job.LapseRequeue,
		// Equals come by their ids, wherever they come back from.
		Requeue: job.PlaceOld,
		Due:     job.PlaceOld,
	}
}

// priority is the engine's, of which the higher comes first.
func priority(p uint32) int64 { return -int64(p) }

// change adds one of the commands about jobs to the unit.
func (c *conn) change(u *dialect.Unit) {
	r := &c.req
	ref := refOf(c.d.opts.Namespace, r.id)
	switch r.verb { //nolint:exhaustive // command has chosen
	case verbDelete:
		cmd := u.Deletes.Get()
		*cmd = job.Delete{Ref: ref, In: visible, By: c.holder, Need: job.NeedFree, AckHeld: true}
		u.Add(cmd)
	case verbRelease:
		cmd := u.Releases.Get()
		*cmd = job.Release{
			Ref: ref, By: c.holder, Need: job.NeedHeld, Place: job.PlaceOld, Delay: seconds(r.delay), SetPriority: true,
			Priority: priority(r.priority),
		}
		u.Add(cmd)
	case verbBury:
		cmd := u.Buries.Get()
		*cmd = job.Bury{
			Ref: ref, By: c.holder, Need: job.NeedHeld, Last: true, SetPriority: true,
			Priority: priority(r.priority),
		}
		u.Add(cmd)
	case verbTouch:
		cmd := u.Touches.Get()
		*cmd = job.Touch{Ref: ref, By: c.holder, Need: job.NeedHeld, Restart: true}
		u.Add(cmd)
	case verbKick:
		cmd := u.Kicks.Get()
		*cmd = job.Kick{
			Namespace: c.d.opts.Namespace, Queue: c.used.name, From: job.KickEither,
			Count: int(min(r.bound, math.MaxInt32)),
		}
		u.Add(cmd)
	case verbKickJob:
		cmd := u.Kicks.Get()
		*cmd = job.Kick{Ref: ref, One: true, From: job.KickEither}
		u.Add(cmd)
	}
}

// visible are the states of the jobs that this protocol has: what is finished is gone for it.
var visible = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried, job.Dead)

// use has the connection use another tube.
func (c *conn) use(name string) {
	if name != c.used.name {
		old := c.used.name
		c.used = c.d.tubes.use(name)
		c.d.tubes.change(old, -1, 0)
	}
}

// watch adds a tube to those that the connection watches.
func (c *conn) watch(name string) {
	t := c.d.tubes.watch(name)
	c.watched = append(c.watched, t)
	c.queues = append(c.queues, t.name)
}

// choose watches or ignores a tube.
func (c *conn) choose(u *dialect.Unit) {
	r := &c.req
	name := c.names.String(r.tube)
	at := slices.Index(c.queues, name)
	switch {
	case r.verb == verbWatch && at < 0 && (len(c.queues) == watchMax || !c.d.opts.Shared.HoldName()):
		u.Refuse(replyNoMemory)
		return
	case r.verb == verbWatch && at < 0:
		c.watch(name)
	case r.verb == verbIgnore && at >= 0 && len(c.queues) == 1:
		u.Refuse(replyNotIgnored)
		return
	case r.verb == verbIgnore && at >= 0:
		c.d.tubes.change(name, 0, -1)
		c.d.opts.Shared.DropNames(1)
		c.watched = slices.Delete(c.watched, at, at+1)
		c.queues = slices.Delete(c.queues, at, at+1)
	}
	u.Tell("WATCHING " + strconv.Itoa(len(c.queues)) + crlf)
}

// prepareReserve fills in c.fetch, which runs after the unit.
func (c *conn) prepareReserve() {
	if !c.worker {
		c.worker = true
		c.d.workers.Add(1)
	}
	r := &c.req
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: c.queues, Pick: job.PickBest, Max: 1,
		Holder: c.holder, Exclusive: true, OnEnd: job.EndRelease, Door: dialect.DoorBeanstalkd, Margin: margin,
	}
	switch r.verb { //nolint:exhaustive // command has chosen
	case verbReserveJob:
		c.fetch.One, c.fetch.Ref = true, refOf(c.d.opts.Namespace, r.id)
	case verbReserve:
		c.fetch.Wait = job.WaitForever
	default:
		c.fetch.Wait = seconds(r.delay)
	}
	if len(c.queues) == 1 {
		c.fetch.Pick = job.PickInOrder // the same, and cheaper
	}
}

// runPause pauses a tube, which must be there, or lets it go on.
func (c *conn) runPause() {
	name := c.names.String(c.req.tube)
	there, err := c.d.exists(name)
	switch {
	case err != nil:
		c.fail(refusal(c.d.ReadFailed(err)))
		return
	case !there:
		c.fail(replyNotFound)
		return
	}
	var cmd job.Command = &job.Pause{Namespace: c.d.opts.Namespace, Queue: name, For: seconds(c.req.delay), Make: true}
	if c.req.delay == 0 {
		cmd = &job.Resume{Namespace: c.d.opts.Namespace, Queue: name}
	}
	if err := c.Run(cmd)[0].Err; err != nil {
		c.fail(refusal(err.Kind))
		return
	}
	c.SetOut(append(c.Out(), replyPaused...))
}
