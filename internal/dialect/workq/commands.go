package workq

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// unitMax is how many commands are submitted as one unit.
	unitMax = 128
	// failureShown is how much of a failed job's result is remembered as the
	// message of the failure, for people.
	failureShown = 1000
)

// reply is what one command of a unit will be answered with.
type reply struct {
	verb    verb
	text    string // of an error found before the engine was asked
	command int    // the index of its command in the unit
}

// unit is a series of commands that are submitted together. Units are pooled:
// their commands are used again.
type unit struct {
	req     engine.Request
	replies []reply
	pushes  dialect.Freelist[job.Push]
	acks    dialect.Freelist[job.Ack]
	fails   dialect.Freelist[job.Fail]
	deletes dialect.Freelist[job.Delete]
	extras  []byte // what the pushes keep about their jobs
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
	u.acks.Release()
	u.fails.Release()
	u.deletes.Release()
	u.extras = u.extras[:0]
	units.Put(u)
}

// refuse adds an error reply.
func (u *unit) refuse(v verb, text string) { u.replies = append(u.replies, reply{verb: v, text: text}) }

// add adds a command and the reply that will tell its result.
func (u *unit) add(v verb, cmd job.Command) {
	u.replies = append(u.replies, reply{verb: v, command: len(u.req.Commands)})
	u.req.Commands = append(u.req.Commands, cmd)
}

// render appends the reply to one command of a unit that is done.
func (u *unit) render(out []byte, r *reply) []byte {
	if r.text != "" {
		return appendError(out, r.text)
	}
	if err := u.req.Results[r.command].Err; err != nil {
		return appendError(out, refusal(err.Kind))
	}
	return append(out, replyOK...)
}

