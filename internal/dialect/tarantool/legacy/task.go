package legacy

import (
	"time"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// The statuses of a task.
const (
	ready   = "ready"
	delayed = "delayed"
	taken   = "taken"
	buried  = "buried"
	done    = "done"
)

// statusOf returns the status of a job. States that only other protocols have
// are shown as what they mean for a worker.
func statusOf(s job.State) string {
	switch s {
	case job.Scheduled, job.Blocked, job.Retrying:
		return delayed
	case job.Ready:
		return ready
	case job.Leased:
		return taken
	case job.Buried, job.Dead:
		return buried
	case job.Done, job.Failed:
		return done
	}
	return ready
}

// answerTask answers a task: id, tube, status and its data, flat.
func answerTask(c *proc.Call, j *job.Job, status string) {
	n := fieldCount(j)
	r := c.Begin()
	r.Tuple(3 + n)
	showID(&r, j.QueueNum, j.ID, j.Flags.Has(job.FlagNumbered))
	r.Str(j.Queue)
	r.Str(status)
	switch {
	case n == 0:
	case j.BodyKind == job.BodyMsgpack:
		r.List(j.Body)
	default:
		r.Body(j.BodyKind, j.Body)
	}
	c.End(&r)
}

// fieldCount returns how many fields the data of a job have. A body of another
// protocol is one.
func fieldCount(j *job.Job) int {
	switch j.BodyKind {
	case job.BodyNone:
		return 0
	case job.BodyMsgpack:
		return iproto.CountValues(j.Body)
	case job.BodyBytes, job.BodyJSON, job.BodyArgs:
	}
	return 1
}

// showID adds the id of a job of a queue.
func showID(r *proc.Reply, queueNum uint32, id job.ID, numbered bool) {
	var b [idLen]byte
	r.Text(appendID(b[:0], queueNum, id, numbered))
}

// answerMeta answers what is known about a task, without its data.
func answerMeta(c *proc.Call, j *job.Job, now job.Time) {
	r := c.Begin()
	r.Tuple(13)
	showID(&r, j.QueueNum, j.ID, j.Flags.Has(job.FlagNumbered))
	r.Str(j.Queue)
	r.Str(statusOf(j.State))
	r.Uint64(microseconds(nextEvent(j)))
	r.Decimal(defaultPriority + j.Order.Rank)
	r.Decimal(defaultPriority + j.Policy.Priority)
	r.Uint32(consumerOf(j))
	r.Uint64(microseconds(j.Created))
	r.Uint64(uint64(lifeOf(j) / time.Microsecond)) //nolint:gosec // not negative
	r.Uint64(uint64(max(j.Policy.Lease, 0) / time.Microsecond))
	r.Uint64(uint64(j.Buries))
	r.Uint64(uint64(j.Attempts))
	r.Uint64(microseconds(now))
	c.End(&r)
}

func microseconds(t job.Time) uint64 { return uint64(max(t, 0)) }

// nextEvent returns when something happens to the task by itself; zero if nothing
// ever does.
func nextEvent(j *job.Job) job.Time {
	at := j.Policy.ExpireAt
	switch j.State {
	case job.Scheduled, job.Retrying:
		at = job.Earlier(at, j.RunAt)
	case job.Leased:
		at = job.Earlier(at, j.Lease.Until)
	case job.Blocked, job.Ready, job.Buried, job.Done, job.Failed, job.Dead:
	}
	if at == job.Never {
		return 0
	}
	return at
}

// lifeOf returns how long the task lives from its creation on; zero if for ever.
func lifeOf(j *job.Job) time.Duration {
	at := j.Policy.ExpireAt
	if at == 0 || at == job.Never {
		return 0
	}
	return max(at.Sub(j.Created), 0)
}

// consumerOf returns the number of the connection that has taken the task.
func consumerOf(j *job.Job) uint32 {
	if j.State != job.Leased {
		return 0
	}
	return uint32(proc.HolderNumber(j.Lease.Holder)) //nolint:gosec // it fits
}
