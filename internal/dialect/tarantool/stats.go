package tarantool

import (
	"errors"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// api is one of the two sets of procedures.
type api uint8

const (
	apiNone api = iota
	apiLegacy
	apiModern
)

// apiOf returns the set that a procedure belongs to.
func apiOf(asked command) api {
	switch {
	case asked == commandLegacyStatistics: // of both
		return apiNone
	case asked >= legacyFirst:
		return apiLegacy
	case asked >= commandPut && asked <= commandState:
		return apiModern
	default:
		return apiNone
	}
}

// isModernStatistics decides which queue.statistics is meant: it is today's if the
// first argument names a tube, else the legacy one. Without one it is that of the set
// which the connection uses.
func (c *call) isModernStatistics() bool {
	arg := c.args.At(0)
	if arg.IsNil() && c.args.At(1).IsNil() {
		return c.conn.uses == apiModern || c.conn.uses == apiNone && !c.conn.d.legacy.used() && c.hasTube()
	}
	name, ok := arg.Bytes()
	if !ok {
		return false
	}
	if c.findTube(name) != nil {
		return true
	}
	_, number := arg.NumberOrText()
	return !number
}

// hasTube reports whether any queue was made by create_tube.
func (c *call) hasTube() (found bool) {
	c.settle()
	v, err := c.engine().View()
	if err != nil {
		return false
	}
	err = v.EachQueue(c.conn.d.opts.Namespace, "", func(q *job.QueueInfo) bool {
		found = q.Configured && !q.Hidden
		return !found
	})
	return errors.Join(err, v.Close()) == nil && found
}

// stats is queue.stats, and queue.statistics of today's procedures.
func stats(c *call) {
	c.settle()
	d := c.conn.d
	if arg := c.args.At(0); !arg.IsNil() {
		name, _ := arg.Bytes()
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
