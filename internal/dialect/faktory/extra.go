package faktory

import "millrace/internal/dialect/jsonscan"

// The extra of a job is what its producer sent besides jid, jobtype, args and queue: a
// byte of flags, then the members of the job's object that are left, each with a comma
// before it, in their own spelling and without blanks. FETCH copies it.
const (
	extraRetry   = 1 << iota // it has a retry
	extraCreated             // it has a created_at
	extraFailure             // it has a failure, which the first failure here replaces
	extraCustom              // it has a custom, which comes last and is not empty
)

// jobText is a job as a producer sends it: what is of interest is decoded, the rest are
// parts of the text. A value that says nothing (null, zero, an empty text) is nil.
type jobText struct {
	jid, jobtype, queue, at   []byte // decoded
	args                      []byte
	retry, reserve, priority  int64
	atText, retryText         []byte
	reserveText, priorityText []byte
	backtraceText, createdAt  []byte
	failure, custom           []byte
}

// parse reads the object of a job. Members that are not known here are appended to
// extra. It returns the longer extra, and why the text is not a job; no reason if it is.
func (j *jobText) parse(text, extra []byte) (longer []byte, reason string) {
	*j = jobText{}
	r := jsonscan.ReadObject(text)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		name := member(key)
		known, good := j.take(name, value)
		if !good {
			return extra, "wrong type of " + echo(name)
		}
		if !known {
			extra = append(append(append(extra, ',', '"'), key...), '"', ':')
			extra = jsonscan.Compact(extra, value)
		}
	}
	if r.Err() != nil {
		return extra, textNotObject
	}
	return extra, ""
}

// take takes one member.
func (j *jobText) take(name, value []byte) (known, good bool) {
	switch string(name) {
	case "jid":
		j.jid, good = parseString(value)
	case "jobtype":
		j.jobtype, good = parseString(value)
	case "queue":
		j.queue, good = parseString(value)
	case "args":
		j.args, good = container(value, '[')
	case "retry":
		j.retry, good = parseInteger(value)
		j.retryText = given(value)
	case "reserve_for":
		j.reserve, good = parseInteger(value)
		j.reserveText = nonzero(value, j.reserve)
	case "priority":
		j.priority, good = parseInteger(value)
		j.priorityText = given(value)
	case "backtrace":
		var lines int64
		lines, good = parseInteger(value)
		j.backtraceText = nonzero(value, lines)
	case "at":
		j.at, good = parseString(value)
		j.atText = nonzero(value, int64(len(j.at)))
	case "created_at":
		var text []byte
		text, good = parseString(value)
		j.createdAt = nonzero(value, int64(len(text)))
	case "enqueued_at": // ours to say
		_, good = parseString(value)
	case "failure":
		j.failure, good = container(value, '{')
	case "custom":
		j.custom, good = container(value, '{')
		if len(j.custom) == len("{}") {
			j.custom = nil
		}
	default:
		return false, true
	}
	return true, good
}

// container returns an array or object by its opening bracket; null is nil.
func container(value []byte, open byte) ([]byte, bool) {
	if isNull(value) {
		return nil, true
	}
	return value, value[0] == open
}

func given(value []byte) []byte {
	if isNull(value) {
		return nil
	}
	return value
}

func nonzero(value []byte, n int64) []byte {
	if n == 0 {
		return nil
	}
	return value
}

// appendExtra appends the members that are kept as text. The extra of this job begins
// at start with the byte of flags.
func (j *jobText) appendExtra(extra []byte, start int) []byte {
	flags := byte(0)
	add := func(name string, value []byte, flag byte) {
		if value == nil {
			return
		}
		flags |= flag
		extra = append(append(append(extra, ',', '"'), name...), '"', ':')
		extra = jsonscan.Compact(extra, value)
	}
	add("retry", j.retryText, extraRetry)
	add("reserve_for", j.reserveText, 0)
	add("at", j.atText, 0)
	add("created_at", j.createdAt, extraCreated)
	add("backtrace", j.backtraceText, 0)
	add("priority", j.priorityText, 0)
	add("failure", j.failure, extraFailure)
	custom := len(extra)
	add("custom", j.custom, extraCustom)
	if string(extra[custom:]) == `,"custom":{}` { // it had only blanks in it
		extra, flags = extra[:custom], flags&^extraCustom
	}
	extra[start] = flags
	return extra
}

// splitExtra is the inverse of appendExtra.
func splitExtra(extra []byte) (flags byte, members []byte) {
	if len(extra) == 0 {
		return 0, nil
	}
	return extra[0], extra[1:]
}

// withoutFailure returns the members of an extra without the failure among them.
func withoutFailure(members []byte) []byte {
	if len(members) == 0 {
		return nil
	}
	object := append(append([]byte{'{'}, members[1:]...), '}')
	r := jsonscan.ReadObject(object)
	var out []byte
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if string(key) == "failure" {
			continue
		}
		out = append(append(append(out, ',', '"'), key...), '"', ':')
		out = append(out, value...)
	}
	return out
}
