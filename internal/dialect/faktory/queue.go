package faktory

import (
	"strconv"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// pieceMax is how many commands of one of the client's are submitted at a time, if they
// may be very many: the engine has others to serve.
const pieceMax = 256

// runQueue answers QUEUE (protocol section 4).
func (c *conn) runQueue() error {
	sub, names := words(c.arg)
	var build func(queue string) job.Command
	namespace := c.d.opts.Namespace
	switch sub {
	case "PAUSE":
		build = func(queue string) job.Command { return &job.Pause{Namespace: namespace, Queue: queue} }
	case "RESUME":
		build = func(queue string) job.Command { return &job.Resume{Namespace: namespace, Queue: queue} }
	case "REMOVE":
		build = func(queue string) job.Command {
			return &job.Remove{Namespace: namespace, Queue: queue, ReadyOnly: true}
		}
	case "LATENCY":
		c.latency(names)
		return nil
	case "":
		c.fail(textQueueUsage)
		return nil
	default:
		c.fail(textQueueSub + echo([]byte(sub)))
		return nil
	}
	first, rest := nextWord(names)
	more, _ := nextWord(rest)
	switch {
	case len(first) == 0:
		c.fail(textQueueUsage)
		return nil
	case string(first) == "*" && len(more) == 0:
		c.eachQueue(build)
		return nil
	}
	p := &pieces{c: c}
	for name, rest := nextWord(names); len(name) > 0; name, rest = nextWord(rest) {
		p.add(build(string(name)))
	}
	c.finish(p)
	return nil
}

// eachQueue does something to every queue that there is now.
func (c *conn) eachQueue(build func(queue string) job.Command) {
	var names []string
	_, err := c.d.count(func(q *job.QueueInfo) { names = append(names, q.Name) })
	if err != nil {
		c.readFailed(err)
		return
	}
	p := &pieces{c: c}
	for _, name := range names {
		p.add(build(name))
	}
	c.finish(p)
}

// pieces submits any number of commands in pieces. Refusals because a job or queue is
// not there, or not in the state that was meant, are no errors.
type pieces struct {
	c    *conn
	cmds []job.Command
	// done, if set, is told of every result.
	done func(cmd job.Command, err *job.Error)
	err  *job.Error // the first refusal that is an error
}

func (p *pieces) add(cmd job.Command) {
	p.cmds = append(p.cmds, cmd)
	if len(p.cmds) == pieceMax {
		p.flush()
	}
}

func (p *pieces) flush() {
	if len(p.cmds) == 0 {
		return
	}
	cmds := p.cmds
	p.cmds = nil
	for i, res := range p.c.do(cmds...) {
		if p.done != nil {
			p.done(cmds[i], res.Err)
		}
		if res.Err != nil && p.err == nil && !harmless(res.Err.Kind) {
			p.err = res.Err
		}
	}
}

// harmless reports whether a refusal only tells that there was nothing to do.
func harmless(kind job.Kind) bool {
	switch kind {
	case job.NotFound, job.BadState, job.Finished, job.NotLeased:
		return true
	case job.Invalid, job.Duplicate, job.Exists, job.NotOwner, job.Full, job.Busy, job.Waiting, job.Timeout, job.Canceled,
		job.TooLarge, job.NoSpace, job.Draining, job.Internal, job.Locked, job.Overloaded, job.ManyQueues:
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
	err := c.d.view(func(v *engine.View) error {
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
