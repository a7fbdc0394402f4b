package masenko

import (
	"bytes"
	"errors"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

const (
	// nameMax is the longest name of a queue or task in bytes.
	nameMax = 255
	// verbShown is how much of an unknown verb is echoed.
	verbShown = 1024
)

// Take takes the request line into the unit.
func (c *conn) Take(u *dialect.Unit) (later bool, err error) {
	line := c.line
	c.line = nil // an idle connection keeps no input
	word, body := splitLine(line)
	v := parseVerb(word)
	c.Verb = uint8(v)
	if c.tx != nil {
		c.Verb = uint8(verbAtomic)
		c.collect(u, v, line)
		return false, nil
	}
	c.d.counters.received.Add(1)
	switch v {
	case verbPing:
		u.Tell(replyPong)
	case verbPush:
		c.push(u, body)
	case verbAck, verbNack:
		c.settle(u, v, body)
	case verbFetch:
		return c.prepareFetch(u, body), nil
	case verbInfo, verbQuit:
		return true, nil
	case verbAtomic:
		c.tx = new(transaction)
	case verbUnknown, verbDone:
		if dialect.IsForeign(line) {
			return false, dialect.ErrForeign
		}
		c.Verb = uint8(verbUnknown)
		u.Refuse(textUnknownVerb + string(word[:min(len(word), verbShown)]))
	}
	return false, nil
}

// push adds a PUSH.
func (c *conn) push(u *dialect.Unit, body []byte) {
	cmd := u.Pushes.Get()
	if text := c.buildPush(cmd, body, -1); text != "" {
		u.Refuse(text)
		return
	}
	u.Add(cmd)
}

// buildPush fills in cmd from the body of PUSH. pushes is how many came before
// it in its transaction, or negative outside of one. It returns the error text.
func (c *conn) buildPush(cmd *job.Push, body []byte, pushes int) string {
	var p pushRequest
	if parsePush(body, &p) != nil {
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
	s.Group = string(p.group)
	s.Trace = job.ParseTrace(string(p.trace))
	s.Origin = dialect.DoorMasenko
	if p.payload != nil {
		s.Body, s.BodyKind = p.payload, job.BodyJSON
	}
	if p.scheduled {
		s.RunAt = runAt(p.executeAt)
	}
	s.Policy = policy(uint32(p.retry) + 1)
	if len(p.deadqueue) > 0 {
		s.Policy.DeadQueue = c.names.String(p.deadqueue)
	}
	return ""
}

// policy returns that of tasks that may fail so often.
func policy(maxFails uint32) job.Policy {
	return job.Policy{
		MaxFails: maxFails,
		Backoff:  job.Backoff{Unit: time.Second, Power: 4, Floor: true},
		Lapse:    job.LapseRequeue,
		Due:      job.PlaceDue,
		Exhaust:  job.ExhaustMove,
	}
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
func (c *conn) settle(u *dialect.Unit, v verb, body []byte) {
	number, text := settleID(body)
	if text != "" {
		u.Refuse(text)
		return
	}
	if v == verbAck {
		cmd := u.Acks.Get()
		cmd.Ref, cmd.By, cmd.Need = c.ref(number), c.holder, job.NeedHeld
		u.AddReply(dialect.Reply{Number: number}, cmd)
		return
	}
	cmd := u.Fails.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(number), c.holder, job.NeedHeld
	u.AddReply(dialect.Reply{Number: number}, cmd)
}

// settleID returns the id in the body of ACK and NACK, or an error text.
func settleID(body []byte) (uint32, string) {
	number, err := parseID(body)
	switch {
	case err != nil && len(bytes.TrimSpace(body)) == 0:
		return 0, textUnmarshal + "unexpected end of JSON input"
	case errors.Is(err, jsonscan.Err):
		return 0, textUnmarshal + "invalid JSON"
	case err != nil:
		return 0, textUnmarshal + "id must be an integer from 0 to 4294967295"
	case number == 0:
		return 0, textMissingID
	}
	return number, ""
}

// prepareFetch fills in c.fetch, which runs after the unit.
func (c *conn) prepareFetch(u *dialect.Unit, body []byte) (later bool) {
	f := fetchRequest{queues: append(c.queues[:0], defaultQueue), timeout: c.d.opts.Heartbeat / 2}
	err := parseFetch(body, &f, c.names.String)
	c.queues = f.queues
	switch {
	case errors.Is(err, errQueues):
		u.Refuse(textManyQueues)
		return false
	case err != nil:
		u.Refuse(textPayload)
		return false
	case f.timeout <= 0:
		u.Refuse(textTimeoutZero)
		return false
	case f.timeout > c.d.opts.Heartbeat:
		u.Refuse(textTimeoutLarge + c.d.opts.Heartbeat.String())
		return false
	case len(f.queues) == 0:
		u.Tell(replyEmpty)
		return false
	}
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: f.queues, Pick: job.PickInOrder, Max: 1, Wait: f.timeout,
		Holder: c.holder, Exclusive: true, OnEnd: job.EndFail, Door: dialect.DoorMasenko,
	}
	return true
}

// Render appends the reply to one request of a unit that is done.
func (c *conn) Render(out []byte, u *dialect.Unit, r *dialect.Reply) ([]byte, bool) {
	n := &c.d.counters
	v := verb(r.Verb)
	tx, _ := r.More.(*transaction)
	var refused string
	switch {
	case r.Failed:
		refused = r.Text
	case v == verbPing:
		n.ok(v, responsePong)
		return append(out, r.Text...), true
	case v == verbFetch: // from no queue at all
		n.ok(v, responseEmpty)
		return append(out, r.Text...), true
	case u.Result(r).Err == nil:
	case tx != nil:
		refused = tx.refusal(u.Result(r).Err)
	default:
		refused = refusal(u.Result(r).Err.Kind)
	}
	if refused != "" {
		n.responses[responseErr].Add(1)
		return appendError(out, refused), false
	}
	n.ok(v, responseOK)
	res := u.Result(r)
	switch {
	case v == verbPush:
		return appendPushed(out, res.ID), true
	case tx != nil:
		n.requests[verbPush].Add(uint64(len(res.IDs)))
		n.requests[verbAck].Add(uint64(len(tx.acks)))
		for _, a := range tx.acks {
			delete(c.aliases, a.number)
		}
		return appendAtomic(out, res.IDs), true
	}
	delete(c.aliases, r.Number)
	return append(out, replyOK...), true
}
