package clustersim

import (
	"errors"
	"fmt"
	"slices"

	"millrace/internal/job"
)

// rest brings the cluster to rest: all nodes run, one of them leads, and what it was asked is answered. Then nothing
// may be missing anywhere.
func (r *run) rest() error {
	r.careless = false
	if err := r.startAll(); err != nil {
		return err
	}
	var g *reign
	for try := 0; g == nil; try++ {
		if try == 10 {
			return errors.New("no node can begin a term")
		}
		if err := r.elect(pick(r.rng, r.nodes)); err != nil {
			return err
		}
		if err := r.spread(); err != nil {
			return err
		}
		n := r.leads.node
		for _, b := range n.begun {
			if err := n.reignOver(b); err != nil {
				return err
			}
		}
		n.begun = nil
		if i := slices.IndexFunc(n.reigns, (*reign).believes); i >= 0 {
			g = n.reigns[i]
		}
	}
	if err := r.serve(g); err != nil {
		return err
	}
	for _, n := range r.nodes {
		for _, g := range n.reigns {
			if err := g.abandon(); err != nil {
				return err
			}
		}
		if err := n.check(); err != nil {
			return err
		}
		if last := r.log[r.end()]; n.disk.last().index != r.end() || !sameContent(n.disk, last.data) {
			return fmt.Errorf("R-1: node %s ends at entry %d of %d with something else", n.name,
				n.disk.last().index, r.end())
		}
		voids, _ := n.replica.Counts()
		r.seen.voids = int(voids)
	}
	for _, c := range r.calls {
		if c.done != 1 && !c.crashed {
			return fmt.Errorf("R-10: %s was answered %d times", c, c.done)
		}
	}
	return r.compareFully(r.log[r.end()])
}

// startAll starts all nodes, and sends copies to those that are behind what others have in their logs.
func (r *run) startAll() error {
	for _, n := range r.nodes {
		n.apart = false
		if !n.up {
			if err := n.open(); err != nil {
				return err
			}
		}
	}
	for _, n := range r.nodes {
		if n.next <= r.end() && !r.available(n.next) {
			return fmt.Errorf("R-4: no node has entry %d, which node %s lacks", n.next, n.name)
		}
	}
	return nil
}

// spread has everything that was given so far be in the log and on all nodes.
func (r *run) spread() error {
	for len(r.leads.queue) > 0 {
		if err := r.enterNext(); err != nil {
			return err
		}
	}
	for _, n := range r.nodes {
		if err := r.catchUp(n); err != nil {
			return err
		}
	}
	return nil
}

// serve has a leader answer everything.
func (r *run) serve(g *reign) error {
	if err := g.submit(&job.Push{Spec: job.Spec{Namespace: namespace, Queue: "last"}}); err != nil {
		return err
	}
	last := g.tokens
	for range 20 {
		if err := g.handOver(); err != nil {
			return err
		}
		g.seal()
		if err := g.handOver(); err != nil {
			return err
		}
		if err := r.spread(); err != nil {
			return err
		}
		rounds := r.leads.rounds
		r.leads.rounds = nil
		for _, q := range rounds {
			q.done(nil)
		}
		r.fault.flush()
		if err := r.settle(); err != nil {
			return err
		}
	}
	if !g.believes() {
		return fmt.Errorf("term %d has ended although nothing speaks against it: %w", g.number, g.term.Err())
	}
	for _, c := range g.calls {
		if c.want != nil {
			return fmt.Errorf("R-10: %s waits for nothing", c)
		}
	}
	if c := g.calls[last]; c != nil {
		return fmt.Errorf("R-10: %s was not answered", c)
	}
	return nil
}
