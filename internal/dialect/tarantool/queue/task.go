package queue

import (
	"errors"

	"millrace/internal/dialect/tarantool/proc"
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

// showTask answers with a task as it is.
func showTask(c *proc.Call, j *job.Job) { answerTask(c, j, taskState(j.State)) }

// answerTask answers with a task: always three fields.
func answerTask(c *proc.Call, j *job.Job, state string) {
	r := c.Begin()
	r.Tuple(3)
	r.Uint64(shownID(j))
	r.Str(state)
	r.Body(j.BodyKind, j.Body)
	c.End(&r)
}

// isNotFound reports whether a read of the engine found no such job.
func isNotFound(err error) bool {
	var refused *job.Error
	return errors.As(err, &refused) && refused.Kind == job.NotFound
}
