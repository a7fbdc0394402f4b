package sim

import (
	"time"

	"millrace/internal/job"
)

// crowd makes commands by which many callers come to wait for the same thing, and those
// that give it to all of them.
func (g *generator) crowd() job.Command {
	switch n := g.rng.IntN(20); {
	case n < 7:
		f := &job.Fetch{
			Namespace: namespaces[0], Pick: job.Pick(g.rng.IntN(int(job.PickBest) + 1)), Wait: time.Hour,
			Holder: g.holder(),
		}
		for range 1 + g.rng.IntN(2*len(g.queues)) {
			f.Queues = append(f.Queues, choose(g, g.queues...))
		}
		return f
	case n < 11:
		return &job.Push{
			Spec:     job.Spec{Namespace: namespaces[0], Queue: choose(g, g.queues...), Key: g.key()},
			RoomWait: time.Hour,
		}
	case n < 13:
		return &job.Pause{Namespace: namespaces[0], Queue: choose(g, g.queues...)}
	case n < 14:
		return &job.Resume{Namespace: namespaces[0], Queue: g.queueWhere(func(q *queue) bool { return q.paused })}
	case n < 16:
		return &job.Await{Ref: g.placeOf(g.awaited()), Wait: time.Hour}
	case n < 17:
		return &job.Ack{Ref: g.placeOf(g.awaited()), Need: job.NeedAny, Keep: g.chance(50)}
	case n < 19:
		c := &job.Configure{Namespace: namespaces[0], Queue: g.queueWhere(g.isCrowded), Replace: true}
		if c.Settings.Capacity = uint64(1 + g.rng.IntN(2)); g.isCrowded(g.model.queues[queueName{
			namespaces[0],
			c.Queue,
		}]) {
			c.Settings.Capacity = uint64(choose(g, 0, 20))
		}
		return c
	default:
		return &job.Remove{
			Namespace: namespaces[0], KeepQueue: g.chance(50),
			Queue: g.queueWhere(func(q *queue) bool { return g.model.full(q.queueName) }),
		}
	}
}

// queueWhere returns a queue of the first namespace, if possible one that fits.
func (g *generator) queueWhere(fits func(*queue) bool) string {
	for _, q := range g.model.inOrder() {
		if q.ns == namespaces[0] && fits(q) {
			return q.name
		}
	}
	return choose(g, g.queues...)
}

// isCrowded reports whether several pushes wait for room in a queue.
func (g *generator) isCrowded(q *queue) bool {
	n := 0
	for _, w := range g.model.waits {
		if c, ok := w.cmd.(*job.Push); ok && q != nil && (queueName{c.Spec.Namespace, c.Spec.Queue}) == q.queueName {
			n++
		}
	}
	return n > 2
}

// awaited returns a job, if possible one whose result somebody waits for.
func (g *generator) awaited() job.ID {
	for _, w := range g.model.waits {
		if w.id != 0 && w.told == nil && g.chance(80) {
			return w.id
		}
	}
	return g.id(job.Ready, job.Leased)
}
