package clustersim

import (
	"bytes"
	"fmt"
	"slices"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/sim"
	"millrace/internal/store"
)

// callKind is what kind of answer a call has got.
type callKind uint8

const (
	kindChange   callKind = iota + 1 // it tells of a change
	kindDelivery                     // it has jobs, whose leases may be lost
	kindRefusal                      // it tells how things are
	kindRead
)

var kindNames = [...]string{
	kindChange: "R-3: a change", kindDelivery: "R-6: a delivery", kindRefusal: "R-7: a refusal",
	kindRead: "R-7: a read",
}

// call is a command of a client.
type call struct {
	token   uint64
	cmd     job.Command // nil: a read
	req     *engine.Request
	reign   *reign
	crashed bool // its process is gone
	done    int

	// What follows is known once the engine has made up its mind.
	want   *sim.Completion
	kind   callKind
	moment uint64 // the end of the log then
	needs  uint64 // the batch that has what it tells
	floor  uint64 // of a read: what was in the log and answered before
}

func (c *call) String() string {
	if c.cmd == nil {
		return fmt.Sprintf("read %d of term %d", c.token, c.reign.number)
	}
	return fmt.Sprintf("command %d of term %d, %T%+v", c.token, c.reign.number, c.cmd, sim.Text(c.cmd))
}

// outcome is an answer that has left an engine.
type outcome struct {
	call *call
	res  job.Result
	// Of a read:
	index uint64
	err   error
	data  store.Snapshot
}

// submit has the engine apply a command.
func (g *reign) submit(cmd job.Command) error {
	if err := g.tick(); err != nil {
		return err
	}
	g.tokens++
	c := &call{token: g.tokens, cmd: cmd, reign: g}
	g.calls[c.token] = c
	g.run.calls = append(g.run.calls, c)
	g.run.tracef("%s at end %d: %s", g.node.name, g.run.end(), c)
	c.req = &engine.Request{Commands: []job.Command{cmd}, Done: func(q *engine.Request) {
		g.run.outcomes = append(g.run.outcomes, outcome{call: c, res: q.Results[0]})
	}}
	if err := g.do(func() { g.engine.Submit(c.req) }, func(o sim.Oracle) ([]sim.Completion, error) {
		return g.model.Apply(g.now(), c.token, cmd, o)
	}); err != nil {
		return err
	}
	return g.tick()
}

// read takes a snapshot as a query does.
func (g *reign) read() error {
	if err := g.tick(); err != nil {
		return err
	}
	g.tokens++
	c := &call{
		token: g.tokens, reign: g, kind: kindRead, moment: g.run.end(), needs: g.pending(),
		floor: g.run.answeredAt,
	}
	c.want = &sim.Completion{}
	g.calls[c.token] = c
	g.run.calls = append(g.run.calls, c)
	g.run.tracef("%s at end %d: %s", g.node.name, g.run.end(), c)
	return g.do(func() {
		g.engine.Read(func(s store.Snapshot, err error) {
			g.run.outcomes = append(g.run.outcomes, outcome{
				call: c, index: g.node.disk.last().index,
				err: err, data: s,
			})
		})
	}, func(sim.Oracle) ([]sim.Completion, error) {
		g.kinds[kindRead] = true
		return nil, nil
	})
}

// cancel ends the wait of a command.
func (g *reign) cancel(c *call) error {
	g.run.tracef("%s cancels %s", g.node.name, c)
	if err := g.tick(); err != nil || c.want != nil || c.done > 0 {
		return err
	}
	if err := g.do(func() { g.engine.Cancel(c.req) }, func(o sim.Oracle) ([]sim.Completion, error) {
		return g.model.Apply(g.now(), 0, &job.Cancel{Token: c.token}, o)
	}); err != nil {
		return err
	}
	return g.tick()
}

// pending is the last batch that has changes so far.
func (g *reign) pending() uint64 {
	if g.engine.Core().Dirty() != 0 {
		return g.seq + 1
	}
	return g.seq
}

// expect notes what the answer to a command will be once it may leave.
func (g *reign) expect(want sim.Completion) error {
	c := g.calls[want.Token]
	if c == nil {
		return nil // of a Cancel
	}
	if c.want != nil {
		return fmt.Errorf("%s has two answers", c)
	}
	c.want, c.moment, c.needs, c.kind = &want, g.run.end(), g.pending(), kindRefusal
	res := &want.Result
	if res.Err == nil {
		switch cmd := c.cmd.(type) {
		case *job.Push:
			if len(res.Jobs) == 0 { // else it was there before
				c.kind = kindChange
				g.born[res.ID] = c.needs
			}
		case *job.Fetch:
			c.kind = kindDelivery
			if !cmd.Firm && !g.limits(res.Jobs) {
				c.needs = g.base
				for i := range res.Jobs {
					c.needs = max(c.needs, g.born[res.Jobs[i].ID])
				}
			}
		case *job.Ack, *job.Fail, *job.Release, *job.Delete, *job.SetValue:
			c.kind = kindChange
		default: // may have found everything as it should be
		}
	}
	g.kinds[c.kind] = true
	return nil
}

