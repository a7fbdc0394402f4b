package sim

import (
	"fmt"
	"slices"

	"millrace/internal/job"
)

// promise is an answer that tells of a change: once it has left, no restart may undo
// the change (INV-11).
type promise struct {
	token uint64
	nth   uint64 // of all answers that the model has given
	needs uint64 // it leaves when this step is durable
}

// tells reports whether an answer tells of a change that the command has made. That of
// a fetch does so only if the lease is to be firm, as all are in a queue with limits.
func (r *run) tells(cmd job.Command, res *job.Result) bool {
	if res.Err != nil {
		return false
	}
	switch c := cmd.(type) {
	case *job.Fetch:
		return c.Firm || slices.ContainsFunc(res.Jobs, func(j job.Job) bool {
			q := r.model.queues[queueName{j.Namespace, j.Queue}]
			return q != nil && !q.limits.IsZero()
		})
	case *job.Push:
		return len(res.Jobs) == 0 // else it was there before
	case *job.Atomic:
		return len(c.Ops) > 0
	case *job.Ack, *job.Fail, *job.Release, *job.Delete, *job.Kill, *job.NewBatch, *job.SetValue, *job.RunSchedule,
		*job.DropSchedule:
		return true
	default: // may have found everything as it should be
		return false
	}
}

// comparePromises asserts after a restart that what was told has happened: the state
// that came back, which is that of all these models, is one in which it had been answered.
func (r *run) comparePromises(same []*Model) error {
	var told uint64
	for _, m := range same {
		told = max(told, m.told)
	}
	promises, durable := r.promises, r.durable
	r.promises, r.durable = nil, 0
	for _, p := range promises {
		if p.needs <= durable && p.nth > told {
			return fmt.Errorf("INV-11: #%d %s was answered when step %d was durable, and a restart has undone it",
				p.token, show(r.cmds[p.token]), p.needs)
		}
	}
	return nil
}
