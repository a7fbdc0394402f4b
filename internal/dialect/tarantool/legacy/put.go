package legacy

import (
	"crypto/sha256"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// putData is the position of the first field of data in the arguments of put.
const putData = 6

// put puts a task. An urgent one goes ahead of everything that is ready.
func (a *API) put(c *proc.Call, urgent bool) {
	cmd := c.NewPush()
	if !a.spec(c, &cmd.Spec) {
		return
	}
	c.Option = urgent
	if urgent && cmd.Spec.Delay == 0 {
		cmd.Spec.At = job.PlaceHead
	}
	c.Submit(cmd, a.onPut)
}

// spec describes the task that the arguments tell. It answers if they are wrong.
func (a *API) spec(c *proc.Call, s *job.Spec) bool {
	namespace, ok := a.target(c)
	if !ok {
		return false
	}
	delay, okDelay := readSeconds(c.Args.At(2), 0)
	ttl, okTTL := readSeconds(c.Args.At(3), defaultTTL)
	ttr, okTTR := readSeconds(c.Args.At(4), defaultTTR)
	pri, okPri := readPriority(c.Args.At(5))
	if !okDelay || !okTTL || !okTTR || !okPri {
		c.Raise(proc.TextInvalid)
		return false
	}
	s.Namespace, s.Queue = namespace, c.Text
	s.Numbered = true // an id tells no tube
	s.Origin = dialect.DoorTarantool
	s.Delay, s.TTL, s.TTLFromRun = delay, ttl, true
	s.Policy = job.Policy{
		// The default of every protocol is the same rank.
		Priority: pri - defaultPriority,
		Lease:    ttr,
		Lapse:    job.LapseRequeue,
		Requeue:  job.PlaceOld,
		Due:      job.PlaceOld,
		Expiry:   job.ExpireAlways,
	}
	s.Body, s.BodyKind = proc.StoredBody(dataFrom(&c.Args, putData))
	if s.BodyKind != job.BodyNone {
		s.Fingerprint = likeOf(c.Args.At(putData)) // for unique puts to find
	}
	return true
}

// putDone answers the new task. Its data are still where they came from.
func (a *API) putDone(c *proc.Call, res *job.Result) {
	if res.Err != nil {
		c.Refuse(res.Err)
		return
	}
	counter := countPut
	if c.Option {
		counter = countUrgent
	}
	a.tally(c, c.Text, counter, 1)
	r := c.Begin()
	data, n := dataFrom(&c.Args, putData)
	r.Tuple(3 + n)
	showID(&r, 0, res.ID, true)
	r.Str(c.Text)
	r.Str(statusOf(res.State))
	r.List(data)
	c.End(&r)
}

// take takes the first ready task of a tube, or waits for one.
func (a *API) take(c *proc.Call) {
	namespace, ok := a.target(c)
	if !ok {
		return
	}
	wait, given, ok := readNumber(c.Args.At(2))
	switch {
	case !ok:
		c.Raise(proc.TextInvalid)
		return
	case wait < 0:
		c.Raise(textTimeout)
		return
	}
	f := job.Fetch{
		Namespace: namespace, Max: 1, Wait: job.WaitForever,
		Holder: c.Conn.Holder(), Exclusive: true, OnEnd: job.EndRelease, Door: dialect.DoorTarantool,
	}
	if given && wait < proc.Century.Seconds() {
		f.Wait = proc.Seconds(wait)
	}
	c.Fetch(&f, c.Text, a.onTake)
}

func (a *API) takeDone(c *proc.Call, res *job.Result) {
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		a.tally(c, c.Text, countTake, 1)
		answerTask(c, &res.Jobs[0], taken)
	case res.Err == nil, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.Nothing()
	case res.Err.Kind == job.Timeout:
		a.tally(c, c.Text, countTakeTimeout, 1)
		c.Nothing()
	default:
		c.Refuse(res.Err)
	}
}

// putUnique puts a task unless one with the same first field of data is
// there that has the status which the new one would have.
func (a *API) putUnique(c *proc.Call) {
	cmd := c.NewPush()
	if !a.spec(c, &cmd.Spec) {
		return
	}
	if cmd.Spec.BodyKind == job.BodyNone {
		c.Raise(textNoData)
		return
	}
	cmd.Unless = job.StatesOf(job.Ready)
	if cmd.Spec.Delay > 0 {
		cmd.Unless = job.StatesOf(job.Scheduled)
	}
	c.Submit(cmd, a.onPutUnique)
}

// uniqueDone answers the task that is there, or the new one.
func (a *API) uniqueDone(c *proc.Call, res *job.Result) {
	if res.Err == nil && len(res.Jobs) > 0 {
		answerTask(c, &res.Jobs[0], statusOf(res.State))
		return
	}
	a.putDone(c, res)
}

// likeOf stands for a first field of data. Two are the same if they are strings of
// the same content, however they were sent, or else were sent as the same bytes.
func likeOf(first iproto.Value) job.Digest {
	content, text := first.Bytes()
	if !text {
		content = first
	}
	sum := sha256.Sum256(content)
	like := job.Digest(sum[:])
	like[0] &^= 1
	if text {
		like[0] |= 1 // a string differs from what is sent as the same bytes
	}
	return like
}
