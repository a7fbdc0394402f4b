package tarantool

import (
	"millrace/internal/dialect"
	"millrace/internal/job"
)

// legacyPutData is the position of the first field of data in the arguments of put.
const legacyPutData = 6

// put puts a task. An urgent one goes ahead of everything that is ready.
func (a *legacyAPI) put(c *call, urgent bool) {
	cmd := c.newPush()
	if !a.spec(c, &cmd.Spec) {
		return
	}
	c.option = urgent
	if urgent && cmd.Spec.Delay == 0 {
		cmd.Spec.At = job.PlaceHead
	}
	c.submit(cmd, a.onPut)
}

// spec describes the task that the arguments tell. It answers if they are wrong.
func (a *legacyAPI) spec(c *call, s *job.Spec) bool {
	namespace, ok := a.target(c)
	if !ok {
		return false
	}
	delay, okDelay := legacySeconds(c.args.At(2), 0)
	ttl, okTTL := legacySeconds(c.args.At(3), legacyTTL)
	ttr, okTTR := legacySeconds(c.args.At(4), legacyTTR)
	pri, okPri := legacyPri(c.args.At(5))
	if !okDelay || !okTTL || !okTTR || !okPri {
		c.raise(textInvalid)
		return false
	}
	s.Namespace, s.Queue = namespace, c.text
	s.Numbered = true // an id tells no tube
	s.Origin = dialect.DoorTarantool
	s.Delay, s.TTL, s.TTLFromRun = delay, ttl, true
	s.Policy = job.Policy{
		// The default of every protocol is the same rank.
		Priority: pri - legacyPriority,
		Lease:    ttr,
		Lapse:    job.LapseRequeue,
		Requeue:  job.PlaceOld,
		Due:      job.PlaceOld,
		Expiry:   job.ExpireAlways,
	}
	s.Body, s.BodyKind = storedBody(legacyData(&c.args, legacyPutData))
	if s.BodyKind != job.BodyNone {
		s.Like = legacyLike(c.args.At(legacyPutData)) // for unique puts to find
	}
	return true
}

// putDone answers the new task. Its data are still where they came from.
func (a *legacyAPI) putDone(c *call, res *job.Result) {
	if res.Err != nil {
		c.refuse(res.Err)
		return
	}
	counter := legacyCountPut
	if c.option {
		counter = legacyCountUrgent
	}
	a.tally(c, c.text, counter, 1)
	r := c.begin()
	data, n := legacyData(&c.args, legacyPutData)
	r.tuple(3 + n)
	legacyID(&r, 0, res.ID, true)
	r.str(c.text)
	r.str(legacyStatus(res.State))
	r.list(data)
	c.end(&r)
}

// take takes the first ready task of a tube, or waits for one.
func (a *legacyAPI) take(c *call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	wait, given, ok := legacyNumber(c.args.At(2))
	switch {
	case !ok:
		c.raise(textInvalid)
		return
	case wait < 0:
		c.raise(legacyTextTimeout)
		return
	}
	f := job.Fetch{
		Namespace: namespace, Max: 1, Wait: job.WaitForever,
		Holder: c.conn.holder(), Exclusive: true, OnEnd: job.EndRelease, Door: dialect.DoorTarantool,
	}
	if given && wait < century.Seconds() {
		f.Wait = seconds(wait)
	}
	c.fetch(&f, c.text, a.onTake)
}

func (a *legacyAPI) takeDone(c *call, res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		a.tally(c, c.text, legacyCountTake, 1)
		legacyTask(c, &res.Jobs[0], legacyTaken)
	case res.Err == nil, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.nothing()
	case res.Err.Kind == job.Timeout:
		a.tally(c, c.text, legacyCountTakeTimeout, 1)
		c.nothing()
	default:
		c.refuse(res.Err)
	}
}
