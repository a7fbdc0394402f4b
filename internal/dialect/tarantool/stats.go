package tarantool

import (
	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// isModernStatistics decides which queue.statistics is meant: it is today's if the
// first argument names a tube, else the legacy one.
func (c *call) isModernStatistics() bool {
	arg := c.args.at(0)
	name, ok := arg.bytes()
	if !ok {
		return false
	}
	if c.findTube(name) != nil {
		return true
	}
	_, number := arg.numberOrText()
	return !number
}

// stats is queue.stats, and queue.statistics of a tube.
func stats(c *call) {
	c.settle()
	d := c.conn.d
	if arg := c.args.at(0); !arg.isNil() {
		name, _ := arg.bytes()
		q, ok, err := c.engine().Queue(d.opts.Namespace, string(name))
		switch {
		case err != nil:
			c.readFailed(err)
		case !ok || q.Hidden:
			c.raise("Tube " + show(arg) + " not found")
		default:
			r := c.begin()
			r.lone()
			r.statistics(&q)
			c.end(&r)
		}
		return
	}
	queues, err := dialect.Shown(c.engine(), d.opts.Namespace)
	if err != nil {
		c.readFailed(err)
		return
	}
	r := c.begin()
	r.lone()
	r.out = msgp.AppendMapHeader(r.out, uint32(len(queues))) //nolint:gosec // at most dialect.QueuesShown
	for i := range queues {
		r.str(queues[i].Name)
		r.statistics(&queues[i])
	}
	c.end(&r)
}

// count is a named number.
type count struct {
	name string
	n    uint64
}

// statistics adds what is known of a queue (protocol section C.7).
func (r *reply) statistics(q *job.QueueInfo) {
	n, t := &q.Counts, &q.Totals
	deleted := t[job.CountDeleted] + t[job.CountExpired]
	r.out = msgp.AppendMapHeader(r.out, 2)
	r.str("tasks")
	r.counts([]count{
		{"taken", n[job.Leased]},
		{"buried", n[job.Buried] + n[job.Dead]},
		{"ready", n[job.Ready]},
		{"done", t[job.CountAcked] + deleted},
		{"delayed", n[job.Scheduled] + n[job.Retrying] + n[job.Blocked]},
		{"total", q.Total()},
	})
	r.str("calls")
	r.counts([]count{
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

func (r *reply) counts(all []count) {
	r.out = msgp.AppendMapHeader(r.out, uint32(len(all))) //nolint:gosec // a dozen
	for _, c := range all {
		r.str(c.name)
		r.u64(c.n)
	}
}
