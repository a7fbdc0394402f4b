package queue

import (
	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// HasTubes reports whether any queue was made by create_tube.
func (q *Client) HasTubes(c *proc.Call) (found bool) {
	c.Settle()
	err := q.engine.Read(func(v *engine.View) error {
		return v.EachQueue(q.namespace, "", func(info *job.QueueInfo) bool {
			found = info.Configured && !info.Hidden
			return !found
		})
	})
	return err == nil && found
}

// Stats is queue.stats, and queue.statistics of today's procedures.
func (q *Client) Stats(c *proc.Call) {
	c.Settle()
	if arg := c.Args.At(0); !arg.IsNil() {
		name, _ := arg.Bytes()
		found, ok, err := q.engine.Queue(q.namespace, string(name))
		switch {
		case err != nil:
			c.ReadFailed(err)
		case !ok || found.Hidden:
			c.Raise("Tube " + show(arg) + " not found")
		default:
			r := c.Begin()
			r.Lone()
			statistics(&r, &found)
			c.End(&r)
		}
		return
	}
	defer c.Conn.TakeAlone()()
	queues, err := dialect.Shown(q.engine, q.namespace)
	if err != nil {
		c.ReadFailed(err)
		return
	}
	r := c.Begin()
	r.Lone()
	r.Map(len(queues))
	for i := range queues {
		r.Str(queues[i].Name)
		statistics(&r, &queues[i])
	}
	c.End(&r)
}

// count is a named number.
type count struct {
	name string
	n    uint64
}

// statistics adds what is known of a queue (protocol section C.7).
func statistics(r *proc.Reply, q *job.QueueInfo) {
	n, t := &q.Counts, &q.Totals
	deleted := t[job.CountDeleted] + t[job.CountExpired]
	r.Map(2)
	r.Str("tasks")
	counts(r, []count{
		{"taken", n[job.Leased]},
		{"buried", n[job.Buried] + n[job.Dead]},
		{"ready", n[job.Ready]},
		{"done", t[job.CountAcked] + deleted},
		{"delayed", n[job.Scheduled] + n[job.Retrying] + n[job.Blocked]},
		{"total", q.Total()},
	})
	r.Str("calls")
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

func counts(r *proc.Reply, all []count) {
	r.Map(len(all))
	for _, c := range all {
		r.Str(c.name)
		r.Uint64(c.n)
	}
}
