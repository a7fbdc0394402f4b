package faktory

import (
	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// pushbMax is the longest PUSHB that is part of a unit. Longer ones are stored in
// pieces of this size.
const pushbMax = 4096

// The kinds of reply: how the results of a command are told. A reply has the text of what the client called the job or
// batch.
const (
	replyPlain  uint8 = iota // OK if all went well
	replyAck                 // OK also if nobody holds the job
	replyFail                // as plain, but a job that nobody holds is named
	replyPushB               // the jobs that were refused; More are those that the engine was not asked for
	replyBeat                // the state that the worker is to take, in text
	replyBatch               // the id of the batch
	replyCommit              // as plain, but a batch that is not there is named
)

// badJob is a job of a PUSHB that is refused, with the code of its error.
type badJob struct{ jid, text string }

// Render appends the reply to one command of a unit that is done.
func (c *conn) Render(out []byte, u *dialect.Unit, r *dialect.Reply) ([]byte, bool) {
	start := len(out)
	out = render(out, u, r)
	return out, out[start] != '-'
}

func render(out []byte, u *dialect.Unit, r *dialect.Reply) []byte {
	results := u.Results[r.First : r.First+r.Count]
	switch {
	case r.Failed:
		return appendErr(out, r.Text)
	case r.Kind == replyBeat && r.Text != "":
		return appendBulk(out, r.Text)
	case r.Kind == replyBeat:
		return append(out, replyOK...)
	case r.Kind == replyPushB:
		bad, _ := r.More.([]badJob)
		return appendBad(out, refused(u, bad, r.First, r.Count))
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			if line := refusalOf(r, err.Kind); line != "" {
				return appendError(out, line)
			}
		}
	}
	if r.Kind == replyBatch {
		return appendBatchReply(out, r, results)
	}
	return append(out, replyOK...)
}

// refusalOf is the error line for a refused command; empty if it counts as success.
func refusalOf(r *dialect.Reply, kind job.Kind) string {
	if kind == job.NotFound || kind == job.NotLeased {
		switch r.Kind {
		case replyAck:
			return ""
		case replyFail:
			return codeErr + textNoJob + r.Text
		case replyBatch, replyCommit:
			return codeErr + textNoBatch + r.Text
		}
	}
	return refusal(kind)
}

// refused adds the pushes of the unit that the engine has refused.
func refused(u *dialect.Unit, bad []badJob, first, count int) []badJob {
	for i := first; i < first+count; i++ {
		if err := u.Results[i].Err; err != nil {
			if p, ok := u.Commands[i].(*job.Push); ok {
				bad = append(bad, badJob{p.Spec.Key, refusal(err.Kind)})
			}
		}
	}
	return bad
}

// appendBad renders the reply to PUSHB: an object with the refused jobs. Of several with one jid the last is told.
func appendBad(out []byte, bad []badJob) []byte {
	if len(bad) == 0 {
		return append(out, "$2\r\n{}\r\n"...)
	}
	last := make(map[string]int, len(bad))
	for i := range bad {
		last[bad[i].jid] = i
	}
	out, m := beginBulk(out, len(last)*64)
	sep := byte('{')
	for i := range bad {
		if last[bad[i].jid] != i {
			continue
		}
		out = append(out, sep)
		out = jsonscan.AppendQuoted(out, bad[i].jid)
		out = append(out, ':')
		out = jsonscan.AppendQuoted(out, withoutErr(bad[i].text))
		sep = ','
	}
	return m.end(append(out, '}'))
}

// withoutErr drops the usual code; another one is kept.
func withoutErr(text string) string {
	if len(text) > len(codeErr) && text[:len(codeErr)] == codeErr {
		return text[len(codeErr):]
	}
	return text
}
