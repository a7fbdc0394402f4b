package faktory

import (
	"bytes"
	"strings"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// Take takes the command line into the unit.
func (c *conn) Take(u *dialect.Unit) (later bool, err error) {
	word, arg := splitLine(c.line)
	c.line = nil // an idle connection keeps no input
	v := parseVerb(word)
	c.Verb = uint8(v)
	if v != verbUnknown {
		c.d.known.Add(1)
	}
	switch v {
	case verbPush:
		c.push(u, arg)
	case verbPushB:
		return c.pushb(u, arg), nil
	case verbAck:
		c.ack(u, arg)
	case verbFail:
		c.failJob(u, arg)
	case verbFetch:
		return c.prepareFetch(u, arg), nil
	case verbBeat:
		c.beat(u, arg)
	case verbFlush:
		u.Add(&job.Flush{Namespace: c.d.opts.Namespace, Door: dialect.DoorFaktory})
	case verbTrack:
		return c.track(u, arg), nil
	case verbBatch:
		return c.batch(u, arg), nil
	case verbInfo, verbQueue, verbMutate, verbEnd:
		c.arg = arg
		return true, nil
	case verbUnknown, verbHello:
		u.Refuse(textUnknownCommand + echo(word))
	}
	return false, nil
}

// ref names the job that the client calls by a jid.
func (c *conn) ref(jid []byte) job.Ref {
	if queue, id, ok := parseNumbers(jid); ok {
		return job.ByPlace(c.d.opts.Namespace, queue, id)
	}
	return job.ByKey(c.d.opts.Namespace, c.jids.String(jid))
}

// ack adds an ACK.
func (c *conn) ack(u *dialect.Unit, arg []byte) {
	var jid []byte
	r := jsonscan.ReadObject(arg)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if string(member(key)) != "jid" {
			continue
		}
		if jid, ok = parseString(value); !ok {
			u.Refuse(textInvalidAck + echo(arg))
			return
		}
	}
	if r.Err() != nil || len(jid) == 0 {
		u.Refuse(textInvalidAck + echo(arg))
		return
	}
	cmd := u.Acks.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(jid), c.holder, job.NeedLeased
	u.AddReply(dialect.Reply{Kind: replyAck}, cmd)
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
	r := jsonscan.ReadObject(arg)
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
	r := jsonscan.ReadArray(value)
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
func (c *conn) failJob(u *dialect.Unit, arg []byte) {
	f, ok := parseFailure(arg)
	switch {
	case !ok:
		u.Refuse(textInvalidFail + echo(arg))
		return
	case len(f.jid) == 0:
		u.Refuse(textMissingJID)
		return
	}
	cmd := u.Fails.Get()
	cmd.Ref, cmd.By, cmd.Need = c.ref(f.jid), c.holder, job.NeedLeased
	cmd.Failure = job.Failure{
		Type: shorten(f.errtype, errtypeMax), Message: shorten(f.message, messageMax), Backtrace: f.backtrace,
	}
	u.AddReply(dialect.Reply{Kind: replyFail, Text: echo(f.jid)}, cmd)
}

// beatText is the argument of BEAT.
type beatText struct {
	wid, state []byte
	rss        int64
}

func parseBeat(arg []byte) (b beatText, ok bool) {
	r := jsonscan.ReadObject(arg)
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
func (c *conn) beat(u *dialect.Unit, arg []byte) {
	b, ok := parseBeat(arg)
	if !ok {
		u.Refuse(textInvalidBeat + echo(arg))
		return
	}
	w := c.d.workers.beat(string(b.wid), b.rss)
	if w == nil {
		u.Refuse(textUnknownWorker + echo(b.wid))
		return
	}
	r := dialect.Reply{Kind: replyBeat, First: len(u.Commands)}
	if w.advance(parseState(string(b.state))) {
		// Its other connections must not be given a job that they wait for.
		u.Commands = append(u.Commands, &job.EndHolder{Holder: w.holder})
		r.Count = 1
	}
	if s := w.load(); s != Running {
		r.Text = `{"state":"` + s.String() + `"}`
	}
	u.Replies = append(u.Replies, r)
}

// words returns the words of an argument after its first, which is returned in upper
// case as sent by whatever client.
func words(arg []byte) (sub string, rest []byte) {
	first, rest := nextWord(arg)
	return strings.ToUpper(string(first)), rest
}
