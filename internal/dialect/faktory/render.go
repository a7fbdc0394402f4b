package faktory

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

const (
	crlf      = "\r\n"
	replyOK   = "+OK\r\n"
	replyNull = "$-1\r\n"
)

// appendError appends an error line. The text begins with its code and has no line
// end in it.
func appendError(b []byte, text string) []byte {
	b = append(append(b, '-'), text...)
	return append(b, crlf...)
}

// appendErr appends an error line with the usual code.
func appendErr(b []byte, text string) []byte {
	b = append(append(b, '-'), codeErr...)
	b = append(b, text...)
	return append(b, crlf...)
}

// bulk is a bulk string in the making: its length stands before it and is known only
// at its end.
type bulk struct{ start, digits int }

// beginBulk leaves room for the length of a string of about that many bytes.
func beginBulk(b []byte, about int) ([]byte, bulk) {
	m := bulk{start: len(b), digits: 1}
	for ; about >= 10; about /= 10 {
		m.digits++
	}
	b = append(b, '$')
	for range m.digits {
		b = append(b, '0')
	}
	return append(b, crlf...), m
}

// end fills in the length. If it has more or fewer digits than there is room for, the
// string is moved.
func (m bulk) end(b []byte) []byte {
	from := m.start + 1 + m.digits + len(crlf)
	var digits [20]byte
	n := strconv.AppendInt(digits[:0], int64(len(b)-from), 10)
	switch extra := len(n) - m.digits; {
	case extra > 0:
		b = append(b, make([]byte, extra)...)
		copy(b[from+extra:], b[from:len(b)-extra])
	case extra < 0:
		copy(b[from+extra:], b[from:])
		b = b[:len(b)+extra]
	}
	copy(b[m.start+1:], n)
	copy(b[m.start+1+len(n):], crlf)
	return append(b, crlf...)
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(text)), 10)
	b = append(b, crlf...)
	b = append(b, text...)
	return append(b, crlf...)
}

// appendFetched renders a delivery.
func appendFetched(b []byte, j *job.Job) []byte {
	const usual = 200 // what the other members of a plain job take
	b, m := beginBulk(b, usual+len(j.Key)+len(j.Type)+len(j.Queue)+len(j.Body)+len(j.Extra))
	return m.end(appendJob(b, j))
}

// appendJob renders a job as one JSON object without blanks. A job that is not being
// delivered has no enqueued_at.
func appendJob(b []byte, j *job.Job) []byte {
	own := j.Origin == dialect.DoorFaktory
	b = append(b, `{"jid":`...)
	b = jsonscan.AppendQuoted(b, shownJID(j))
	b = append(b, `,"queue":`...)
	b = jsonscan.AppendQuoted(b, j.Queue)
	b = append(b, `,"jobtype":`...)
	if j.Type == "" {
		b = append(b, `"job"`...) // other protocols have jobs without a type, ours has not
	} else {
		b = jsonscan.AppendQuoted(b, j.Type)
	}
	b = append(b, `,"args":`...)
	encoding := ""
	if own && j.BodyKind == job.BodyArgs {
		b = append(b, j.Body...)
	} else {
		b, encoding = appendForeignArgs(b, j)
	}
	var flags byte
	var members []byte
	if own {
		flags, members = splitExtra(j.Extra)
	} else if custom := dialect.Custom(j); custom != nil {
		flags, members = extraCustom, append([]byte(`,"custom":`), custom...)
	}
	if flags&extraCreated == 0 {
		b = append(b, `,"created_at":`...)
		b = appendTime(b, j.Created)
	}
	if j.ReadyAt != 0 {
		b = append(b, `,"enqueued_at":`...)
		b = appendTime(b, j.ReadyAt)
	}
	if flags&extraRetry == 0 {
		b = append(b, `,"retry":`...)
		b = strconv.AppendInt(b, retriesOf(j), 10)
	}
	if !own && j.Lease.Length > 0 {
		b = append(b, `,"reserve_for":`...)
		b = strconv.AppendInt(b, max(1, int64(j.Lease.Length/time.Second)), 10)
	}
	if j.Fails > 0 {
		b = append(b, `,"failure":`...)
		b = appendFailure(b, j)
		if flags&extraFailure != 0 {
			members = withoutFailure(members)
		}
	}
	b = append(b, members...)
	b = appendMarks(b, j, encoding, flags&extraCustom != 0)
	return append(b, '}')
}

