package masenko

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// unitMax is how many requests are submitted as one unit.
	unitMax = 128
	// nameMax is the longest name of a queue or task in bytes.
	nameMax = 255
	// verbShown is how much of an unknown verb is echoed.
	verbShown = 1024
)

// reply is what one request of a unit will be answered with.
type reply struct {
	asked   verb         // what the client has asked for
	verb    verb         // verbUnknown: an error, which text tells
	text    string       // of an error found before the engine was asked
	command int          // the index of its command in the unit
	number  uint32       // of the task that ACK and NACK name
	tx      *transaction // of ATOMIC
}

// unit is a series of requests that are submitted together. Units are pooled:
// their commands are used again.
type unit struct {
	req     engine.Request
	replies []reply
	parsed  pushRequest
	pushes  dialect.Freelist[job.Push]
	acks    dialect.Freelist[job.Ack]
	fails   dialect.Freelist[job.Fail]
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
	u.parsed = pushRequest{blockedBy: u.parsed.blockedBy[:0]}
	u.pushes.Release()
	u.acks.Release()
	u.fails.Release()
	units.Put(u)
}

// refuse adds an error reply.
func (u *unit) refuse(text string) { u.replies = append(u.replies, reply{text: text}) }

// add adds a command and the reply that will tell its result.
func (u *unit) add(r reply, cmd job.Command) {
	r.command = len(u.req.Commands)
	u.req.Commands = append(u.req.Commands, cmd)
	u.replies = append(u.replies, r)
}

// command takes one request line into the unit.
func (c *conn) command(u *unit, line []byte) after {
	word, body := splitLine(line)
	v := parseVerb(word)
	c.verb = v
	if c.tx != nil {
		c.verb = verbAtomic
		c.collect(u, v, line)
		return afterNothing
	}
	c.d.counters.received.Add(1)
	switch v {
	case verbPing:
		u.replies = append(u.replies, reply{verb: verbPing})
	case verbPush:
		c.push(u, body)
	case verbAck, verbNack:
		c.settle(u, v, body)
	case verbFetch:
		return c.prepareFetch(u, body)
	case verbInfo:
		return afterInfo
	case verbQuit:
		return afterQuit
	case verbAtomic:
		c.tx = new(transaction)
	case verbUnknown, verbDone:
		if dialect.IsForeign(line) {
			return afterForeign
		}
		c.verb = verbUnknown
		u.refuse(textUnknownVerb + string(word[:min(len(word), verbShown)]))
	}
	return afterNothing
}

// push adds a PUSH.
func (c *conn) push(u *unit, body []byte) {
	cmd := u.pushes.Get()
	if text := c.buildPush(cmd, body, &u.parsed, -1); text != "" {
		u.refuse(text)
		return
	}
	u.add(reply{verb: verbPush}, cmd)
}

// buildPush fills in cmd from the body of PUSH. pushes is how many came before
// it in its transaction, or negative outside of one. It returns the error text.
func (c *conn) buildPush(cmd *job.Push, body []byte, p *pushRequest, pushes int) string {
	if parsePush(body, p) != nil {
		return textPayload
	}
	switch {
	case !validName(p.name):
		return quoted(textTaskName, p.name)
	case len(p.queue) > 0 && !validName(p.queue):
		return quoted(textQueueName, p.queue)
	case len(p.deadqueue) > 0 && !validName(p.deadqueue):
		return quoted(textDeadQueueName, p.deadqueue)
	case p.blockersIn > blockersMax:
		return textManyBlockers
	case len(p.name) > nameMax:
		return textTaskNameLong
	case len(p.queue) > nameMax, len(p.deadqueue) > nameMax:
		return textQueueNameLong
	case len(p.payload) > c.d.opts.MaxPayload:
		return textPayloadBig
	}
	if text := addBlockers(&cmd.Spec, p.blockedBy, pushes); text != "" {
		return text
	}
	s := &cmd.Spec
	s.Namespace = c.d.opts.Namespace
	s.Numbered = true
	s.Type = c.names.String(p.name)
	s.Queue = defaultQueue
	if len(p.queue) > 0 {
		s.Queue = c.names.String(p.queue)
	}
	s.Origin = dialect.DoorMasenko
	if p.payload != nil {
		s.Body, s.BodyKind = p.payload, job.BodyJSON
	}
	if p.scheduled {
		s.RunAt = runAt(p.executeAt)
	}
	s.Policy = job.Policy{
		MaxFails: uint32(p.retry) + 1,
		Backoff:  job.Backoff{Unit: time.Second, Power: 4, Floor: true},
		Lapse:    job.LapseRequeue,
		Due:      job.PlaceDue,
		Exhaust:  job.ExhaustMove,
	}
	if len(p.deadqueue) > 0 {
		s.Policy.DeadQueue = c.names.String(p.deadqueue)
	}
	return ""
}

