package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/cluster"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/httpapi"
	"millrace/internal/metrics"
	"millrace/internal/operator"
)

// timeWithin is how long it may take another node to tell the time.
const timeWithin = 250 * time.Millisecond

// readyWithin is how long ago a leader may have answered for clients to be served.
const readyWithin = 3 * pingEvery

// front returns what serves the operator's side of a node: what the leader serves, here or there, and what a node
// answers itself.
func (n *node) front() (serveFunc, error) {
	i := slices.IndexFunc(n.gates, func(g *gate) bool { return g.config.Protocol == config.ProtocolWeb })
	if i < 0 {
		return nil, nil
	}
	secure, err := n.tls(n.gates[i : i+1])
	if err != nil {
		return nil, err
	}
	for _, g := range n.gates {
		if g.config.Protocol == config.ProtocolWeb {
			g.bound(webConnectionMax, secure, tooManyHTTP)
		}
	}
	options := loginOptions(&n.cfg.Web)
	options.Throttle = n.logins
	login := auth.NewLogin(options)
	n.settings.onReload(n.reloadLogin(login))
	backups, err := n.backupDir()
	if err != nil {
		return nil, err
	}
	toLeader := &links{leader: n.leader, reach: func(client, local string) (net.Conn, error) {
		return n.reach(n.gates[i].name, client, local)
	}}
	standby := httpapi.Standby(operator.Options{Logger: n.server.log, Version: n.opts.Version, BackupDir: backups},
		httpapi.StandbyOptions{
			Cluster: n, Login: login, Backup: n.backup,
			Site:   n.site(auth.SiteOptions{AnyHost: n.gates[i].config.Authenticated, Open: httpapi.ProbePaths()}),
			Leader: toLeader.handler(),
			Metrics: metrics.Handler(metrics.Options{
				Version: n.opts.Version, Durability: n.cfg.Store.Durability, ConnectionsMax: n.files.conns,
				Logins: n.logins.Counts,
				Ready:  func() bool { return n.Ready() == nil }, Cluster: n.figures,
			}),
		})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l := n.term.Load(); l != nil && l.web != nil {
			l.web.ServeHTTP(w, r)
			return
		}
		standby.ServeHTTP(w, r)
	})
	return (&dialect.HTTP{
		Handler: handler, Logger: n.server.log, Shared: n.shared, TLS: secure, ConnContext: toLeader.begin,
		ConnState: toLeader.state,
	}).Serve, nil
}

var _ operator.Cluster = (*node)(nil)

// Transfer implements operator.Cluster.
func (n *node) Transfer() error {
	if n.term.Load() == nil {
		return operator.ErrNotLeading
	}
	if !n.reachesAnother() {
		return errors.New("no other node can be reached")
	}
	time.AfterFunc(answerFirst, func() {
		if err := n.log.Transfer(); err != nil {
			n.server.log.Warn("no other node could take over", slog.Any("error", err))
		}
	})
	return nil
}

// backup writes a copy of the data to a directory, with everything that was answered before.
func (n *node) backup(dir string) error {
	to := n.leads()
	if to.ID == "" || to.ID == n.id {
		return errNoLeader
	}
	pong, err := n.port.Confirm(to.Addr)
	if err != nil {
		return fmt.Errorf("the leader cannot be asked what was answered: %w", err)
	}
	if !pong.Leads {
		return errNoLeader
	}
	for until := time.Now().Add(backupPatience); n.log.Stored() < pong.Stored; {
		if time.Now().After(until) {
			return fmt.Errorf("this node is behind the leader: it has entry %d, and the leader %d: try again, or ask "+
				"another node", n.log.Stored(), pong.Stored)
		}
		<-time.After(backupPoll)
	}
	return n.store.Load().Checkpoint(dir)
}

// confirmed tells another node about this one after a majority has confirmed that this one leads. Otherwise it says
// that it does not lead, whatever it believes.
func (n *node) confirmed() cluster.Pong {
	p := n.pong() // what was answered before is in it
	l := n.term.Load()
	done := make(chan error, 1)
	if l != nil {
		l.term.Confirm(func(err error) { done <- err })
	}
	if p.Leads = p.Leads && l != nil && l.term.Number() == p.Term; p.Leads {
		select {
		case err := <-done:
			p.Leads = err == nil
		case <-time.After(confirmPatience):
			p.Leads = false
		}
	}
	return p
}

