package beanstalkd

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// unitMax is how many commands are submitted as one unit.
	unitMax = 128
	// defaultTube is there from the start, and is what a connection uses and watches at first.
	defaultTube = "default"
)

// reply is what one command of a unit will be answered with.
type reply struct {
	verb    verb
	text    string // of what is known before the engine was asked, with its CR LF
	failed  bool   // that is an error
	command int    // the index of its command in the unit
}

// unit is a series of commands that are submitted together. Units are pooled: their commands are used again.
type unit struct {
	req      engine.Request
	replies  []reply
	pushes   dialect.Freelist[job.Push]
	deletes  dialect.Freelist[job.Delete]
	releases dialect.Freelist[job.Release]
	buries   dialect.Freelist[job.Bury]
	touches  dialect.Freelist[job.Touch]
	kicks    dialect.Freelist[job.Kick]
}

var units = sync.Pool{New: func() any { return new(unit) }}

func getUnit() *unit {
	u, ok := units.Get().(*unit)
	if !ok {
		return new(unit)
	}
	return u
}

func (u *unit) release() {
	clear(u.req.Commands)
	u.req.Commands = u.req.Commands[:0]
	clear(u.replies)
	u.replies = u.replies[:0]
	u.pushes.Release()
	u.deletes.Release()
	u.releases.Release()
	u.buries.Release()
	u.touches.Release()
	u.kicks.Release()
	units.Put(u)
}

// tell adds a reply that is known, refuse one that is an error.
func (u *unit) tell(v verb, text string) { u.replies = append(u.replies, reply{verb: v, text: text}) }

func (u *unit) refuse(v verb, text string) {
	u.replies = append(u.replies, reply{verb: v, text: text, failed: true})
}

// add adds a command and the reply that will tell its result.
func (u *unit) add(v verb, cmd job.Command) {
	u.replies = append(u.replies, reply{verb: v, command: len(u.req.Commands)})
	u.req.Commands = append(u.req.Commands, cmd)
}

// command takes c.req into the unit.
func (c *conn) command(u *unit, body []byte) after {
	r := &c.req
	c.d.asked[r.verb].Add(1)
	if r.verb == verbPut && !c.producer {
		c.producer = true
		c.d.producers.Add(1)
	}
	if r.text != "" {
		u.refuse(r.verb, r.text)
		return afterNothing
	}
	switch r.verb {
	case verbPut:
		cmd := u.pushes.Get()
		c.spec(&cmd.Spec, body)
		u.add(r.verb, cmd)
	case verbDelete, verbRelease, verbBury, verbTouch, verbKick, verbKickJob:
		c.change(u)
	case verbUse:
		c.use(c.names.String(r.tube))
		u.tell(r.verb, "USING "+c.used.name+crlf)
	case verbWatch, verbIgnore:
		c.choose(u)
	case verbListTubeUsed:
		u.tell(r.verb, "USING "+c.used.name+crlf)
	case verbReserve, verbReserveTimeout, verbReserveJob:
		c.prepareReserve()
		return afterReserve
	case verbPauseTube:
		return afterPause
	case verbPeek, verbPeekReady, verbPeekDelayed, verbPeekBuried, verbStatsJob, verbStatsTube, verbStats, verbListTubes,
		verbListTubesWatched:
		return afterRead
	case verbQuit:
		return afterQuit
	case verbUnknown: // it has a text
	}
	return afterNothing
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// spec fills in what a put fixes.
func (c *conn) spec(s *job.Spec, body []byte) {
	r := &c.req
	s.Namespace, s.Queue = c.d.opts.Namespace, c.used.name
	s.Numbered = true
	s.Body, s.BodyKind = body, job.BodyBytes
	s.Origin = dialect.DoorBeanstalkd
	s.Delay = seconds(r.delay)
	s.Policy = job.Policy{
		Priority: priority(r.priority),
		Lease:    seconds(max(r.ttr, 1)),
		Lapse:    job.LapseRequeue,
		// Equals come by their ids, wherever they come back from.
		Requeue: job.PlaceOld,
		Due:     job.PlaceOld,
	}
}

// priority is the engine's, of which the higher comes first.
func priority(p uint32) int64 { return -int64(p) }

// change adds one of the commands about jobs to the unit.
func (c *conn) change(u *unit) {
	r := &c.req
	ref := refOf(c.d.opts.Namespace, r.id)
	switch r.verb { //nolint:exhaustive // command has chosen
	case verbDelete:
		cmd := u.deletes.Get()
		*cmd = job.Delete{Ref: ref, In: visible, By: c.holder, Need: job.NeedFree, AckHeld: true}
		u.add(r.verb, cmd)
	case verbRelease:
		cmd := u.releases.Get()
		*cmd = job.Release{
			Ref: ref, By: c.holder, Need: job.NeedHeld, Place: job.PlaceOld, Delay: seconds(r.delay), SetPriority: true, Priority: priority(r.priority),
		}
		u.add(r.verb, cmd)
	case verbBury:
		cmd := u.buries.Get()
		*cmd = job.Bury{Ref: ref, By: c.holder, Need: job.NeedHeld, Last: true, SetPriority: true, Priority: priority(r.priority)}
		u.add(r.verb, cmd)
	case verbTouch:
		cmd := u.touches.Get()
		*cmd = job.Touch{Ref: ref, By: c.holder, Need: job.NeedHeld, Restart: true}
		u.add(r.verb, cmd)
	case verbKick:
		cmd := u.kicks.Get()
		*cmd = job.Kick{
			Namespace: c.d.opts.Namespace, Queue: c.used.name, From: job.KickEither, Count: int(min(r.bound, math.MaxInt32)),
		}
		u.add(r.verb, cmd)
	case verbKickJob:
		cmd := u.kicks.Get()
		*cmd = job.Kick{Ref: ref, One: true, From: job.KickEither}
		u.add(r.verb, cmd)
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
func (c *conn) choose(u *unit) {
	r := &c.req
	name := c.names.String(r.tube)
	at := slices.Index(c.queues, name)
	switch {
	case r.verb == verbWatch && at < 0 && len(c.queues) == watchMax:
		u.refuse(r.verb, replyNoMemory)
		return
	case r.verb == verbWatch && at < 0:
		c.watch(name)
	case r.verb == verbIgnore && at >= 0 && len(c.queues) == 1:
		u.refuse(r.verb, replyNotIgnored)
		return
	case r.verb == verbIgnore && at >= 0:
		c.d.tubes.change(name, 0, -1)
		c.watched = slices.Delete(c.watched, at, at+1)
		c.queues = slices.Delete(c.queues, at, at+1)
	}
	u.tell(r.verb, "WATCHING "+strconv.Itoa(len(c.queues))+crlf)
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
		c.broken(err)
		return
	case !there:
		c.fail(replyNotFound)
		return
	}
	var cmd job.Command = &job.Pause{Namespace: c.d.opts.Namespace, Queue: name, For: seconds(c.req.delay), Make: true}
	if c.req.delay == 0 {
		cmd = &job.Resume{Namespace: c.d.opts.Namespace, Queue: name}
	}
	req := engine.Request{Commands: []job.Command{cmd}}
	c.Do(c.d.opts.Engine, &req)
	if err := req.Results[0].Err; err != nil {
		c.fail(refusal(err.Kind))
		return
	}
	c.SetOut(append(c.Out(), replyPaused...))
}
