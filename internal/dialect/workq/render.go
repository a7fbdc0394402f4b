package workq

import (
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

const (
	crlf    = "\r\n"
	replyOK = "+OK\r\n"
)

func appendError(b []byte, text string) []byte {
	b = append(append(b, '-'), text...)
	return append(b, crlf...)
}

// appendCount begins a reply of n items.
func appendCount(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, "+OK "...), int64(n), 10)
	return append(b, crlf...)
}

// appendLease renders a leased job.
func (c *conn) appendLease(b []byte, j *job.Job) []byte {
	b = appendCount(b, 1)
	b = append(appendID(b, j), ' ')
	b = append(appendName(b, j.Queue), ' ')
	b = append(appendMilliseconds(b, j.Lease.Length), ' ')
	return appendBlock(b, j.Body)
}

// appendResult renders the result of a finished job under the id that it was asked
// for by.
func (c *conn) appendResult(b []byte, j *job.Job) []byte {
	b = appendCount(b, 1)
	b = c.req.id.Append(b)
	if j.State == job.Done {
		b = append(b, " 1 "...)
	} else {
		b = append(b, " 0 "...)
	}
	return appendBlock(b, j.Result)
}

// appendBlock ends a line with the size of a block, and appends the block.
func appendBlock(b, block []byte) []byte {
	b = strconv.AppendInt(b, int64(len(block)), 10)
	b = append(b, crlf...)
	b = append(b, block...)
	return append(b, crlf...)
}

// appendID renders the id of a job: its key if that is a UUID in canonical form,
// else the UUID that tells where it is.
func appendID(b []byte, j *job.Job) []byte {
	if u, ok := dialect.ParseUUID(j.Key); ok && usable(u) {
		start := len(b)
		b = u.Append(b)
		if _, _, number := u.Job(); !number && string(b[start:]) == j.Key {
			return b
		}
		b = b[:start]
	}
	return dialect.UUIDOf(j.QueueNum, j.ID).Append(b)
}

// appendName renders the name of a queue. Other protocols allow bytes in it that
// would break a line here.
func appendName(b []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if !nameByte(c) {
			c = '_'
		}
		b = append(b, c)
	}
	return b
}

// appendMilliseconds renders a duration, a fraction of a millisecond as a whole one.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	n := d / time.Millisecond
	if d%time.Millisecond > 0 {
		n++
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// appendTime renders an instant in whole seconds.
func appendTime(b []byte, t job.Time) []byte { return t.Std().AppendFormat(b, timeLayout) }

// appendKey appends a line of inspect with a number.
func appendKey[T uint32 | uint64 | int64](b []byte, key string, n T) []byte {
	b = append(append(b, key...), ' ')
	if n < 0 {
		b = strconv.AppendInt(b, int64(n), 10)
	} else {
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return append(b, crlf...)
}

// appendJob renders a job for inspect.
func appendJob(b []byte, j *job.Job) []byte {
	ttl, maxFails := shownLimits(j)
	b = appendID(b, j)
	if j.RunAt != 0 {
		b = append(b, " 13\r\nname "...)
	} else {
		b = append(b, " 12\r\nname "...)
	}
	b = appendName(b, j.Queue)
	b = append(b, "\r\nttr "...)
	b = appendMilliseconds(b, j.Policy.Lease)
	b = append(b, crlf...)
	b = appendKey(b, "ttl", ttl)
	b = appendKey(b, "payload-size", uint64(len(j.Body)))
	b = append(b, "payload "...)
	b = append(b, j.Body...)
	b = append(b, crlf...)
	b = appendKey(b, "max-attempts", j.Policy.MaxAttempts)
	b = appendKey(b, "attempts", j.Attempts)
	b = appendKey(b, "max-fails", maxFails)
	b = appendKey(b, "fails", j.Fails)
	b = appendKey(b, "priority", j.Policy.Priority)
	b = appendKey(b, "state", shownState(j))
	b = append(b, "created "...)
	b = appendTime(b, j.Created)
	b = append(b, crlf...)
	if j.RunAt != 0 {
		b = append(b, "time "...)
		b = appendTime(b, j.RunAt)
		b = append(b, crlf...)
	}
	return b
}

// shownLimits returns ttl and max-fails as they were given with the job, or what
// comes closest to them for jobs of other protocols.
func shownLimits(j *job.Job) (ttl uint64, maxFails uint32) {
	if j.Origin == dialect.DoorWorkq {
		ttl, fails, ok := readExtra(j.Extra)
		if ok || j.Flags.Has(job.FlagEphemeral) {
			return ttl, uint32(fails)
		}
	}
	if at := j.Policy.ExpireAt; at != 0 && at != job.Never {
		ttl = uint64(max(at.Sub(max(j.Created, j.RunAt)), 0) / time.Millisecond)
	}
	return ttl, j.Policy.MaxFails
}

// The states of the protocol (section 4).
const (
	stateNew uint32 = iota
	stateCompleted
	stateFailed
	statePending
	stateLeased
)

func shownState(j *job.Job) uint32 {
	switch j.State {
	case job.Done:
		return stateCompleted
	case job.Failed, job.Dead:
		return stateFailed
	case job.Leased:
		return stateLeased
	case job.Retrying, job.Buried:
		return statePending
	case job.Scheduled, job.Blocked, job.Ready:
	}
	if j.Attempts > 0 || j.Fails > 0 {
		return statePending
	}
	return stateNew
}

// appendQueue renders a queue for inspect.
func appendQueue(b []byte, q *job.QueueInfo) []byte {
	b = append(append(b, q.Name...), " 2\r\n"...)
	b = appendKey(b, "ready-len", q.Counts[job.Ready])
	return appendKey(b, "scheduled-len", q.Counts[job.Scheduled])
}

// appendServer renders the server for inspect.
func appendServer(b []byte, clients int64, evicted uint64, started job.Time) []byte {
	b = append(b, "+OK 1\r\nserver 3\r\n"...)
	b = appendKey(b, "active-clients", clients)
	b = appendKey(b, "evicted-jobs", evicted)
	b = append(b, "started "...)
	b = appendTime(b, started)
	return append(b, crlf...)
}
