package masenko

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

const (
	replyOK    = "OK {}\n"
	replyPong  = "PONG {}\n"
	replyEmpty = "EMPTY {}\n"
)

func appendError(b []byte, text string) []byte {
	b = append(b, `ERR {"msg":`...)
	b = jsonscan.AppendQuoted(b, text)
	return append(b, "}\n"...)
}

func appendPushed(b []byte, id job.ID) []byte {
	b = append(b, `OK {"id":`...)
	b = strconv.AppendUint(b, uint64(id.Number()), 10)
	return append(b, "}\n"...)
}

// appendAtomic renders the ids of a transaction's pushes; the object is empty if
// there were none.
func appendAtomic(b []byte, ids []job.ID) []byte {
	if len(ids) == 0 {
		return append(b, replyOK...)
	}
	b = append(b, `OK {"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id.Number()), 10)
	}
	return append(b, "]}\n"...)
}

// appendTask renders a fetched job under the number that the connection knows
// it by.
func appendTask(b []byte, j *job.Job, number uint32) []byte {
	b = append(b, `OK {"id":`...)
	b = strconv.AppendUint(b, uint64(number), 10)
	b = append(b, `,"queue":`...)
	b = jsonscan.AppendQuoted(b, j.Queue)
	b = append(b, `,"name":`...)
	if j.Type == "" {
		b = append(b, `"job"`...) // other protocols have jobs without a type, ours has not
	} else {
		b = jsonscan.AppendQuoted(b, j.Type)
	}
	if j.BodyKind != job.BodyNone {
		b = append(b, `,"payload":`...)
		b = appendBody(b, j)
	}
	if j.Fails > 0 {
		b = append(b, `,"failures":`...)
		b = strconv.AppendUint(b, uint64(j.Fails), 10)
	}
	if j.Trace != "" {
		b = append(append(append(b, `,"traceparent":"`...), j.Trace...), '"')
	}
	return append(b, "}\n"...)
}

// appendBody renders a body as one JSON value on one line: JSON as it is, bytes
// as the JSON they are or else as a base64 string.
func appendBody(b []byte, j *job.Job) []byte {
	switch j.BodyKind {
	case job.BodyJSON, job.BodyArgs:
		if j.Origin == dialect.DoorMasenko || bytes.IndexByte(j.Body, '\n') < 0 && len(j.Body) > 0 {
			return append(b, j.Body...)
		}
		return appendAnyJSON(b, j.Body)
	case job.BodyBytes:
		return appendAnyJSON(b, j.Body)
	case job.BodyMsgpack:
		return appendBase64(b, j.Body)
	case job.BodyNone:
		return append(b, "null"...)
	}
	return appendBase64(b, j.Body)
}

func appendAnyJSON(b, body []byte) []byte {
	if jsonscan.Valid(body) {
		return jsonscan.Compact(b, body)
	}
	return appendBase64(b, body)
}

func appendBase64(b, body []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}

// appendInfo renders the queues and counters.
func appendInfo(b []byte, queues []job.QueueInfo, c *counters, clients int64) []byte {
	b = append(b, `OK {"queues":[`...)
	for i := range queues {
		q := &queues[i]
		if i > 0 {
			b = append(b, ',')
		}
		n := tasksOf(q)
		b = append(b, `{"name":`...)
		b = jsonscan.AppendQuoted(b, q.Name)
		b = append(b, `,"ready":`...)
		b = strconv.AppendUint(b, n.ready, 10)
		b = append(b, `,"delayed":`...)
		b = strconv.AppendUint(b, n.delayed, 10)
		b = append(b, `,"to_ack":`...)
		b = strconv.AppendUint(b, n.toAck, 10)
		b = append(b, '}')
	}
	b = append(b, `],"metrics":{"clients":`...)
	b = strconv.AppendInt(b, clients, 10)
	for _, m := range []struct {
		name  string
		value uint64
	}{
		{"push", c.requests[verbPush].Load()},
		{"fetch", c.requests[verbFetch].Load()},
		{"ack", c.requests[verbAck].Load()},
		{"nack", c.requests[verbNack].Load()},
		{"request", c.received.Load()},
		{"request-error", c.responses[responseErr].Load()},
	} {
		b = append(b, ',', '"')
		b = append(b, m.name...)
		b = append(b, '"', ':')
		b = strconv.AppendUint(b, m.value, 10)
	}
	return append(b, "}}\n"...)
}
