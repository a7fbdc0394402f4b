package beanstalkd

import (
	"strconv"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

const crlf = "\r\n"

// Render appends the reply to one command of a unit that is done, and reports whether it tells success.
func (c *conn) Render(out []byte, u *dialect.Unit, r *dialect.Reply) ([]byte, bool) {
	if r.Text != "" {
		return append(out, r.Text...), !r.Failed
	}
	res := u.Result(r)
	if res.Err != nil {
		return append(out, refusal(res.Err.Kind)...), false
	}
	switch verb(r.Verb) { //nolint:exhaustive // the others have a text, or are in no unit
	case verbPut:
		return appendNumber(append(out, "INSERTED "...), uint64(res.ID)), true
	case verbKick:
		return appendNumber(append(out, "KICKED "...), uint64(res.Count)), true //nolint:gosec // not negative
	case verbDelete:
		return append(out, replyDeleted...), true
	case verbRelease:
		return append(out, replyReleased...), true
	case verbBury:
		return append(out, replyBuried...), true
	case verbTouch:
		return append(out, replyTouched...), true
	default:
		return append(out, replyKicked...), true
	}
}

// appendNumber appends the number that ends a reply.
func appendNumber(b []byte, n uint64) []byte { return append(strconv.AppendUint(b, n, 10), crlf...) }

// appendJob appends the id and the body of a job.
func appendJob(b []byte, j *job.Job) []byte {
	b = append(strconv.AppendUint(b, shownID(j), 10), ' ')
	return appendData(b, j.Body)
}

// appendData appends the size of data, which ends a line, and the data.
func appendData(b, data []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(data)), 10), crlf...)
	return append(append(b, data...), crlf...)
}

// yaml makes the data of a stats command.
type yaml []byte

func newYAML() yaml { return append(make(yaml, 0, 1024), "---\n"...) }

func (y *yaml) key(name string) { *y = append(append(*y, name...), ": "...) }

func (y *yaml) uint(name string, v uint64) {
	y.key(name)
	*y = append(strconv.AppendUint(*y, v, 10), '\n')
}

// count is uint for what cannot be negative.
func (y *yaml) count(name string, v int64) { y.uint(name, uint64(max(v, 0))) }

// word is a text that needs no quotes.
func (y *yaml) word(name, v string) {
	y.key(name)
	*y = append(append(*y, v...), '\n')
}

func (y *yaml) text(name, v string) {
	y.key(name)
	*y = append(strconv.AppendQuote(*y, v), '\n')
}

// item is one of a list.
func (y *yaml) item(v string) { *y = append(append(append(*y, "- "...), v...), '\n') }
