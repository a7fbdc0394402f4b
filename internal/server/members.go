package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/cluster"
	"millrace/internal/config"
	"millrace/internal/raftlog"
)

// meetEvery is how often a node that is part of no cluster looks for others.
const meetEvery = 200 * time.Millisecond

// member is a node of the cluster, or of the one that the configuration names.
type member struct {
	name, addr string
	id         string // empty: not known
	member     bool   // the log knows it
	learner    bool
}

func (m *member) role() string {
	if m.learner {
		return api.RoleLearner
	}
	return api.RoleStandby
}

// members returns the nodes of the cluster. The log knows them; the configuration is asked only until this node has
// one, or if it was taken out.
func (n *node) members() []member {
	var list []member
	own := member{name: n.cfg.Cluster.Node, id: n.id}
	for _, p := range n.cfg.Cluster.Peers {
		if p.Name == own.name {
			own.addr = p.Addr
		}
	}
	servers, err := n.log.Servers()
	if err != nil {
		servers = nil // it is shut down
	}
	for _, s := range servers {
		list = append(list, member{name: nameOf(s.ID), addr: s.Addr, id: s.ID, member: true, learner: s.Learner})
	}
	if len(servers) == 0 {
		for _, p := range n.cfg.Cluster.Peers {
			if p.Name != own.name {
				list = append(list, member{name: p.Name, addr: p.Addr})
			}
		}
	}
	if !slices.ContainsFunc(list, func(m member) bool { return m.name == own.name }) {
		list = append(list, own)
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return list
}

// leads returns the node that leads, as far as this one knows; an empty id: none is known.
func (n *node) leads() raftlog.Server {
	if id, addr := n.log.Leader(); id != "" {
		return raftlog.Server{ID: id, Addr: addr}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.far
}

// joins is asked when the log of another node wants to reach this one. A node without data becomes part of whichever
// cluster takes it in.
func (n *node) joins(cluster string) error {
	if cluster == "" || n.log.Bootstrapped() {
		return otherCluster(n.ofCluster(), cluster)
	}
	return n.takeCluster(n.cfg.Data.Dir, cluster)
}

// meet makes a cluster once all nodes are there and none has data. The one whose name comes first does it.
func (n *node) meet(ctx context.Context) {
	c := &n.cfg.Cluster
	peers := slices.Clone(c.Peers)
	slices.SortFunc(peers, func(a, b config.Peer) int { return strings.Compare(a.Name, b.Name) })
	founds := len(peers) > 1 && len(peers)%2 == 1 // with an even number no more of them may fail than with one less
	if !founds && !n.log.Bootstrapped() {
		n.server.log.Warn("this node waits until it is added to a cluster: a new one is made by 3 or 5 nodes that "+
			"name each other in cluster.peers", slog.Int("nodes", len(peers)))
	}
	for !n.log.Bootstrapped() {
		servers := make([]raftlog.Server, 0, len(peers))
		made := false
		for _, p := range peers {
			pong, err := n.port.Ping(p.Addr)
			if err != nil || pong.Node != p.Name {
				continue
			}
			made = made || pong.Member
			n.judge(&pong, p.Addr)
			servers = append(servers, raftlog.Server{ID: pong.ID, Addr: p.Addr})
		}
		if founds && len(servers) == len(peers) && !made && peers[0].Name == c.Node {
			n.found(servers)
		}
		select {
		case <-time.After(meetEvery):
		case <-ctx.Done():
			return
		}
	}
}

// found makes a cluster.
func (n *node) found(servers []raftlog.Server) {
	err := n.takeCluster(n.cfg.Data.Dir, newID())
	if err == nil {
		err = n.log.Bootstrap(servers)
	}
	if err != nil {
		n.server.log.Error("the cluster could not be made", slog.Any("error", err))
		return
	}
	n.server.log.Info("cluster made", slog.Int("nodes", len(servers)), slog.String("cluster", n.ofCluster()))
}

// judge notes whether another node forms a cluster that this node is not part of. One that has a log believes only the
// leader, who knows all changes.
func (n *node) judge(pong *cluster.Pong, addr string) {
	begun := n.log.Bootstrapped()
	if len(pong.Members) == 0 || begun && !pong.Leads {
		return
	}
	var why error
	name := n.cfg.Cluster.Node
	switch known := slices.ContainsFunc(pong.Members, func(id string) bool { return nameOf(id) == name }); {
	case slices.Contains(pong.Members, n.id):
	case begun:
		why = fmt.Errorf("node %s was taken out of the cluster: stop it, or add it again with \"millrace "+
			"cluster join\"", name)
	case known:
		why = fmt.Errorf("the cluster has a node %s, but not with this data directory, which is new: it must not "+
			"take part under its old name, because it does not know what it has promised. "+
			"If the data is lost, take the old node out with \"millrace cluster remove %s\" and add this one with "+
			"\"millrace cluster join\"; otherwise start it with the directory it had", name, name)
	default:
		why = fmt.Errorf("node %s is new and not part of the cluster yet: add it with \"millrace cluster join\"", name)
	}
	far := raftlog.Server{ID: pong.Leader, Addr: pong.LeaderAddr}
	if pong.Leads {
		far = raftlog.Server{ID: pong.ID, Addr: addr}
	}
	if why == nil || far.ID == n.id {
		far = raftlog.Server{}
	}
	n.mu.Lock()
	level := slog.LevelError
	if why != nil && !begun && !slices.ContainsFunc(pong.Members, func(id string) bool { return nameOf(id) == name }) {
		level = slog.LevelInfo // it waits to be added, which is how every node begins that joins
	}
	news := why != nil && (n.outside == nil || n.outside.Error() != why.Error())
	moved := n.far != far
	n.outside, n.far = why, far
	n.mu.Unlock()
	if news {
		n.server.log.Log(context.Background(), level, "this node is not part of the cluster", slog.Any("why", why))
	}
	if moved {
		n.wake()
	}
}

// pong tells other nodes about this one.
func (n *node) pong() cluster.Pong {
	p := cluster.Pong{Node: n.cfg.Cluster.Node, ID: n.id, Version: n.opts.Version, Format: n.knows(), Clock: time.Now()}
	if n.log == nil {
		return p
	}
	st := n.log.Stats()
	p.Member, p.Applied, p.Stored, p.Log, p.Term = n.log.Bootstrapped(), st.Applied, n.log.Stored(),
		st.Bytes, n.log.Term()
	if p.Member {
		p.Cluster = n.ofCluster()
	}
	if servers, err := n.log.Servers(); err == nil {
		for _, s := range servers {
			p.Members = append(p.Members, s.ID)
		}
	}
	p.Leader, p.LeaderAddr = n.log.Leader()
	if l := n.term.Load(); l != nil {
		p.Leads, p.Term = true, l.term.Number()
	}
	p.TimeOf, p.Time = n.log.Time()
	p.Free, p.Settings = n.room(), n.agreement()
	p.Received, p.Receives = n.received.Progress()
	if err := n.received.NoRoom(); err != nil {
		p.NoRoom = err.Error()
	}
	return p
}

// pingAll asks the other nodes about themselves, again and again.
func (n *node) pingAll(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		members := n.members()
		n.mu.Lock()
		for name := range n.pongs {
			if !slices.ContainsFunc(members, func(m member) bool { return m.name == name }) {
				delete(n.pongs, name)
			}
		}
		for _, m := range members {
			if m.name == n.cfg.Cluster.Node || n.asked[m.name] {
				continue
			}
			n.asked[m.name] = true
			go n.ping(m)
		}
		n.mu.Unlock()
		if keys := n.keys.Load(); n.term.Load() == nil && keys.NeedsRebuild() { // a leader's engine has its own
			keys.Make(n.store.Load())
		}
		n.promote()
		if n.changes.TryLock() {
			go func() {
				defer n.changes.Unlock()
				n.yields()
				n.raise()
			}()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *node) ping(m member) {
	asked, applied := time.Now(), n.log.Stats().Applied
	pong, err := n.port.Ping(m.addr)
	if err == nil && pong.Node != m.name {
		err = fmt.Errorf("at %s is node %s, not %s: check cluster.peers", m.addr, pong.Node, m.name)
	}
	if err == nil && n.log.Bootstrapped() && pong.Member {
		err = otherCluster(n.ofCluster(), pong.Cluster)
	}
	if err == nil {
		n.judge(&pong, m.addr)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, m.name)
	h := n.pongs[m.name]
	switch {
	case err == nil:
		h.silent = time.Time{}
	case h.silent.IsZero():
		h.silent = asked
	}
	if err != nil {
		go n.vanished(&m, h.silent)
	}
	if err != nil && pong.Node == m.name && (h.err == nil || h.err.Error() != err.Error()) {
		n.server.log.Error("a node is of another cluster", slog.String("node", m.name), slog.Any("error", err))
	}
	h.at, h.err = asked, err
	if err != nil {
		h.pong.Leads = false
	} else {
		h.pong = pong
		n.noteSettings(m.name, &h, pong.Settings)
	}
	// While it was asked, others may have gone on.
	if h.lag = applied - min(applied, h.pong.Applied); h.lag == 0 || h.level.IsZero() {
		h.level = asked
	}
	n.pongs[m.name] = h
	// A time that was long on its way is of no use.
	if err == nil && pong.TimeOf > 0 && time.Since(asked) < timeWithin {
		n.log.Hear(pong.TimeOf, pong.Time)
	}
}

// reached reports whether a member was heard of in the last moments. The caller holds n.mu.
func (n *node) reached(m *member) bool {
	if m.id == n.id {
		return true
	}
	h, ok := n.pongs[m.name]
	return ok && h.err == nil && time.Since(h.at) <= readyWithin && (m.id == "" || m.id == h.pong.ID)
}

// voices counts the members whose votes count, and those of them that were heard of.
func (n *node) voices(members []member) (reached, all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range members {
		if m.learner {
			continue
		}
		all++
		if n.reached(&m) {
			reached++
		}
	}
	return reached, all
}

// Ready implements operator.Cluster.
func (n *node) Ready() error {
	if n.term.Load() != nil {
		return nil
	}
	members := n.members()
	reached, all := n.voices(members)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outside != nil {
		return n.outside
	}
	for _, m := range members {
		if m.id != n.id && n.reached(&m) && n.pongs[m.name].pong.Leads {
			return nil
		}
	}
	switch id, _ := n.log.Leader(); {
	case reached <= all/2:
		return fmt.Errorf("no majority: %d of %d nodes can be reached", reached, all)
	case id == "":
		return errors.New("the nodes have not agreed on a leader yet")
	default:
		return errors.New("the leader does not serve yet")
	}
}
