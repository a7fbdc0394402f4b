package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"millrace/internal/admin"
	"millrace/internal/auth"
	"millrace/internal/cluster"
	"millrace/internal/config"
	"millrace/internal/metrics"
)

// timeWithin is how long it may take another node to tell the time.
const timeWithin = 250 * time.Millisecond

// readyWithin is how long ago a leader may have answered for clients to be served.
const readyWithin = 3 * pingEvery

// front returns what serves the operator's side of a node: what the leader serves, here or there, and what a node answers itself.
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
	standby := admin.Standby(admin.Options{Logger: n.server.log, Version: n.opts.Version}, admin.StandbyOptions{
		Cluster: n, Login: login,
		Site:   n.site(auth.SiteOptions{AnyHost: n.gates[i].config.Authenticated, Open: admin.ProbePaths()}),
		Leader: n.toLeader(n.gates[i].name),
		Metrics: metrics.Handler(metrics.Options{
			Version: n.opts.Version, Durability: n.cfg.Store.Durability, ConnectionsMax: n.files.conns, Logins: n.logins.Counts,
			Ready: func() bool { return n.Ready() == nil }, Cluster: n.figures,
		}),
	})
	return n.serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l := n.term.Load(); l != nil && l.web != nil {
			l.web.ServeHTTP(w, r)
			return
		}
		standby.ServeHTTP(w, r)
	}), secure), nil
}

// toLeader passes requests on to the leader. Each has a connection of its own, which carries the address of the client.
func (n *node) toLeader(listener string) http.Handler {
	type clientKey struct{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "leader"})
			r.Out.Host = r.In.Host
			// What a proxy before us says still holds.
			for _, name := range []string{"X-Forwarded-For", forwardedProto} {
				r.Out.Header[name] = r.In.Header[name]
			}
			if r.In.TLS != nil {
				r.Out.Header.Set(forwardedProto, "https")
			}
			r.Out = r.Out.WithContext(context.WithValue(r.Out.Context(), clientKey{}, r.In.RemoteAddr))
		},
		FlushInterval: -1, // there are streams of events
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				client, _ := ctx.Value(clientKey{}).(string)
				local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
				return n.reach(listener, client, fmt.Sprint(local))
			},
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			admin.NoLeader(w, fmt.Sprintf("%s: try again in a moment", err))
		},
	}
	return proxy
}

// forwardedProto is how a proxy says whether the browser speaks TLS.
const forwardedProto = "X-Forwarded-Proto"

var _ admin.Cluster = (*node)(nil)

// Ready implements admin.Cluster.
func (n *node) Ready() error {
	if n.term.Load() != nil {
		return nil
	}
	peers := n.cfg.Cluster.Peers
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stranger != nil {
		return n.stranger
	}
	reached := 1
	for _, p := range peers {
		h, ok := n.pongs[p.Name]
		if !ok || h.err != nil || time.Since(h.at) > readyWithin {
			continue
		}
		reached++
		if h.pong.Leads {
			return nil
		}
	}
	switch id, _ := n.log.Leader(); {
	case reached <= len(peers)/2:
		return fmt.Errorf("no majority: %d of %d nodes can be reached", reached, len(peers))
	case id == "":
		return errors.New("the nodes have not agreed on a leader yet")
	default:
		return errors.New("the leader does not serve yet")
	}
}

