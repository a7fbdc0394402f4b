package beanstalkd

import "millrace/internal/job"

// A job that was pushed with a number is known by its id. No command looks for another one in every queue, so that its
// id tells its queue, too: a high bit, 22 bits for the queue and 40 for the job. Beyond that only who holds a job can
// name it.
const (
	placed    = 1 << 62
	placeBits = 40
	queueMax  = 1 << 22
	idMax     = 1 << placeBits
)

// shownID is the id under which clients know a job.
func shownID(j *job.Job) uint64 {
	id := uint64(j.ID)
	if j.Flags.Has(job.FlagNumbered) || id >= idMax || j.QueueNum >= queueMax {
		return id
	}
	return placed | uint64(j.QueueNum)<<placeBits | id
}

// refOf names the job that a client calls by an id.
func refOf(namespace string, id uint64) job.Ref {
	if id&^(placed-1) == placed {
		return job.ByPlace(namespace, uint32(id>>placeBits)&(queueMax-1), job.ID(id&(idMax-1)))
	}
	ref := job.ByNumber(namespace, job.ID(id).Number())
	ref.ID = job.ID(id)
	return ref
}
