package main

import (
	"context"
	"errors"
	"path/filepath"

	"millrace/test/harness"
)

// calmElection keeps a cluster from another leader while this machine is busy: who fills and drains does not connect
// again.
const calmElection = "10s"

// cluster fills a queue of a cluster far beyond what memory should hold, and drains it in order, through the leader. It
// prints the memory of all three nodes, and their disk.
func (s *scale) cluster(ctx context.Context, dir string) error {
	g := &group{wire: wire{out: s.out, bin: s.bin, ports: s.ports, tmp: dir}}
	defer g.killAll()
	if err := g.form(ctx, "--masenko-heartbeat", "1h", "--cluster-election", calmElection); err != nil {
		return err
	}
	leader, err := g.leader(ctx)
	if err != nil {
		return err
	}
	var r *running
	var nodes []*running
	for _, n := range g.nodes {
		nodes = append(nodes, &running{Server: n.Server, out: s.out, dir: g.dataDir(n.name), body: s.body})
		if n == leader {
			r = nodes[len(nodes)-1]
		}
	}
	memory := func(phase string) error {
		for i, n := range nodes {
			name := "node " + g.nodes[i].name
			if n == r {
				name += ", leader"
			}
			if err := n.memory(name + ", " + phase); err != nil {
				return err
			}
		}
		return nil
	}
	rest := func() error {
		for _, n := range nodes {
			if err := idle(ctx, n.Pid()); err != nil {
				return err
			}
		}
		return nil
	}
	if r.client, err = harness.Dial(r.Addr); err != nil {
		return err
	}
	defer func() { _ = r.client.Close() }() // all has been answered
	if err := memory("empty"); err != nil {
		return err
	}
	fill, err := r.fill("large", s.jobs)
	if err != nil {
		return err
	}
	s.out.printf("  %d ready jobs of %d bytes: filled at %.0f/s", s.jobs, s.body, fill)
	if err := errors.Join(memory("filled"), rest(), memory("idle")); err != nil {
		return err
	}
	drain, err := r.drain("large", 0, s.jobs)
	if err != nil {
		return err
	}
	s.out.printf("  drained in order at %.0f/s", drain)
	return errors.Join(memory("drained"), rest(), memory("at rest"))
}

// dataDir is the data directory of a node.
func (g *group) dataDir(name string) string { return filepath.Join(g.tmp, "node-"+name) }