// Transfer implements admin.Cluster.
func (n *node) Transfer() error {
	if n.term.Load() == nil {
		return errors.New("this node does not lead")
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

// Status implements admin.Cluster. What is told about others is as old as their last answer.
func (n *node) Status() admin.ClusterStatus {
	own := n.pong()
	st := admin.ClusterStatus{Node: own.Node, Term: own.Term}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.cfg.Cluster.Peers {
		h := n.pongs[p.Name]
		if p.Name == own.Node {
			h = heard{pong: own, at: time.Now()}
		}
		node := admin.ClusterNode{
			Name: p.Name, Addr: p.Addr, Role: admin.RoleStandby, Reachable: true, Version: h.pong.Version, LogBytes: h.pong.Log, LagEntries: h.lag,
		}
		switch {
		case h.at.IsZero():
			node.Reachable, node.About = false, "it has not been asked yet"
		case h.err != nil:
			node.Reachable, node.About = false, h.err.Error()
		case len(own.Members) > 0 && !slices.Contains(own.Members, h.pong.ID):
			node.About = "it is not part of the cluster: its data directory is new"
		case p.Name != own.Node:
			node.ClockSkew = h.pong.Clock.Sub(h.at).Seconds()
		}
		if h.lag > 0 {
			node.LagSeconds = time.Since(h.level).Seconds()
		}
		if h.pong.Leads && h.err == nil && (st.Leader == "" || h.pong.Term > st.Term) {
			st.Leader, st.Term = p.Name, h.pong.Term
		}
		st.Nodes = append(st.Nodes, node)
	}
	for i := range st.Nodes {
		if st.Nodes[i].Name == st.Leader {
			st.Nodes[i].Role = admin.RoleLeader
		}
	}
	return st
}

// figures are what metrics tell about the cluster.
func (n *node) figures() metrics.Cluster {
	st, own, times := n.Status(), n.log.Stats(), n.log.Times()
	f := metrics.Cluster{
		Leads: n.term.Load() != nil, HasLeader: st.Leader != "", Term: st.Term, Commit: own.Commit, Applied: own.Applied, LogBytes: own.Bytes,
		Voids: own.Voids, LeaderChanges: own.Begun, LogKeep: n.cfg.Cluster.LogKeep, Forwarded: n.passed.Load(),
		Confirms: times.Confirms, Cuts: times.Cuts, Sent: times.Sent, Received: times.Received,
	}
	for _, o := range st.Nodes {
		if o.Name != st.Node {
			f.Nodes = append(f.Nodes, metrics.ClusterNode{Name: o.Name, Reachable: o.Reachable, Lag: o.LagEntries, LagTime: o.LagSeconds, Skew: o.ClockSkew})
		}
	}
	return f
}

// pong tells other nodes about this one.
func (n *node) pong() cluster.Pong {
	p := cluster.Pong{Node: n.cfg.Cluster.Node, ID: n.id, Version: n.opts.Version, Clock: time.Now()}
	if n.log == nil {
		return p
	}
	st := n.log.Stats()
	p.Member, p.Applied, p.Log, p.Term = n.log.Bootstrapped(), st.Applied, st.Bytes, n.log.Term()
	if servers, err := n.log.Servers(); err == nil {
		for _, s := range servers {
			p.Members = append(p.Members, s.ID)
		}
	}
	if l := n.term.Load(); l != nil {
		p.Leads, p.Term = true, l.term.Number()
	}
	p.TimeOf, p.Time = n.log.Time()
	return p
}

// pingAll asks the other nodes about themselves, again and again.
func (n *node) pingAll(ctx context.Context) {
	for _, p := range n.cfg.Cluster.Peers {
		if p.Name == n.cfg.Cluster.Node {
			continue
		}
		go func() {
			tick := time.NewTicker(pingEvery)
			defer tick.Stop()
			for {
				n.ping(p)
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
}

func (n *node) ping(p config.Peer) {
	asked, applied := time.Now(), n.log.Stats().Applied
	pong, err := n.port.Ping(p.Addr)
	if err == nil && pong.Node != p.Name {
		err = fmt.Errorf("at %s is node %s, not %s: check cluster.peers", p.Addr, pong.Node, p.Name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.pongs[p.Name]
	h.at, h.err = asked, err
	if err != nil {
		h.pong.Leads = false
	} else {
		h.pong = pong
	}
	// While it was asked, others may have gone on.
	if h.lag = applied - min(applied, h.pong.Applied); h.lag == 0 || h.level.IsZero() {
		h.level = asked
	}
	n.pongs[p.Name] = h
	// A time that was long on its way is of no use.
	if err == nil && pong.TimeOf > 0 && time.Since(asked) < timeWithin {
		n.log.Hear(pong.TimeOf, pong.Time)
	}
}
