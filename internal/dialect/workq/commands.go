package workq

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// failureShown is how much of a failed job's result is remembered as the message of the failure, for people.
const failureShown = 1000

// Render appends the reply to one command of a unit that is done.
func (c *conn) Render(out []byte, u *dialect.Unit, r *dialect.Reply) ([]byte, bool) {
	if r.Failed {
		return appendError(out, r.Text), false
	}
	if err := u.Result(r).Err; err != nil {
		return appendError(out, refusal(err.Kind)), false
	}
	return append(out, replyOK...), true
}

// command takes c.req into the unit.
func (c *conn) command(u *dialect.Unit, body []byte) (later bool) {
	r := &c.req
	if r.verb != verbInspect {
		c.walk = walk{}
	}
	if r.text != "" {
		u.Refuse(r.text)
		return false
	}
	switch r.verb {
	case verbAdd, verbSchedule:
		cmd := u.Pushes.Get()
		if text := c.buildPush(u, &cmd.Spec, body); text != "" {
			u.Refuse(text)
			return false
		}
		u.Add(cmd)
	case verbComplete:
		cmd := u.Acks.Get()
		cmd.Ref, cmd.By, cmd.Need, cmd.Result = c.ref(r.id), c.holder, job.NeedUnfinished, body
		u.Add(cmd)
	case verbFail:
		cmd := u.Fails.Get()
		cmd.Ref, cmd.By, cmd.Need, cmd.Result = c.ref(r.id), c.holder, job.NeedUnfinished, body
		cmd.Failure.Message = strings.ToValidUTF8(string(body[:min(len(body), failureShown)]), "\ufffd")
		u.Add(cmd)
	case verbDelete:
		cmd := u.Deletes.Get()
		cmd.Ref, cmd.By, cmd.Need = c.ref(r.id), c.holder, job.NeedAny
		u.Add(cmd)
	case verbLease:
		c.prepareLease()
		return true
	case verbRun:
		c.prepareRun(body)
		return true
	case verbResult:
		c.await = job.Await{Ref: c.ref(r.id), Wait: milliseconds(r.wait)}
		return true
	case verbInspect:
		return true
	case verbUnknown: // it has a text
	}
	return false
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
	s.Key, s.Unique, s.Group, s.Trace = c.keyOf(r.id), true, r.group, r.trace
	s.Body, s.BodyKind = body, job.BodyBytes
	s.Origin = dialect.DoorWorkq
	s.Policy = policy(int64(r.priority), milliseconds(r.ttr), uint32(r.maxAttempts), uint32(r.maxFails))
}

// policy returns that of all jobs. The first failure is final unless more are asked for.
func policy(priority int64, ttr time.Duration, maxAttempts, maxFails uint32) job.Policy {
	return job.Policy{
		Priority:    priority,
		Lease:       ttr,
		MaxAttempts: maxAttempts,
		MaxFails:    max(maxFails, 1),
		Lapse:       job.LapseRequeue,
		Requeue:     job.PlaceOld,
		Due:         job.PlaceSched,
		Exhaust:     job.ExhaustKeep,
		Keep:        true,
	}
}

// buildPush fills in the spec of add and schedule. It returns the error text.
func (c *conn) buildPush(u *dialect.Unit, s *job.Spec, body []byte) string {
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
	start := len(u.Scratch)
	u.Scratch = appendExtra(u.Scratch, r.ttl, r.maxFails)
	s.Extra = u.Scratch[start:len(u.Scratch):len(u.Scratch)]
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
}

// prepareRun copies the payload: the input buffer is used while the run waits.
func (c *conn) prepareRun(body []byte) {
	c.run = job.Run{Wait: milliseconds(c.req.wait)}
	c.spec(&c.run.Spec, bytes.Clone(body))
}
