package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"millrace/internal/config"
	"millrace/internal/operator"
	"millrace/internal/raftlog"
)

// nodesMax is how many nodes a cluster may have: each of them gets everything from the leader.
const nodesMax = 9

// refused tells why a change of the members was not made.
func refused(err error, what, name string) error {
	if errors.Is(err, raftlog.ErrNotLeading) {
		return operator.ErrNotLeading
	}
	return fmt.Errorf("node %s could not be %s: %w", name, what, err)
}

// Join implements operator.Cluster. The node becomes a learner at once, and promote makes it a voter when it has all
// data. It may be a member already: then its address is changed.
func (n *node) Join(name, addr string) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	if n.term.Load() == nil {
		return operator.ErrNotLeading
	}
	if _, err := config.ParsePeer(name + "=" + addr); err != nil {
		return err
	}
	pong, err := n.port.Ping(addr)
	if err != nil {
		return fmt.Errorf("node %s cannot be reached at %s: %w: start it there first, with cluster.node, and with "+
			"cluster.peers that name it and a node of the cluster", name, addr, err)
	}
	if pong.Node != name {
		return fmt.Errorf("at %s is node %s, not %s", addr, pong.Node, name)
	}
	members := n.members()
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
		if members[i].id != pong.ID {
			return fmt.Errorf("the cluster has a node %s with other data: if that is lost, take it out first with "+
				"\"millrace cluster remove %s\"", name, name)
		}
		if members[i].addr == addr {
			return nil
		}
	} else if len(members) >= nodesMax {
		return fmt.Errorf("the cluster has %d nodes, and no more are possible", len(members))
	}
	if pong.Member && (pong.Cluster == "" || pong.Cluster != n.ofCluster()) {
		return fmt.Errorf("node %s has the data of another cluster: stop it, empty its data directory, and "+
			"start it again", name)
	}
	if err := n.tooOld(&pong); err != nil {
		return err
	}
	if err := n.log.AddLearner(pong.ID, addr); err != nil {
		return refused(err, "added", name)
	}
	n.server.log.Info("node added: it counts once it has all data", slog.String("node", name),
		slog.String("addr", addr))
	return nil
}

// promote has learners count that have all data. Once a second it is asked whether there is one.
func (n *node) promote() {
	if n.term.Load() == nil || !n.changes.TryLock() {
		return
	}
	members := n.members()
	i := slices.IndexFunc(members, func(m member) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		h := n.pongs[m.name]
		return m.learner && n.reached(&m) && h.lag == 0 && h.pong.Applied > 0
	})
	if i < 0 {
		n.changes.Unlock()
		return
	}
	members[i].learner = false
	if reached, all := n.voices(members); reached <= all/2 {
		n.changes.Unlock()
		return // with this one more there would be no majority
	}
	go func() {
		defer n.changes.Unlock()
		m := members[i]
		if err := n.log.Promote(m.id, m.addr); err != nil {
			n.server.log.Warn("a node that has all data could not be made a voter", slog.String("node", m.name),
				slog.Any("error", err))
			return
		}
		n.server.log.Info("node has all data, and counts from now on", slog.String("node", m.name))
	}()
}

// Remove implements operator.Cluster.
func (n *node) Remove(name string) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	if n.term.Load() == nil {
		return operator.ErrNotLeading
	}
	if name == n.cfg.Cluster.Node {
		return fmt.Errorf("node %s leads: have another one lead first, with \"millrace cluster transfer\"", name)
	}
	members := n.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
	if i < 0 {
		return fmt.Errorf("%w: the cluster has no node %s", operator.ErrNoNode, name)
	}
	gone := members[i]
	rest := slices.Delete(members, i, i+1)
	if reached, all := n.voices(rest); reached <= all/2 {
		return fmt.Errorf("without node %s only %d of %d nodes could be reached, which is no majority: nothing would "+
			"be answered any more. Bring back another node first, or take that one out", name, reached, all)
	}
	if err := n.log.Remove(gone.id); err != nil {
		return refused(err, "taken out", name)
	}
	n.server.log.Info("node taken out", slog.String("node", name))
	return nil
}
