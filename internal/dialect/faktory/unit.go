package faktory

import (
	"slices"
	"sync"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// unitReplies and unitCommands are how much is submitted as one unit: so many
	// commands of the client, or so many of the engine, of which PUSHB has many.
	unitReplies  = 128
	unitCommands = 1024
	// pushbMax is the longest PUSHB that is part of a unit. Longer ones are stored in
	// pieces of this size.
	pushbMax = 4096
)

// replyKind says how the results of a command are told.
type replyKind uint8

const (
	replyText   replyKind = iota // an error that was found before the engine was asked
	replyPlain                   // OK if all went well
	replyAck                     // OK also if nobody holds the job
	replyFail                    // as plain, but a job that nobody holds is named
	replyPushB                   // the jobs that were refused
	replyBeat                    // the state that the worker is to take, in text
	replyBatch                   // the id of the batch
	replyCommit                  // as plain, but a batch that is not there is named
)

// reply is what one command of a unit will be answered with.
type reply struct {
	verb  verb
	kind  replyKind
	text  string // of replyText and replyBeat; what the client called the job or batch
	first int    // the index of the first engine command that belongs to it
	count int    // and how many do
	// bad is where the refused jobs of a PUSHB begin in the unit's list, bads how many
	// there are.
	bad, bads int
}

// badJob is a job of a PUSHB that is refused, with the code of its error.
type badJob struct{ jid, text string }

// unit is a series of commands that are submitted together. Units are pooled: their
// commands are used again.
type unit struct {
	req     engine.Request
	replies []reply
	bad     []badJob
	parsed  jobText
	extras  []byte // of the pushes
	pushes  dialect.Freelist[job.Push]
	spare   *job.Push // of a push that was refused
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

// release empties the unit for another use. One that has grown is left to the garbage
// collector.
func (u *unit) release() {
	if cap(u.req.Commands) > 2*unitCommands || cap(u.extras) > 1<<20 {
		return
	}
	u.reset()
	units.Put(u)
}

func (u *unit) reset() {
	clear(u.req.Commands)
	u.req.Commands = u.req.Commands[:0]
	clear(u.replies)
	u.replies = u.replies[:0]
	clear(u.bad)
	u.bad = u.bad[:0]
	u.parsed = jobText{}
	u.extras = u.extras[:0]
	u.spare = nil
	u.pushes.Release()
	u.acks.Release()
	u.fails.Release()
}

func (u *unit) full() bool {
	return len(u.replies) >= unitReplies || len(u.req.Commands) >= unitCommands
}

// push returns an empty push.
func (u *unit) push() *job.Push {
	if p := u.spare; p != nil {
		u.spare = nil
		*p = job.Push{}
		return p
	}
	return u.pushes.Get()
}

// refuse adds an error reply with the usual code.
func (u *unit) refuse(text string) {
	u.replies = append(u.replies, reply{kind: replyText, text: text})
}

// add adds a command and the reply that will tell its result.
func (u *unit) add(r reply, cmd job.Command) {
	r.first, r.count = len(u.req.Commands), 1
	u.req.Commands = append(u.req.Commands, cmd)
	u.replies = append(u.replies, r)
}

// render appends the reply to one command of a unit that is done.
func (u *unit) render(out []byte, r *reply) []byte {
	results := u.req.Results[r.first : r.first+r.count]
	switch r.kind {
	case replyText:
		return appendErr(out, r.text)
	case replyBeat:
		if r.text != "" {
			return appendBulk(out, r.text)
		}
		return append(out, replyOK...)
	case replyPushB:
		return u.appendRefused(out, r)
	case replyPlain, replyAck, replyFail, replyBatch, replyCommit:
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			if line := u.refusal(r, err.Kind); line != "" {
				return appendError(out, line)
			}
		}
	}
	if r.kind == replyBatch {
		return appendBatchReply(out, r, results)
	}
	return append(out, replyOK...)
}

// refusal is the error line for a refused command; empty if it counts as success.
func (u *unit) refusal(r *reply, kind job.Kind) string {
	if kind == job.NotFound || kind == job.NotLeased {
		switch r.kind {
		case replyAck:
			return ""
		case replyFail:
			return codeErr + textNoJob + r.text
		case replyBatch, replyCommit:
			return codeErr + textNoBatch + r.text
		case replyText, replyPlain, replyPushB, replyBeat:
		}
	}
	return refusal(kind)
}

// appendRefused renders the reply to PUSHB: an object with the refused jobs. Of
// several with one jid the last is told.
func (u *unit) appendRefused(out []byte, r *reply) []byte {
	bad := slices.Clip(u.bad[r.bad : r.bad+r.bads])
	return appendBad(out, u.refused(bad, r.first, r.count))
}

// refused adds the pushes of the unit that the engine has refused.
func (u *unit) refused(bad []badJob, first, count int) []badJob {
	for i := first; i < first+count; i++ {
		if err := u.req.Results[i].Err; err != nil {
			if p, ok := u.req.Commands[i].(*job.Push); ok {
				bad = append(bad, badJob{p.Spec.Key, refusal(err.Kind)})
			}
		}
	}
	return bad
}

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
		out = dialect.AppendQuoted(out, bad[i].jid)
		out = append(out, ':')
		out = dialect.AppendQuoted(out, withoutErr(bad[i].text))
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
