package queue

import (
	"math"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// putOptions are what put is told besides the data.
type putOptions struct {
	pri     uint64
	ttl     time.Duration
	ttr     time.Duration
	delay   time.Duration
	group   string
	trace   string
	timeout time.Duration
}

func (q *Client) put(c *proc.Call) {
	if c.Args.Count() == 0 {
		c.Fail(iproto.CodeFieldMissing, "Tuple field 3 required by space format is missing")
		return
	}
	o := putOptions{pri: q.tube.pri, ttl: q.tube.ttl, ttr: q.tube.ttr}
	if q.tube.kind.grouped() {
		o.group = commonGroup
	}
	if !q.putOptions(c, &o) {
		return
	}
	cmd := c.NewPush()
	s := &cmd.Spec
	s.Namespace, s.Queue = q.namespace, q.tube.name
	s.Body, s.BodyKind = proc.StoredBody(c.Args.At(0), 1)
	s.Group, s.Trace = o.group, o.trace
	s.Origin = dialect.DoorTarantool
	s.Policy.Requeue, s.Policy.Due = job.PlaceOld, job.PlaceOld
	if q.tube.kind.timed() {
		o.times(s)
	}
	cmd.RoomWait = max(o.timeout, 0)
	c.PushWait(cmd, pushed)
}

// times fills in what only tasks of some types of tubes have.
func (o *putOptions) times(s *job.Spec) {
	s.Policy.Priority = -int64(min(o.pri, math.MaxInt64))
	if o.ttr < proc.Century {
		s.Policy.Lease = max(o.ttr, time.Microsecond) // none at all would be for ever
	}
	s.Delay = max(o.delay, 0)
	if o.ttl >= proc.Century {
		return
	}
	if s.TTL = o.ttl + s.Delay; s.TTL <= 0 {
		s.TTL, s.Policy.ExpireAt = 0, longAgo
	}
}

// longAgo is the expiry of a task that has no time to live at all.
const longAgo job.Time = 1

// putOptions reads the options that the type of the tube has. If they are wrong it
// answers that.
func (q *Client) putOptions(c *proc.Call, o *putOptions) bool {
	opts, ok := c.Args.At(1).Fields()
	if !ok {
		c.Raise(proc.TextInvalid)
		return false
	}
	kind := q.tube.kind
	for key, val, more := opts.Next(); more; key, val, more = opts.Next() {
		name, _ := key.Bytes()
		ok := true
		switch {
		case val.IsNil():
		case string(name) == "utube" && kind.grouped():
			o.group = q.group(val)
		case string(name) == "traceparent":
			text, _ := val.Bytes() // what is none is ignored, as its recommendation wants it
			o.trace = job.ParseTrace(string(text))
		case !kind.timed():
		case string(name) == "pri":
			if o.pri, ok = val.Uint(); !ok {
				c.Fail(iproto.CodeFieldType, "Tuple field 6 type does not match one required by operation: "+
					"expected unsigned")
				return false
			}
		case string(name) == "ttl":
			o.ttl, ok = secondsOf(val)
		case string(name) == "ttr":
			o.ttr, ok = secondsOf(val)
		case string(name) == "delay":
			o.delay, ok = secondsOf(val)
		case string(name) == "timeout" && kind == kindLimFIFOTTL:
			o.timeout, ok = secondsOf(val)
		}
		if !ok {
			c.Raise(proc.TextInvalid)
			return false
		}
	}
	return true
}

// commonGroup is the sub-queue of tasks that name none.
const commonGroup = "nil"

// noName is the group of a sub-queue whose name is empty: a job without a group
// would be held up by nothing.
const noName = "\x00"

// group is the name of a sub-queue; a number is its text.
func (q *Client) group(v iproto.Value) string {
	if b, ok := v.Bytes(); ok && len(b) > 0 {
		return q.conn.Names.String(b)
	}
	if n, ok := v.Int(); ok {
		return strconv.FormatInt(n, 10)
	}
	if text := show(v); text != "" {
		return text
	}
	return noName
}

func pushed(c *proc.Call, res *job.Result) {
	if res.Err != nil {
		pushRefused(c, res.Err)
		return
	}
	cmd, _ := c.Command.(*job.Push)
	r := c.Begin()
	r.Tuple(3)
	if res.HasSerial {
		r.Uint64(res.Serial)
	} else {
		r.Uint64(uint64(res.ID) + foreign)
	}
	r.Str(taskState(res.State))
	r.Body(cmd.Spec.BodyKind, cmd.Spec.Body)
	c.End(&r)
}

// pushRefused answers a put that did not take place: nil if the tube was full, and
// stayed so as long as the client wanted to wait.
func pushRefused(c *proc.Call, err *job.Error) {
	if err.Kind != job.Full && err.Kind != job.Timeout && err.Kind != job.Canceled {
		c.Refuse(err)
		return
	}
	r := c.Begin()
	r.Lone()
	r.Nil()
	c.End(&r)
}