// limits reports whether some of the jobs are of a queue with limits.
func (g *reign) limits(jobs []job.Job) bool {
	return slices.ContainsFunc(jobs, func(j job.Job) bool {
		l, _ := g.model.Rules(j.Namespace, j.Queue)
		return !l.IsZero()
	})
}

// settle looks at the answers that have left.
func (r *run) settle() error {
	for len(r.outcomes) > 0 {
		o := r.outcomes[0]
		r.outcomes = r.outcomes[1:]
		if err := r.check(o); err != nil {
			return err
		}
	}
	return nil
}

// check asserts that an answer may leave now.
func (r *run) check(o outcome) error {
	c := o.call
	g := c.reign
	if c.done++; c.done > 1 {
		return fmt.Errorf("R-10: %s was answered %d times", c, c.done)
	}
	if c.crashed {
		return nil // nobody is there to hear it
	}
	delete(g.calls, c.token)
	if o.data != nil {
		defer o.data.Close() //nolint:errcheck // in memory
	}
	if o.err != nil || o.res.Err != nil && o.res.Err.Kind == job.Internal {
		r.tracef("unknown: %s", c)
		r.seen.unknown++
		return nil
	}
	if _, ok := c.cmd.(*job.Fetch); ok && g.limits(o.res.Jobs) &&
		(c.want == nil || len(o.res.Jobs) > len(c.want.Result.Jobs)) {
		return fmt.Errorf("R-14: %s was given %d jobs, more than limits allow", c, len(o.res.Jobs))
	}
	if c.want == nil {
		return fmt.Errorf("R-10: %s was answered while it waits, with %+v", c, o.res)
	}
	r.tracef("answered: %s, needs %d, moment %d", c, c.needs, c.moment)
	r.seen.answered[c.kind]++
	if c.kind == kindDelivery && g.base > 0 && g.limits(o.res.Jobs) {
		r.seen.limited++
	}
	if err := c.compare(&o.res); err != nil {
		return err
	}
	if at, ok := r.batches[c.needs]; c.needs > g.base && (!ok || at.term != g.number) {
		return fmt.Errorf("%s was answered before its batch %d is in the log: %s", kindNames[c.kind], c.needs, c)
	}
	if term := r.log[c.moment].state.Term; term > g.number && (c.kind != kindChange) {
		return fmt.Errorf("%s was answered although term %d had begun before: %s", kindNames[c.kind], term, c)
	}
	if c.kind == kindRead {
		return r.checkRead(o)
	}
	return r.note(c, &o.res)
}

// checkRead asserts that a read has seen what was answered before it.
func (r *run) checkRead(o outcome) error {
	if o.index < o.call.floor {
		return fmt.Errorf("R-7: %s has seen entry %d, and entry %d was answered before", o.call, o.index, o.call.floor)
	}
	if r.rng.IntN(8) == 0 && !sameContent(o.data, r.log[o.index].data) {
		return fmt.Errorf("R-7: %s has seen something else than entries 1 to %d say", o.call, o.index)
	}
	return nil
}

// note enters an answer into the ledger.
func (r *run) note(c *call, res *job.Result) error {
	if c.kind == kindChange {
		r.answeredAt = max(r.answeredAt, r.batches[c.needs].index)
	}
	if res.Err != nil {
		return nil //nolint:nilerr // an answer, not a failure
	}
	switch cmd := c.cmd.(type) {
	case *job.Push:
		if c.kind == kindChange {
			if r.ids[res.ID] {
				return fmt.Errorf("R-9: job %d was pushed twice", res.ID)
			}
			r.ids[res.ID] = true
		}
	case *job.Fetch:
		for i := range res.Jobs {
			r.held = append(r.held, held{res.Jobs[i].ID, cmd.Holder})
		}
	default:
	}
	return nil
}

// compare asserts that an answer is what the model says.
func (c *call) compare(got *job.Result) error {
	if c.cmd == nil {
		return nil
	}
	want := &c.want.Result
	switch {
	case (got.Err == nil) != (want.Err == nil), got.Err != nil && got.Err.Kind != want.Err.Kind:
		return fmt.Errorf("%s: got error %v, want %v", c, got.Err, want.Err) //nolint:errorlint // answers
	case got.Err != nil:
		return nil //nolint:nilerr // an answer, not a failure
	case len(got.Jobs) != len(want.Jobs) || got.Count != want.Count:
		return fmt.Errorf("%s: got %d jobs and count %d, want %d and %d", c, len(got.Jobs), got.Count,
			len(want.Jobs), want.Count)
	}
	if _, ok := c.cmd.(*job.Push); ok && got.ID != want.ID {
		return fmt.Errorf("%s: got job %d, want %d", c, got.ID, want.ID)
	}
	for i := range want.Jobs {
		g, w := &got.Jobs[i], &want.Jobs[i]
		if g.ID != w.ID || g.Attempts != w.Attempts || !bytes.Equal(g.Body, w.Body) || g.Lease != w.Lease {
			return fmt.Errorf("%s: got %s, want %s", c, sim.Describe(g), sim.Describe(w))
		}
	}
	return nil
}
