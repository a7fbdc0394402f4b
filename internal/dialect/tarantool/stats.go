package tarantool

import (
	"errors"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// hasTube reports whether any queue was made by create_tube.
func (q *queueClient) hasTube(c *call) (found bool) {
	c.settle()
	v, err := q.engine.View()
	if err != nil {
		return false
	}
	err = v.EachQueue(q.namespace, "", func(info *job.QueueInfo) bool {
		found = info.Configured && !info.Hidden
		return !found
	})
	return errors.Join(err, v.Close()) == nil && found
}

// stats is queue.stats, and queue.statistics of today's procedures.
func (q *queueClient) stats(c *call) {
	c.settle()
	if arg := c.args.At(0); !arg.IsNil() {
		name, _ := arg.Bytes()
		found, ok, err := q.engine.Queue(q.namespace, string(name))
		switch {
		case err != nil:
			c.readFailed(err)
		case !ok || found.Hidden:
			c.raise("Tube " + show(arg) + " not found")
		default:
			r := c.begin()
			r.lone()
			statistics(&r, &found)
			c.end(&r)
		}
		return
	}
	queues, err := dialect.Shown(q.engine, q.namespace)
	if err != nil {
		c.readFailed(err)
		return
	}
	r := c.begin()
	r.lone()
	r.mapOf(len(queues))
	for i := range queues {
		r.str(queues[i].Name)
		statistics(&r, &queues[i])
	}
	c.end(&r)
}

// count is a named number.
type count struct {
	name string
	n    uint64
}

// statistics adds what is known of a queue (protocol section C.7).
func statistics(r *reply, q *job.QueueInfo) {
	n, t := &q.Counts, &q.Totals
	deleted := t[job.CountDeleted] + t[job.CountExpired]
	r.mapOf(2)
	r.str("tasks")
	counts(r, []count{
		{"taken", n[job.Leased]},
		{"buried", n[job.Buried] + n[job.Dead]},
		{"ready", n[job.Ready]},
		{"done", t[job.CountAcked] + deleted},
		{"delayed", n[job.Scheduled] + n[job.Retrying] + n[job.Blocked]},
		{"total", q.Total()},
	})
	r.str("calls")
	counts(r, []count{
		{"ack", t[job.CountAcked]},
		{"bury", t[job.CountBuried]},
		{"delete", deleted},
		{"kick", t[job.CountKicked]},
		{"put", t[job.CountPushed]},
		{"release", t[job.CountReleased]},
		{"take", t[job.CountFetched] - t[job.CountReturned]},
		{"touch", t[job.CountTouched]},
		{"ttl", t[job.CountExpired]},
		{"ttr", t[job.CountLapsed]},
		{"delay", t[job.CountDue]},
	})
}

func counts(r *reply, all []count) {
	r.mapOf(len(all))
	for _, c := range all {
		r.str(c.name)
		r.u64(c.n)
	}
}
