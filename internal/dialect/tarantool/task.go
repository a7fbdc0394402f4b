package tarantool

import (
	"errors"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// The states of a task as clients see them.
const (
	taskReady   = "r"
	taskTaken   = "t"
	taskDone    = "-"
	taskBuried  = "!"
	taskDelayed = "~"
)

// taskState is the state of a task. The states of jobs that other protocols push
// are shown as the nearest.
func taskState(s job.State) string {
	switch s {
	case job.Ready:
		return taskReady
	case job.Leased:
		return taskTaken
	case job.Scheduled, job.Blocked, job.Retrying:
		return taskDelayed
	case job.Buried, job.Dead:
		return taskBuried
	case job.Done, job.Failed:
		return taskDone
	}
	return taskDone
}

// task answers with a task as it is.
func (c *call) task(j *job.Job) { c.answerTask(j, taskState(j.State)) }

// answerTask answers with a task: always three fields.
func (c *call) answerTask(j *job.Job, state string) {
	r := c.begin()
	r.tuple(3)
	r.u64(shownID(j))
	r.str(state)
	r.out = appendBody(r.out, j)
	c.end(&r)
}

// appendBody appends the body of a job as one MessagePack value: what was put as it
// was, and what came through another protocol as a string.
func appendBody(b []byte, j *job.Job) []byte { return appendValue(b, j.BodyKind, j.Body) }

func appendValue(b []byte, kind job.BodyKind, body []byte) []byte {
	switch kind {
	case job.BodyMsgpack:
		// Legacy tasks have any number of values.
		if n := iproto.CountValues(body); n != 1 {
			if n == 0 {
				return msgp.AppendNil(b)
			}
			b = msgp.AppendArrayHeader(b, uint32(n)) //nolint:gosec // no more than bytes
		}
		return append(b, body...)
	case job.BodyJSON, job.BodyArgs:
		return msgp.AppendStringFromBytes(b, body)
	case job.BodyBytes:
		if utf8.Valid(body) {
			return msgp.AppendStringFromBytes(b, body)
		}
		return msgp.AppendBytes(b, body)
	case job.BodyNone:
		return msgp.AppendNil(b)
	}
	return msgp.AppendBytes(b, body)
}

// isNotFound reports whether a read of the engine found no such job.
func isNotFound(err error) bool {
	var refused *job.Error
	return errors.As(err, &refused) && refused.Kind == job.NotFound
}
