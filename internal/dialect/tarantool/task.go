package tarantool

import (
	"errors"

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
func showTask(c *call, j *job.Job) { answerTask(c, j, taskState(j.State)) }

// answerTask answers with a task: always three fields.
func answerTask(c *call, j *job.Job, state string) {
	r := c.begin()
	r.tuple(3)
	r.u64(shownID(j))
	r.str(state)
	r.body(j.BodyKind, j.Body)
	c.end(&r)
}

// isNotFound reports whether a read of the engine found no such job.
func isNotFound(err error) bool {
	var refused *job.Error
	return errors.As(err, &refused) && refused.Kind == job.NotFound
}
