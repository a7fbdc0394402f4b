package faktory

import (
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// pieceMax is how many commands of one of the client's are submitted at a time, if they
// may be very many: the engine has others to serve.
const pieceMax = 256

// runQueue answers QUEUE (protocol section 4).
func (c *conn) runQueue() {
	sub, names := words(c.arg)
	var build func(queue string) job.Command
	least := uint64(0)
	namespace := c.d.opts.Namespace
	switch sub {
	case "PAUSE":
		build = func(queue string) job.Command { return &job.Pause{Namespace: namespace, Queue: queue} }
	case "RESUME":
		build = func(queue string) job.Command { return &job.Resume{Namespace: namespace, Queue: queue} }
	case "REMOVE":
		least = pieceRemove
		build = func(queue string) job.Command {
			return &job.Remove{Namespace: namespace, Queue: queue, ReadyOnly: true}
		}
	case "LATENCY":
		c.latency(names)
		return
	case "":
		c.fail(textQueueUsage)
		return
	default:
		c.fail(textQueueSub + echo([]byte(sub)))
		return
	}
	first, rest := nextWord(names)
	more, _ := nextWord(rest)
	switch {
	case len(first) == 0:
		c.fail(textQueueUsage)
		return
	case string(first) == "*" && len(more) == 0:
		c.eachQueue(build, least)
		return
	}
	p := &pieces{c: c}
	for name, rest := nextWord(names); len(name) > 0 && p.err == nil; name, rest = nextWord(rest) {
		p.addHeavy(build(string(name)), pieceUnknown)
	}
	c.finish(p)
}

// eachQueue does something to every queue, in pieces: those that are made meanwhile may be met or not. Each queue costs
// as much as that many jobs at least.
func (c *conn) eachQueue(build func(queue string) job.Command, least uint64) {
	p := &pieces{c: c}
	err := c.eachName(func(q *job.QueueInfo) (uint64, bool) { return q.Counts[job.Ready], !q.Hidden },
		func(name string, jobs uint64) bool {
			p.addHeavy(build(name), max(jobs, least))
			return p.err == nil
		})
	if err != nil {
		c.readFailed(err)
		return
	}
	c.finish(p)
}

// namesMax is how many queues are read at a time: a long list is never in memory as a whole, and no view of the data
// stays open while something is done to the queues.
const namesMax = 1000

// eachName visits the names of the queues that are wanted, each with the number of jobs that want tells, until visit
// returns false.
func (c *conn) eachName(
	want func(*job.QueueInfo) (jobs uint64, ok bool), visit func(name string, jobs uint64) bool,
) error {
	type wanted struct {
		name string
		jobs uint64
	}
	for after, more := "", true; more; {
		var list []wanted
		read := 0
		err := c.d.opts.Engine.Read(func(v *engine.View) error {
			return v.EachQueue(c.d.opts.Namespace, after, func(q *job.QueueInfo) bool {
				after = q.Name
				if n, ok := want(q); ok {
					list = append(list, wanted{q.Name, n})
				}
				read++
				return read < namesMax
			})
		})
		if err != nil {
			return err
		}
		for _, w := range list {
			if !visit(w.name, w.jobs) {
				return nil
			}
		}
		more = read == namesMax
	}
	return nil
}

// pieces submits any number of commands in pieces. Refusals because a job or queue is
// not there, or not in the state that was meant, are no errors.
type pieces struct {
	c     *conn
	req   engine.Request // used again for every piece, as are the next
	spare dialect.Freelist[job.Each]
	jobs  uint64 // that the commands may concern
	// done, if set, is told of every result.
	done func(cmd job.Command, res *job.Result)
	err  *job.Error // the first refusal that is an error
}

// add adds a command that concerns one job or queue.
func (p *pieces) add(cmd job.Command) { p.addHeavy(cmd, 0) }

// pieceJobs is how many jobs the commands of a piece may concern, if those of one are never more than
// pieceHeavy: beyond that many the engine goes through the jobs of a queue later. pieceUnknown stands for a number that
// was not looked up. Removing a queue costs as much as pieceRemove jobs, however few it has: the store is searched for
// its lists.
const (
	pieceJobs    = 1024
	pieceHeavy   = 256
	pieceUnknown = 32
	pieceRemove  = 16
)

// addHeavy adds a command that concerns several jobs.
func (p *pieces) addHeavy(cmd job.Command, jobs uint64) {
	p.req.Commands = append(p.req.Commands, cmd)
	p.jobs += min(jobs, pieceHeavy)
	if len(p.req.Commands) == pieceMax || p.jobs >= pieceJobs {
		p.flush()
	}
}

func (p *pieces) flush() {
	if len(p.req.Commands) == 0 {
		return
	}
	p.c.Do(p.c.d.opts.Engine, &p.req)
	for i := range p.req.Results {
		res := &p.req.Results[i]
		if p.done != nil {
			p.done(p.req.Commands[i], res)
		}
		if res.Err != nil && p.err == nil && !harmless(res.Err.Kind) {
			p.err = res.Err
		}
	}
	clear(p.req.Commands)
	p.req.Commands, p.jobs = p.req.Commands[:0], 0
	p.spare.Release()
}

// harmless reports whether a refusal only tells that there was nothing to do.
func harmless(kind job.Kind) bool {
	switch kind {
	case job.NotFound, job.BadState, job.Finished, job.NotLeased:
		return true
	case job.Invalid, job.Duplicate, job.Exists, job.NotOwner, job.Full, job.Busy, job.Waiting, job.Timeout,
		job.Canceled,
		job.TooLarge, job.NoSpace, job.Draining, job.Internal, job.Locked, job.Overloaded, job.ManyQueues, job.Lapsing:
	}
	return false
}

// finish submits what is left and answers.
func (c *conn) finish(p *pieces) {
	p.flush()
	if p.err != nil {
		c.refuse(refusal(p.err.Kind))
		return
	}
	c.SetOut(append(c.Out(), replyOK...))
}

// latency answers how long the first job of each queue has been waiting.
func (c *conn) latency(list []byte) {
	var names []string
	seen := make(map[string]bool)
	for name, rest := nextWord(list); len(name) > 0; name, rest = nextWord(rest) {
		if !seen[string(name)] {
			seen[string(name)] = true
			names = append(names, string(name))
		}
	}
	if len(names) == 1 && names[0] == "*" {
		c.fail(textNoWildcard)
		return
	}
	start := len(c.Out())
	out, m := beginBulk(c.Out(), 64*len(names))
	o := &object{out: out}
	o.open("")
	err := c.d.opts.Engine.Read(func(v *engine.View) error {
		now := c.d.opts.Engine.Now()
		for _, name := range names {
			q, _, err := v.Queue(c.d.opts.Namespace, name)
			if err == nil {
				err = v.OldestReady(&q)
			}
			if err != nil {
				return err
			}
			var waited time.Duration
			if q.OldestReady != 0 {
				waited = max(0, now.Sub(q.OldestReady))
			}
			o.key(name)
			o.out = strconv.AppendFloat(o.out, waited.Seconds(), 'f', -1, 64)
		}
		return nil
	})
	if err != nil {
		c.SetOut(o.out[:start])
		c.readFailed(err)
		return
	}
	o.close()
	c.SetOut(m.end(o.out))
}