// runAt converts seconds since 1970. Times before 1970 are long past, and zero
// would mean none at all.
func runAt(seconds int64) job.Time { return max(1, job.Time(seconds)*1e6) }

// addBlockers adds the tasks that a push waits for (protocol section 6).
func addBlockers(s *job.Spec, blockedBy []int64, pushes int) string {
	for _, n := range blockedBy {
		switch {
		case n > 0 && n <= 1<<32-1:
			s.BlockedBy = append(s.BlockedBy, job.Blocker{Number: uint32(n)})
		case n > 0:
			// No task has such a number, and unknown tasks block nothing.
		case pushes < 0:
			return textRelative
		case n == 0:
			return textSelfReference
		case n < -int64(pushes):
			return textRelativeFar
		default:
			s.BlockedBy = append(s.BlockedBy, job.Blocker{Back: int(-n)})
		}
	}
	return ""
}

// settle adds an ACK or NACK.
func (c *conn) settle(u *unit, v verb, body []byte) {
	number, text := settleID(body)
	if text != "" {
		u.refuse(text)
		return
	}
	if v == verbAck {
		cmd := u.acks.Get()
		cmd.Ref, cmd.By, cmd.Need = c.ref(number), c.holder, job.NeedHeld
		u.add(reply{verb: v, number: number}, cmd)
		return
	}
	cmd := u.fails.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(number), c.holder, job.NeedHeld
	u.add(reply{verb: v, number: number}, cmd)
}

// settleID returns the id in the body of ACK and NACK, or an error text.
func settleID(body []byte) (uint32, string) {
	number, err := parseID(body)
	switch {
	case err != nil && len(bytes.TrimSpace(body)) == 0:
		return 0, textUnmarshal + "unexpected end of JSON input"
	case errors.Is(err, dialect.ErrJSON):
		return 0, textUnmarshal + "invalid JSON"
	case err != nil:
		return 0, textUnmarshal + "id must be an integer from 0 to 4294967295"
	case number == 0:
		return 0, textMissingID
	}
	return number, ""
}

// prepareFetch fills in c.fetch, which runs after the unit.
func (c *conn) prepareFetch(u *unit, body []byte) after {
	f := fetchRequest{queues: append(c.queues[:0], defaultQueue), timeout: c.d.opts.Heartbeat / 2}
	err := parseFetch(body, &f, c.names.String)
	c.queues = f.queues
	switch {
	case errors.Is(err, errQueues):
		u.refuse(textManyQueues)
		return afterNothing
	case err != nil:
		u.refuse(textPayload)
		return afterNothing
	case f.timeout <= 0:
		u.refuse(textTimeoutZero)
		return afterNothing
	case f.timeout > c.d.opts.Heartbeat:
		u.refuse(textTimeoutLarge + c.d.opts.Heartbeat.String())
		return afterNothing
	case len(f.queues) == 0:
		u.replies = append(u.replies, reply{verb: verbFetch})
		return afterNothing
	}
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: f.queues, Pick: job.PickInOrder, Max: 1, Wait: f.timeout,
		Holder: c.holder, Exclusive: true, OnEnd: job.EndFail, Door: dialect.DoorMasenko,
	}
	return afterFetch
}

// render appends the reply to one request of a unit that is done.
func (c *conn) render(out []byte, u *unit, r *reply) []byte {
	n := &c.d.counters
	var res *job.Result
	switch r.verb {
	case verbPing:
		n.ok(verbPing, responsePong)
		return append(out, replyPong...)
	case verbFetch: // from no queue at all
		n.ok(verbFetch, responseEmpty)
		return append(out, replyEmpty...)
	case verbPush, verbAck, verbNack, verbAtomic:
		res = &u.req.Results[r.command]
	case verbUnknown, verbInfo, verbQuit, verbDone:
		n.responses[responseErr].Add(1)
		return appendError(out, r.text)
	}
	if res.Err != nil {
		n.responses[responseErr].Add(1)
		if r.tx != nil {
			return appendError(out, r.tx.refusal(res.Err))
		}
		return appendError(out, refusal(res.Err.Kind))
	}
	n.ok(r.verb, responseOK)
	switch r.verb {
	case verbPush:
		return appendPushed(out, res.ID)
	case verbAtomic:
		n.requests[verbPush].Add(uint64(len(res.IDs)))
		n.requests[verbAck].Add(uint64(len(r.tx.acks)))
		for _, a := range r.tx.acks {
			delete(c.aliases, a.number)
		}
		return appendAtomic(out, res.IDs)
	case verbAck, verbNack, verbUnknown, verbPing, verbFetch, verbInfo, verbQuit, verbDone:
		delete(c.aliases, r.number)
	}
	return append(out, replyOK...)
}
