package lmstfy

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

const (
	headerRequestID   = "X-Request-ID"
	headerContentType = "Content-Type"
	headerLength      = "Content-Length"
	contentJSON       = "application/json; charset=utf-8"
)

// The values of headers that every answer has: net/http only reads them.
var valuesJSON = []string{contentJSON}

// answerEmpty is the answer to a consumer that gets nothing. Every other failure has
// the key "error".
const answerEmpty = `{"msg":"no job available"}`

func appendError(b []byte, text string) []byte {
	b = append(b, `{"error":`...)
	b = jsonscan.AppendQuoted(b, text)
	return append(b, '}')
}

func appendPublished(b []byte, id string) []byte {
	b = append(b, `{"msg":"published","job_id":"`...)
	b = append(b, id...)
	return append(b, `"}`...)
}

func appendPublishedAll(b []byte, ids []string) []byte {
	b = append(b, `{"msg":"published","job_ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), id...), '"')
	}
	return append(b, `]}`...)
}

// appendPlace renders the two members that begin many answers.
func appendPlace(b []byte, namespace, queue string) []byte {
	b = append(b, `"namespace":`...)
	b = jsonscan.AppendQuoted(b, namespace)
	b = append(b, `,"queue":`...)
	return jsonscan.AppendQuoted(b, queue)
}

// appendJob renders a job. A job that is delivered comes with a message.
func appendJob(b []byte, namespace string, j *job.Job, now job.Time, delivered bool) []byte {
	b = append(b, '{')
	if delivered {
		b = append(b, `"msg":"new job",`...)
	}
	b = appendPlace(b, namespace, j.Queue)
	b = append(b, `,"job_id":"`...)
	b = appendID(b, j)
	b = append(b, `","data":"`...)
	b = base64.StdEncoding.AppendEncode(b, j.Body)
	b = append(b, `","ttl":`...)
	b = strconv.AppendInt(b, remaining(j.Policy.ExpireAt, now), 10)
	b = append(b, `,"elapsed_ms":`...)
	b = strconv.AppendInt(b, elapsed(j, now).Milliseconds(), 10)
	b = append(b, `,"remain_tries":`...)
	b = strconv.AppendUint(b, triesLeft(j), 10)
	b = append(b, `,"attributes":`...)
	if j.Origin == dialect.DoorLmstfy && len(j.Extra) > 0 {
		b = append(b, j.Extra...)
	} else {
		b = append(b, "null"...)
	}
	if j.Trace != "" {
		b = append(append(append(b, `,"traceparent":"`...), j.Trace...), '"')
	}
	return append(b, '}')
}

// remaining returns the seconds until an expiry, rounded up: zero is only for a job
// that does not expire.
func remaining(expires, now job.Time) int64 {
	if expires == 0 || expires == job.Never {
		return 0
	}
	left := expires.Sub(now)
	return max(1, int64((left+time.Second-1)/time.Second))
}

// elapsed is how long ago a job was published.
func elapsed(j *job.Job, now job.Time) time.Duration { return max(0, now.Sub(j.Created)) }

// triesLeft returns how often a job may still be delivered; a job of another
// protocol that has no bound has as many as can be told.
func triesLeft(j *job.Job) uint64 {
	most := uint64(j.Policy.MaxAttempts)
	if most == 0 {
		return math.MaxUint16
	}
	return min(most-min(most, uint64(j.Attempts)), math.MaxUint16)
}

func appendSize(b []byte, namespace, queue, name string, size uint64) []byte {
	b = append(b, '{')
	b = appendPlace(b, namespace, queue)
	b = append(append(append(b, `,"`...), name...), `":`...)
	b = strconv.AppendUint(b, size, 10)
	return append(b, '}')
}

func appendDead(b []byte, namespace, queue string, size uint64, head *job.Job) []byte {
	b = appendSize(b, namespace, queue, "deadletter_size", size)
	b = append(b[:len(b)-1], `,"deadletter_head":"`...)
	if head != nil {
		b = appendID(b, head)
	}
	return append(b, `"}`...)
}

func appendRespawned(b []byte, count int) []byte {
	b = append(b, `{"msg":"respawned","count":`...)
	b = strconv.AppendInt(b, int64(count), 10)
	return append(b, '}')
}

func appendLimited(b []byte, token string, s side) []byte {
	b = append(b, `{"msg":`...)
	b = jsonscan.AppendQuoted(b, "token("+token+") "+sideNames[s]+" reach the limit rate, please retry later")
	return append(b, '}')
}