// appendMarks adds what the server says in custom, which ends b if the job has one: the
// batch whose callback the job is, how bytes of another protocol are shown, and the trace
// of a job that came through one.
func appendMarks(b []byte, j *job.Job, encoding string, custom bool) []byte {
	mark := func(name string) {
		if custom {
			b = append(b[:len(b)-1], ',')
		} else {
			b = append(b, `,"custom":{`...)
		}
		custom = true
		b = append(append(append(b, '"'), name...), `":"`...)
	}
	if j.Flags&(job.FlagOnComplete|job.FlagOnSuccess) != 0 {
		mark("_bid")
		b = append(appendBatchID(b, j.Batch), `"}`...)
	}
	if encoding != "" {
		mark("_encoding")
		b = append(append(b, encoding...), `"}`...)
	}
	if j.Trace != "" && j.Origin != dialect.DoorFaktory && !bytes.Contains(dialect.Custom(j), []byte(`"traceparent"`)) {
		mark("traceparent")
		b = append(append(b, j.Trace...), `"}`...)
	}
	return b
}

// The ways in which a body that is not JSON is shown, as custom tells them.
const (
	encodingBase64  = "base64"
	encodingMsgpack = "base64 msgpack"
)

// appendForeignArgs renders the body of a job that came through another protocol as
// args: an array of arguments as it is, any other JSON as the only argument, and what
// is not JSON as a base64 string.
func appendForeignArgs(b []byte, j *job.Job) (args []byte, encoding string) {
	switch j.BodyKind {
	case job.BodyNone:
		return append(b, "[]"...), ""
	case job.BodyArgs, job.BodyJSON, job.BodyBytes:
		if !jsonscan.Valid(j.Body) {
			encoding = encodingBase64
			break
		}
		if j.BodyKind == job.BodyArgs && j.Body[0] == '[' {
			return jsonscan.Compact(b, validUTF8(j.Body)), ""
		}
		b = jsonscan.Compact(append(b, '['), validUTF8(j.Body))
		return append(b, ']'), ""
	case job.BodyMsgpack:
		encoding = encodingMsgpack
	}
	b = base64.StdEncoding.AppendEncode(append(b, `["`...), j.Body)
	return append(b, `"]`...), encoding
}

// retriesOf returns how often a job is tried again, as its producer would have said it.
func retriesOf(j *job.Job) int64 {
	switch p := &j.Policy; {
	case p.MaxFails > 0:
		return int64(p.MaxFails) - 1
	case p.MaxAttempts > 0:
		return int64(p.MaxAttempts) - 1
	default:
		return defaultRetry
	}
}

// appendFailure renders the last failure of a job (protocol section 3).
func appendFailure(b []byte, j *job.Job) []byte {
	count := int64(j.Fails) - 1
	b = append(b, `{"retry_count":`...)
	b = strconv.AppendInt(b, count, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, max(0, retriesOf(j)-count), 10)
	if len(j.Failures) == 0 {
		return append(b, '}')
	}
	last := &j.Failures[len(j.Failures)-1]
	b = append(b, `,"failed_at":`...)
	b = appendTime(b, j.Failures[0].At)
	if j.RunAt > last.At {
		b = append(b, `,"next_at":`...)
		b = appendTime(b, j.RunAt)
	}
	errtype, message := shownFailure(last)
	b = append(b, `,"errtype":`...)
	b = jsonscan.AppendQuoted(b, errtype)
	b = append(b, `,"message":`...)
	b = jsonscan.AppendQuoted(b, message)
	if len(last.Backtrace) > 0 {
		b = append(b, `,"backtrace":`...)
		for i, line := range last.Backtrace {
			b = append(b, "[,"[min(i, 1)])
			b = jsonscan.AppendQuoted(b, line)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// shownFailure returns what a failure is called. Only a worker gives it words.
func shownFailure(f *job.Failure) (errtype, message string) {
	switch f.Kind {
	case job.FailedByWorker:
		errtype, message = f.Type, f.Message
	case job.FailedByLapse:
		return "ReservationExpired", "Faktory job reservation expired"
	case job.FailedByEnd:
		return "ConnectionLost", "the connection that held the job has ended"
	case job.FailedByBlocker:
		return "BlockerFailed", "a job that this one waited for has failed"
	}
	if errtype == "" {
		errtype = unknownFailure
	}
	if message == "" {
		message = unknownFailure
	}
	return errtype, message
}
