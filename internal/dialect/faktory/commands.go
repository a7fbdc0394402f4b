package faktory

import (
	"bytes"
	"strings"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// command takes one command line into the unit. It returns what must run after it.
func (c *conn) command(u *unit, line []byte) after {
	word, arg := splitLine(line)
	v := parseVerb(word)
	c.verb = v
	if v != verbUnknown {
		c.d.known.Add(1)
	}
	switch v {
	case verbPush:
		c.push(u, arg)
	case verbPushB:
		return c.pushb(u, arg)
	case verbAck:
		c.ack(u, arg)
	case verbFail:
		c.failJob(u, arg)
	case verbFetch:
		return c.prepareFetch(u, arg)
	case verbBeat:
		c.beat(u, arg)
	case verbFlush:
		u.add(reply{kind: replyPlain}, &job.Flush{Namespace: c.d.opts.Namespace, Door: dialect.DoorFaktory})
	case verbTrack:
		return c.track(u, arg)
	case verbBatch:
		return c.batch(u, arg)
	case verbInfo:
		return (*conn).runInfo
	case verbQueue:
		c.arg = arg
		return (*conn).runQueue
	case verbMutate:
		c.arg = arg
		return (*conn).runMutate
	case verbEnd:
		return (*conn).runEnd
	case verbUnknown, verbHello:
		u.refuse(textUnknownCommand + echo(word))
	}
	return nil
}

func (c *conn) runEnd() error {
	c.SetOut(append(c.Out(), replyOK...))
	c.tally.Ended(int(verbEnd), true)
	return errEnd
}

// ref names the job that the client calls by a jid.
func (c *conn) ref(jid []byte) job.Ref {
	if queue, id, ok := parseNumbers(jid); ok {
		return job.ByPlace(c.d.opts.Namespace, queue, id)
	}
	return job.ByKey(c.d.opts.Namespace, c.jids.String(jid))
}

// ack adds an ACK.
func (c *conn) ack(u *unit, arg []byte) {
	var jid []byte
	r := dialect.ReadObject(arg)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if string(member(key)) != "jid" {
			continue
		}
		if jid, ok = parseString(value); !ok {
			u.refuse(textInvalidAck + echo(arg))
			return
		}
	}
	if r.Err() != nil || len(jid) == 0 {
		u.refuse(textInvalidAck + echo(arg))
		return
	}
	cmd := u.acks.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(jid), c.holder, job.NeedLeased
	u.add(reply{kind: replyAck}, cmd)
}

const (
	errtypeMax     = 100
	messageMax     = 1000
	backtraceLines = 50
	backtraceLine  = 1000 // bytes of one line
	unknownFailure = "unknown"
)

// failure is the argument of FAIL.
type failure struct {
	jid              []byte
	errtype, message []byte
	backtrace        []string
}

// parseFailure reads the argument of FAIL.
func parseFailure(arg []byte) (f failure, ok bool) {
	r := dialect.ReadObject(arg)
	for key, value, more := r.Next(); more; key, value, more = r.Next() {
		good := true
		switch string(member(key)) {
		case "jid":
			f.jid, good = parseString(value)
		case "errtype":
			f.errtype, good = parseString(value)
		case "message":
			f.message, good = parseString(value)
		case "backtrace":
			f.backtrace, good = parseLines(value)
		}
		if !good {
			return f, false
		}
	}
	return f, r.Err() == nil
}

// parseLines reads the first lines of a backtrace.
func parseLines(value []byte) (lines []string, ok bool) {
	r := dialect.ReadArray(value)
	for _, text, more := r.Next(); more; _, text, more = r.Next() {
		line, good := parseString(text)
		if !good {
			return nil, false
		}
		if len(lines) < backtraceLines {
			lines = append(lines, string(cut(line, backtraceLine)))
		}
	}
	return lines, r.Err() == nil
}

// shorten trims a text and cuts it; an empty one is unknown.
func shorten(text []byte, size int) string {
	if text = cut(bytes.TrimSpace(text), size); len(text) == 0 {
		return unknownFailure
	}
	return string(text)
}

// failJob adds a FAIL.
func (c *conn) failJob(u *unit, arg []byte) {
	f, ok := parseFailure(arg)
	switch {
	case !ok:
		u.refuse(textInvalidFail + echo(arg))
		return
	case len(f.jid) == 0:
		u.refuse(textMissingJID)
		return
	}
	cmd := u.fails.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(f.jid), c.holder, job.NeedLeased
	cmd.Failure = job.Failure{
		Type: shorten(f.errtype, errtypeMax), Message: shorten(f.message, messageMax), Backtrace: f.backtrace,
	}
	u.add(reply{kind: replyFail, text: echo(f.jid)}, cmd)
}

// beatText is the argument of BEAT.
type beatText struct {
	wid, state []byte
	rss        int64
}

func parseBeat(arg []byte) (b beatText, ok bool) {
	r := dialect.ReadObject(arg)
	for key, value, more := r.Next(); more; key, value, more = r.Next() {
		good := true
		switch string(member(key)) {
		case "wid":
			b.wid, good = parseString(value)
		case "current_state":
			b.state, good = parseString(value)
		case "rss_kb":
			b.rss, good = parseInteger(value)
		}
		if !good {
			return b, false
		}
	}
	return b, r.Err() == nil
}

// beat takes a BEAT. It is about the worker, not about jobs, so it takes effect here.
func (c *conn) beat(u *unit, arg []byte) {
	b, ok := parseBeat(arg)
	if !ok {
		u.refuse(textInvalidBeat + echo(arg))
		return
	}
	w := c.d.workers.beat(string(b.wid), b.rss)
	if w == nil {
		u.refuse(textUnknownWorker + echo(b.wid))
		return
	}
	r := reply{kind: replyBeat, first: len(u.req.Commands)}
	if w.advance(parseState(string(b.state))) {
		// Its other connections must not be given a job that they wait for.
		u.req.Commands = append(u.req.Commands, &job.EndHolder{Holder: w.holder})
		r.count = 1
	}
	if s := w.load(); s != Running {
		r.text = `{"state":"` + s.String() + `"}`
	}
	u.replies = append(u.replies, r)
}

// words returns the words of an argument after its first, which is returned in upper
// case as sent by whatever client.
func words(arg []byte) (sub string, rest []byte) {
	first, rest := nextWord(arg)
	return strings.ToUpper(string(first)), rest
}
