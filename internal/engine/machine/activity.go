package machine

import "millrace/internal/job"

// Active is how much the lifetime counters of a queue have grown since the last Activity. A queue that was removed
// meanwhile and made again may be there twice.
type Active struct {
	Namespace, Queue string
	Added            [job.CounterCount]uint64
}

// Activity is how much the lifetime counters have grown: by queue since the last call, and together since the machine
// was made. What queues that were removed had counted is still in All.
type Activity struct {
	Queues []Active
	All    [job.CounterCount]uint64
}

// activity collects what Activity returns.
type activity struct {
	Activity
	round uint32 // of collecting
}

// noteActive counts what happened in a queue. Only the first queues of a round are told apart:
// memory and the work of those who read it are bounded. A queue knows its place by the round, so
// that nothing is looked up.
func (m *Machine) noteActive(q *queue, c job.Counter, n uint64) {
	a := &m.activity
	a.All[c] += n
	if q.activeRound != a.round+1 {
		if len(a.Queues) >= m.opt.ActiveQueues {
			return
		}
		q.activeRound, q.activeIndex = a.round+1, uint32(len(a.Queues)) //nolint:gosec // bounded
		a.Queues = append(a.Queues, Active{Namespace: q.namespace, Queue: q.name})
	}
	a.Queues[q.activeIndex].Added[c] += n
}

// Activity returns what happened since the last call, and begins a new round. The list belongs to
// the caller.
func (m *Machine) Activity() Activity {
	out := m.activity.Activity
	m.activity.Queues = nil
	m.activity.round++
	return out
}