// command takes c.req into the unit.
func (c *conn) command(u *unit, body []byte) after {
	r := &c.req
	if r.verb != verbInspect {
		c.walk = walk{}
	}
	if r.text != "" {
		u.refuse(r.verb, r.text)
		return afterNothing
	}
	switch r.verb {
	case verbAdd, verbSchedule:
		cmd := u.pushes.Get()
		if text := c.buildPush(u, &cmd.Spec, body); text != "" {
			u.refuse(r.verb, text)
			return afterNothing
		}
		u.add(r.verb, cmd)
	case verbComplete:
		cmd := u.acks.Get()
		cmd.Ref, cmd.By, cmd.Need, cmd.Result = c.ref(r.id), c.holder, job.NeedUnfinished, body
		u.add(r.verb, cmd)
	case verbFail:
		cmd := u.fails.Get()
		cmd.Ref, cmd.By, cmd.Need, cmd.Result = c.ref(r.id), c.holder, job.NeedUnfinished, body
		cmd.Failure.Message = strings.ToValidUTF8(string(body[:min(len(body), failureShown)]), "\ufffd")
		u.add(r.verb, cmd)
	case verbDelete:
		cmd := u.deletes.Get()
		cmd.Ref, cmd.By, cmd.Need = c.ref(r.id), c.holder, job.NeedAny
		u.add(r.verb, cmd)
	case verbLease:
		c.prepareLease()
		return afterWait
	case verbRun:
		c.prepareRun(body)
		return afterWait
	case verbResult:
		c.await = job.Await{Ref: c.ref(r.id), Wait: milliseconds(r.wait)}
		c.waitCmd[0] = &c.await
		return afterWait
	case verbInspect:
		return afterInspect
	case verbUnknown: // it has a text
	}
	return afterNothing
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// ref names the job that the client calls by a UUID.
func (c *conn) ref(u dialect.UUID) job.Ref {
	if queue, id, ok := u.Job(); ok {
		return job.ByPlace(c.d.opts.Namespace, queue, id)
	}
	return job.ByKey(c.d.opts.Namespace, c.keyOf(u))
}

// keyOf returns the canonical text of a UUID.
func (c *conn) keyOf(u dialect.UUID) string {
	var b [dialect.UUIDLen]byte
	if text := u.Append(b[:0]); c.key != string(text) {
		c.key = string(text)
	}
	return c.key
}

// spec fills in what add, schedule and run have in common.
func (c *conn) spec(s *job.Spec, body []byte) {
	r := &c.req
	s.Namespace, s.Queue = c.d.opts.Namespace, r.name
	s.Key, s.Unique = c.keyOf(r.id), true
	s.Body, s.BodyKind = body, job.BodyBytes
	s.Origin = dialect.DoorWorkq
	s.Policy = job.Policy{
		Priority: int64(r.priority),
		Lease:    milliseconds(r.ttr),
		// The first failure is final unless more are asked for.
		MaxAttempts: uint32(r.maxAttempts),
		MaxFails:    uint32(max(r.maxFails, 1)),
		Lapse:       job.LapseRequeue,
		Requeue:     job.PlaceOld,
		Due:         job.PlaceSched,
		Exhaust:     job.ExhaustKeep,
		Keep:        true,
	}
}

// buildPush fills in the spec of add and schedule. It returns the error text.
func (c *conn) buildPush(u *unit, s *job.Spec, body []byte) string {
	r := &c.req
	switch {
	case r.verb == verbSchedule:
		at := max(1, job.TimeOf(r.at)) // zero would be no time at all
		s.RunAt, s.Policy.ExpireAt = at, expiry(at, r.ttl)
		if s.Policy.ExpireAt <= c.d.opts.Engine.Now() {
			return textTime
		}
	case r.ttl <= math.MaxInt64/uint64(time.Millisecond):
		s.TTL = time.Duration(r.ttl) * time.Millisecond
	default:
		s.Policy.ExpireAt = expiry(c.d.opts.Engine.Now(), r.ttl)
	}
	expires := s.Policy.ExpireAt
	c.spec(s, body)
	s.Policy.ExpireAt = expires
	start := len(u.extras)
	u.extras = appendExtra(u.extras, r.ttl, r.maxFails)
	s.Extra = u.extras[start:len(u.extras):len(u.extras)]
	return ""
}

// expiry adds a ttl in milliseconds to an instant. A sum beyond the clock's range
// is never.
func expiry(t job.Time, ttl uint64) job.Time {
	const perMillisecond = 1000
	if ttl > uint64(math.MaxInt64-t)/perMillisecond { //nolint:gosec // t is not negative
		return job.Never
	}
	return t + job.Time(ttl)*perMillisecond //nolint:gosec // checked above
}

// appendExtra encodes what inspect shows as it was given and the policy does not
// tell: max-fails in one byte, then the ttl.
func appendExtra(dst []byte, ttl uint64, maxFails uint8) []byte {
	return binary.AppendUvarint(append(dst, maxFails), ttl)
}

// readExtra is the inverse of appendExtra.
func readExtra(extra []byte) (ttl uint64, maxFails uint8, ok bool) {
	if len(extra) < 2 {
		return 0, 0, false
	}
	ttl, n := binary.Uvarint(extra[1:])
	return ttl, extra[0], n > 0
}

func (c *conn) prepareLease() {
	r := &c.req
	pick := job.PickRandom
	if len(r.names) == 1 {
		pick = job.PickInOrder // the same, and cheaper
	}
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: r.names, Pick: pick, Max: 1, Wait: milliseconds(r.wait),
		Holder: c.holder, OnEnd: job.EndKeep, Door: dialect.DoorWorkq, DefaultLease: c.d.opts.DefaultTTR,
	}
	c.waitCmd[0] = &c.fetch
}

// prepareRun copies the payload: the input buffer is used while the run waits.
func (c *conn) prepareRun(body []byte) {
	c.run = job.Run{Wait: milliseconds(c.req.wait)}
	c.spec(&c.run.Spec, bytes.Clone(body))
	c.waitCmd[0] = &c.run
}
