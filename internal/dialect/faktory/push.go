package faktory

import (
	"math"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// What a job has unless it says otherwise (protocol sections 3 and 5).
const (
	defaultQueue    = "default"
	defaultRetry    = 25
	defaultReserve  = 1800 * time.Second
	defaultPriority = 5
	reserveMin      = 60
	reserveMax      = 86400
	queueNameMax    = 255
	deadFor         = 180 * 24 * time.Hour
)

// backoff is n^4 + 15 + rand(0..29)*(n+1) seconds, where n is 0 for the first failure.
var backoff = job.Backoff{Unit: time.Second, Power: 4, Skip: 1, Base: 15 * time.Second, Jitter: 30}

// push adds a PUSH.
func (c *conn) push(u *dialect.Unit, arg []byte) {
	cmd := u.Pushes.Get()
	var j jobText
	text := j.read(u, &cmd.Spec, validUTF8(arg))
	if text != "" {
		text = textJSON + text
	} else {
		text = c.finishPush(&j, &cmd.Spec)
	}
	if text != "" {
		u.Pushes.Undo()
		u.Refuse(text)
		return
	}
	u.Add(cmd)
}

// read reads a job, and its extra into the spec. It returns why the text is not a job; no reason if it is.
func (j *jobText) read(u *dialect.Unit, s *job.Spec, text []byte) (reason string) {
	start := len(u.Scratch)
	u.Scratch, reason = j.parse(text, append(u.Scratch, 0))
	if reason != "" {
		u.Scratch = u.Scratch[:start]
		return reason
	}
	u.Scratch = j.appendExtra(u.Scratch, start)
	if end := len(u.Scratch); end > start+1 {
		s.Extra = u.Scratch[start:end:end]
	}
	return ""
}

// finishPush makes a spec of a job. It returns the text of the first rule that the
// job breaks, in the order of the protocol.
func (c *conn) finishPush(j *jobText, s *job.Spec) (text string) {
	return c.d.spec(j, &c.names, s)
}

// spec makes a spec of a job; see finishPush.
func (d *Dialect) spec(j *jobText, names *dialect.Names, s *job.Spec) (text string) {
	switch _, _, numbers := parseNumbers(j.jid); {
	case len(j.jid) < jidMin, len(j.jid) > jidMax, numbers:
		return textJID
	case len(j.jobtype) == 0:
		return textJobtype
	case j.args == nil:
		return textArgs
	case j.reserve > reserveMax:
		return textReserve
	}
	if len(j.at) > 0 {
		var reason string
		if s.RunAt, reason = parseTime(j.at); reason != "" {
			return badTime("at", j.at, reason)
		}
	}
	switch {
	case len(j.queue) == 0:
		s.Queue = defaultQueue
	case !validQueue(j.queue):
		return queueRefusal(j.queue, textQueueName)
	case len(j.queue) > queueNameMax:
		return queueRefusal(j.queue, textQueueNameLong)
	default:
		s.Queue = names.String(j.queue)
	}
	s.Namespace = d.opts.Namespace
	s.Key = string(j.jid)
	s.Type = names.String(j.jobtype)
	s.Body, s.BodyKind = jsonscan.Compact(j.args[:0], j.args), job.BodyArgs
	s.Origin = dialect.DoorFaktory
	d.policy(&s.Policy, j)
	if j.custom != nil {
		f := readFeatures(j.custom)
		f.apply(s)
	}
	return ""
}

// policy fills in what the push fixes about a job's life.
func (d *Dialect) policy(p *job.Policy, j *jobText) {
	p.Priority = priority(j.priority)
	p.Lease = reservation(j.reserve)
	p.Backoff = backoff
	p.Lapse = job.LapseFail
	p.Due = job.PlaceTail
	p.Exhaust = job.ExhaustDead
	p.DeadFor, p.DeadMax = deadFor, d.opts.DeadMax
	retry := j.retry
	if j.retryText == nil {
		retry = defaultRetry
	}
	if retry == 0 {
		p.Exhaust = job.ExhaustDrop
	}
	p.MaxFails = uint32(min(max(retry, 0), math.MaxUint32-1)) + 1
}

// priority is that of the engine, where jobs that say nothing have zero in every
// protocol.
func priority(given int64) int64 {
	if given < 1 || given > 9 {
		given = defaultPriority
	}
	return given - defaultPriority
}

// reservation is how long a fetch holds the job.
func reservation(seconds int64) time.Duration {
	if seconds == 0 {
		return defaultReserve
	}
	return time.Duration(min(max(seconds, reserveMin), reserveMax)) * time.Second
}

// validQueue reports whether a name has only letters, digits, dots, underscores and
// hyphens.
func validQueue(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(name) > 0
}

func queueRefusal(name []byte, why string) string {
	return `cannot get "` + echo(name) + `" queue: ` + why
}

func badTime(member string, value []byte, reason string) string {
	return textTimestamp + member + `': "` + echo(value) + `": ` + reason
}

// pushb adds a PUSHB. One that is too long for a unit is run after it.
func (c *conn) pushb(u *dialect.Unit, arg []byte) (later bool) {
	c.arg = validUTF8(arg)
	r := dialect.Reply{Kind: replyPushB, First: len(u.Commands)}
	var bad []badJob
	elements := jsonscan.ReadArray(c.arg)
	n := 0
	reason := ""
	for _, text, ok := elements.Next(); ok; _, text, ok = elements.Next() {
		if n++; n > pushbMax {
			break
		}
		if bad, reason = c.pushElement(u, bad, text); reason != "" {
			break
		}
	}
	if elements.Err() != nil && reason == "" {
		reason = textNotArray
	}
	if reason == "" && n <= pushbMax {
		if r.Count = len(u.Commands) - r.First; bad != nil {
			r.More = bad
		}
		u.Replies = append(u.Replies, r)
		return false
	}
	u.Commands = u.Commands[:r.First]
	if reason != "" {
		u.Refuse(textJSON + reason)
		return false
	}
	return true
}

// pushElement adds one job of a PUSHB to the unit, or to the bad jobs. It returns a reason if it is not a job at all.
func (c *conn) pushElement(u *dialect.Unit, bad []badJob, text []byte) (_ []badJob, reason string) {
	cmd := u.Pushes.Get()
	var j jobText
	if reason := j.read(u, &cmd.Spec, text); reason != "" {
		return bad, reason
	}
	if why := c.finishPush(&j, &cmd.Spec); why != "" {
		u.Pushes.Undo()
		return append(bad, badJob{string(j.jid), why}), ""
	}
	u.Commands = append(u.Commands, cmd)
	return bad, ""
}

// runPushB runs a PUSHB of many jobs, piece by piece. Before the first is stored all are
// looked at, because one that is not a job refuses them all.
func (c *conn) runPushB() {
	u := dialect.GetUnit()
	defer u.Release()
	if reason := c.checkPushB(u); reason != "" {
		c.fail(textJSON + reason)
		return
	}
	var bad []badJob
	store := func() {
		if len(u.Commands) > 0 {
			c.Do(c.d.opts.Engine, &u.Request)
		}
		bad = refused(u, bad, 0, len(u.Commands))
		u.Reset()
	}
	elements := jsonscan.ReadArray(c.arg)
	for _, text, ok := elements.Next(); ok; _, text, ok = elements.Next() {
		if bad, _ = c.pushElement(u, bad, text); len(u.Commands) >= pushbMax { // it has been looked at: it is a job
			store()
		}
	}
	store()
	c.SetOut(appendBad(c.Out(), bad))
}

// checkPushB returns why the elements of c.arg are not all jobs.
func (c *conn) checkPushB(u *dialect.Unit) (reason string) {
	elements := jsonscan.ReadArray(c.arg)
	var j jobText
	for _, text, ok := elements.Next(); ok; _, text, ok = elements.Next() {
		if u.Scratch, reason = j.parse(text, u.Scratch[:0]); reason != "" {
			return reason
		}
	}
	if elements.Err() != nil {
		return textNotArray
	}
	u.Scratch = u.Scratch[:0]
	return ""
}