// confirmPatience is how long another node waits for a leader to be confirmed.
const confirmPatience = time.Second

const (
	backupPatience = 10 * time.Second // how long a backup waits for what this node lacks
	backupPoll     = 10 * time.Millisecond
)

// answerFirst is how long a transfer waits for the answer to who has asked for it.
const answerFirst = 50 * time.Millisecond

func (n *node) reachesAnother() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.pongs {
		if h.err == nil && time.Since(h.at) <= readyWithin {
			return true
		}
	}
	return false
}

// Status implements operator.Cluster. What is told about others is as old as their last answer.
func (n *node) Status() api.ClusterStatus {
	own := n.pong()
	st := api.ClusterStatus{Node: own.Node, Term: own.Term}
	if l := n.term.Load(); l != nil {
		st.Format = l.served.engine.Format()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.members() {
		h := n.pongs[m.name]
		if m.name == own.Node {
			h = heard{pong: own, at: time.Now()}
		}
		node := api.ClusterNode{
			Name: m.name, Addr: m.addr, Role: m.role(), Member: m.member, Reachable: true, Version: h.pong.Version,
			Format: h.pong.Format, LogBytes: h.pong.Log, LagEntries: h.lag,
			CatchUpReceived: h.pong.Received, CatchUpSize: h.pong.Receives,
		}
		switch {
		case h.at.IsZero():
			node.Reachable, node.About = false, "it has not been asked yet"
		case h.err != nil:
			node.Reachable, node.About = false, h.err.Error()
		case m.name == own.Node && n.outside != nil:
			node.Role, node.Member, node.About = api.RoleOutside, false, n.outside.Error()
		case m.id != "" && m.id != h.pong.ID:
			node.About = "it is not part of the cluster: its data directory is new"
		case m.name != own.Node:
			node.ClockSkew = h.pong.Clock.Sub(h.at).Seconds()
			node.About = joinAbout(n.settingsDiffer(&h), roomAbout(h.pong.Free, n.cfg.Store.FreeFloor),
				receivesAbout(&h.pong))
			node.SettingsDiffer = h.differ
		default:
			node.About = joinAbout(roomAbout(h.pong.Free, n.cfg.Store.FreeFloor), receivesAbout(&h.pong))
		}
		if h.lag > 0 {
			node.LagSeconds = time.Since(h.level).Seconds()
		}
		if h.pong.Leads && h.err == nil && (st.Leader == "" || h.pong.Term > st.Term) {
			st.Leader, st.Term = m.name, h.pong.Term
		}
		st.Nodes = append(st.Nodes, node)
	}
	for i := range st.Nodes {
		if st.Nodes[i].Name == st.Leader {
			st.Nodes[i].Role = api.RoleLeader
		}
	}
	return st
}

// figures are what metrics tell about the cluster.
func (n *node) figures() metrics.Cluster {
	st, own, times := n.Status(), n.log.Stats(), n.log.Times()
	f := metrics.Cluster{
		Leads: n.term.Load() != nil, HasLeader: st.Leader != "", Term: st.Term, Commit: own.Commit,
		Applied: own.Applied, LogBytes: own.Bytes,
		Voids: own.Voids, LeaderChanges: own.Begun, LogKeep: n.cfg.Cluster.LogKeep, Forwarded: n.passed.Load(),
		Received: n.received.Times(), CatchUpSent: n.sent.Load(),
		Confirms: times.Confirms, Cuts: times.Cuts, Sent: times.Sent,
	}
	f.CatchUpReceived, f.CatchUpSize = n.received.Progress()
	for _, o := range st.Nodes {
		if o.Name != st.Node {
			f.Nodes = append(f.Nodes, metrics.ClusterNode{
				Name: o.Name, Reachable: o.Reachable, Lag: o.LagEntries,
				LagTime: o.LagSeconds, Skew: o.ClockSkew, Differ: len(o.SettingsDiffer),
			})
		}
	}
	return f
}
