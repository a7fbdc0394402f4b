package engine

import (
	"slices"

	"millrace/internal/job"
)

// DefaultMaxQueues is how many queues there may be unless Options say otherwise. Each is in memory, with its counts.
const DefaultMaxQueues = 250_000

// tooManyQueues reports whether a command would make a queue although there are as many as there may be, and counts it.
// Jobs that move to a queue by themselves make it all the same: they are not lost.
func (e *Engine) tooManyQueues(cmd job.Command) bool {
	if e.core.Queues() < e.maxQueues || !e.makesQueue(cmd) {
		return false
	}
	e.stats.queuesRefused.Add(1)
	return true
}

// makesQueue reports whether a command would make a queue.
func (e *Engine) makesQueue(cmd job.Command) bool {
	switch c := cmd.(type) {
	case *job.Push:
		return e.lacksQueue(&c.Spec)
	case *job.Run:
		return e.lacksQueue(&c.Spec)
	case *job.Configure:
		return !e.core.HasQueue(c.Namespace, c.Queue)
	case *job.SetLimits:
		return !c.Limits.IsZero() && !e.core.HasQueue(c.Namespace, c.Queue)
	case *job.SetFair:
		return c.Fairness.On && !e.core.HasQueue(c.Namespace, c.Queue)
	case *job.Pause:
		return c.Make && !e.core.HasQueue(c.Namespace, c.Queue)
	case *job.Move:
		return !e.core.HasQueue(c.Ref.Namespace, c.Queue)
	case *job.Atomic:
		return slices.ContainsFunc(c.Ops, e.makesQueue)
	default:
		return false
	}
}

// lacksQueue reports whether the queue of a job, or the one that it goes to when it has failed, is not there.
func (e *Engine) lacksQueue(s *job.Spec) bool {
	return !e.core.HasQueue(s.Namespace, s.Queue) ||
		s.Policy.DeadQueue != "" && !e.core.HasQueue(s.Namespace, s.Policy.DeadQueue)
}
