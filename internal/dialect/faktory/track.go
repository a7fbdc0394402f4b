package faktory

import (
	"bytes"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// reserveAhead is how far TRACK SET may move the end of a reservation.
const reserveAhead = 24 * time.Hour

// track takes a TRACK (protocol section 13).
func (c *conn) track(u *dialect.Unit, arg []byte) (later bool) {
	sub, rest := words(arg)
	switch sub {
	case "GET":
		jid := bytes.TrimSpace(rest)
		if len(jid) == 0 {
			u.Refuse(textMissingJID)
			return false
		}
		c.arg = jid
		return true
	case "SET":
		c.trackSet(u, rest)
	default:
		u.Refuse(textTrackSub + echo([]byte(sub)))
	}
	return false
}

// trackSet adds a TRACK SET.
func (c *conn) trackSet(u *dialect.Unit, arg []byte) {
	cmd := &job.Report{Namespace: c.d.opts.Namespace}
	r := jsonscan.ReadObject(arg)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		good := true
		var text []byte
		switch string(member(key)) {
		case "jid":
			text, good = parseString(value)
			cmd.Key = c.jids.String(text)
		case "percent":
			cmd.Percent, good = parseInteger(value)
			cmd.SetPercent = !isNull(value)
		case "desc":
			text, good = parseString(value)
			cmd.Text, cmd.SetText = string(cut(text, messageMax)), len(text) > 0
		case "reserve_until":
			if text, good = parseString(value); good && len(text) > 0 {
				var reason string
				if cmd.Until, reason = parseTime(text); reason != "" {
					u.Refuse(badTime("reserve_until", text, reason))
					return
				}
			}
		}
		if !good {
			u.Refuse(textInvalidTrack + echo(arg))
			return
		}
	}
	switch {
	case r.Err() != nil:
		u.Refuse(textInvalidTrack + echo(arg))
		return
	case cmd.Key == "":
		u.Refuse(textMissingJID)
		return
	}
	if cmd.Until != 0 {
		cmd.Until = min(cmd.Until, c.d.opts.Engine.Now().Add(reserveAhead))
	}
	u.Add(cmd)
}

// runTrackGet answers TRACK GET for the jid in c.arg.
func (c *conn) runTrackGet() {
	p, ok, err := c.d.opts.Engine.Progress(c.d.opts.Namespace, string(c.arg))
	if err != nil {
		c.readFailed(err)
		return
	}
	out, m := beginBulk(c.Out(), 100)
	out = append(out, `{"jid":`...)
	out = jsonscan.AppendQuoted(out, c.arg)
	if !ok {
		c.SetOut(m.end(append(out, `,"state":"unknown","updated_at":""}`...)))
		return
	}
	if p.HasPercent {
		out = strconv.AppendInt(append(out, `,"percent":`...), p.Percent, 10)
	}
	if p.Text != "" {
		out = jsonscan.AppendQuoted(append(out, `,"desc":`...), p.Text)
	}
	out = append(append(append(out, `,"state":"`...), shownState(&p)...), `","updated_at":`...)
	c.SetOut(m.end(append(appendTime(out, p.Updated), '}')))
}

// shownState is the protocol's word for how a tracked job stands.
func shownState(p *job.Progress) string {
	switch p.Outcome {
	case job.Succeeded:
		return "success"
	case job.Died:
		return "dead"
	case job.Alive, job.Removed: // of the latter nothing is tracked any more
	}
	switch p.State {
	case job.Leased:
		return "working"
	case job.Retrying:
		return "failed"
	case job.Dead, job.Failed:
		return "dead"
	case job.Done:
		return "success"
	case job.Scheduled, job.Blocked, job.Ready, job.Buried:
	}
	return "enqueued"
}
