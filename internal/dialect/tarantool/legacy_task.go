package tarantool

import (
	"time"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// The statuses of a task.
const (
	legacyReady   = "ready"
	legacyDelayed = "delayed"
	legacyTaken   = "taken"
	legacyBuried  = "buried"
	legacyDone    = "done"
)

// legacyStatus returns the status of a job. States that only other protocols have
// are shown as what they mean for a worker.
func legacyStatus(s job.State) string {
	switch s {
	case job.Scheduled, job.Blocked, job.Retrying:
		return legacyDelayed
	case job.Ready:
		return legacyReady
	case job.Leased:
		return legacyTaken
	case job.Buried, job.Dead:
		return legacyBuried
	case job.Done, job.Failed:
		return legacyDone
	}
	return legacyReady
}

// legacyTask answers a task: id, tube, status and its data, flat.
func legacyTask(c *call, j *job.Job, status string) {
	n := legacyFieldCount(j)
	r := c.begin()
	r.tuple(3 + n)
	legacyID(&r, j.QueueNum, j.ID, j.Flags.Has(job.FlagNumbered))
	r.str(j.Queue)
	r.str(status)
	switch {
	case n == 0:
	case j.BodyKind == job.BodyMsgpack:
		r.list(j.Body)
	default:
		r.body(j.BodyKind, j.Body)
	}
	c.end(&r)
}

// legacyFieldCount returns how many fields the data of a job have. A body of another
// protocol is one.
func legacyFieldCount(j *job.Job) int {
	switch j.BodyKind {
	case job.BodyNone:
		return 0
	case job.BodyMsgpack:
		return iproto.CountValues(j.Body)
	case job.BodyBytes, job.BodyJSON, job.BodyArgs:
	}
	return 1
}

// legacyID adds the id of a job of a queue.
func legacyID(r *reply, queueNum uint32, id job.ID, numbered bool) {
	var b [legacyIDLen]byte
	r.text(appendLegacyID(b[:0], queueNum, id, numbered))
}

// legacyMeta answers what is known about a task, without its data.
func legacyMeta(c *call, j *job.Job, now job.Time) {
	r := c.begin()
	r.tuple(13)
	legacyID(&r, j.QueueNum, j.ID, j.Flags.Has(job.FlagNumbered))
	r.str(j.Queue)
	r.str(legacyStatus(j.State))
	r.u64(microseconds(legacyEvent(j)))
	r.decimal(legacyPriority + j.Order.Rank)
	r.decimal(legacyPriority + j.Policy.Priority)
	r.u32(legacyConsumer(j))
	r.u64(microseconds(j.Created))
	r.u64(uint64(legacyLife(j) / time.Microsecond)) //nolint:gosec // not negative
	r.u64(uint64(max(j.Policy.Lease, 0) / time.Microsecond))
	r.u64(uint64(j.Buries))
	r.u64(uint64(j.Attempts))
	r.u64(microseconds(now))
	c.end(&r)
}

func microseconds(t job.Time) uint64 { return uint64(max(t, 0)) }

// legacyEvent returns when something happens to the task by itself; zero if nothing
// ever does.
func legacyEvent(j *job.Job) job.Time {
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

// legacyLife returns how long the task lives from its creation on; zero if for ever.
func legacyLife(j *job.Job) time.Duration {
	at := j.Policy.ExpireAt
	if at == 0 || at == job.Never {
		return 0
	}
	return max(at.Sub(j.Created), 0)
}

// legacyConsumer returns the number of the connection that has taken the task.
func legacyConsumer(j *job.Job) uint32 {
	if j.State != job.Leased {
		return 0
	}
	return uint32(holderNumber(j.Lease.Holder)) //nolint:gosec // it fits
}
