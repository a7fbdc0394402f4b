package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/cluster"
	"millrace/internal/commitlog"
	"millrace/internal/config"
	"millrace/internal/engine"
	"millrace/internal/raftlog"
	"millrace/internal/replica"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/systemd"
)

// node is this server's part of a cluster. It lives as long as the process; what serves clients lives for a term in
// which it leads.
type node struct {
	*server // what the process has; its engine and services stay empty
	identity
	store atomic.Pointer[pebblestore.Store] // replaced when the data of another node was received
	keys  atomic.Pointer[engine.KeyFilter]  // of that store
	port  *cluster.Port
	// received takes all data of another node, and sent counts the bytes of this one's that were sent.
	received *cluster.Receiver
	sent     atomic.Uint64
	log      *raftlog.Node
	leader   func() string // the id of the node that leads, as far as this one knows

	term   atomic.Pointer[leading] // nil: this node does not lead
	passed atomic.Int64            // connections that are passed on to the leader

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed when another node may lead
	pongs   map[string]heard
	asked   map[string]bool                  // the nodes that have not answered yet
	held    int                              // connections that wait for a leader
	passing map[string]map[net.Conn]struct{} // connections of clients that came to another node, by its id
	// outside tells why this node is not part of a cluster that there is; nil: it is, or none has been heard of.
	outside error
	// far is the node that leads a cluster which this node is not part of.
	far raftlog.Server

	changes    sync.Mutex // held while the members are changed; guards the next
	yieldAfter time.Time  // the leadership was given away in vain: not again before
}

// leading is what serves clients while this node leads.
type leading struct {
	term     *replica.Term
	served   *server
	sessions map[string]*session
	web      http.Handler // nil: the operator's side is off
}

// heard is what another node said last.
type heard struct {
	pong cluster.Pong
	at   time.Time // when it was asked
	err  error
	// lag is how many entries it had applied less than this node, and level when it was none.
	lag    uint64
	level  time.Time
	silent time.Time // since when it has not answered; zero: it has
	// differ are the settings in which it differs from this node.
	differ []string
}

const (
	pingEvery = time.Second
	// acceptPause is how long a listener that cannot take a connection waits.
	acceptPause = 10 * time.Millisecond
	// While there is no leader a new connection waits for this long, and this many may wait.
	holdPatience = 5 * time.Second
	tryEvery     = 500 * time.Millisecond // a leader that could not be reached
	heldMax      = 10_000
	// endPatience is how long what served a term may take to end. A restart is safer than one that has ended half.
	endPatience = 2 * time.Second
)

// openNode opens what lives as long as the process.
func (s *server) openNode(ctx context.Context) error {
	c := &s.cfg.Cluster
	n := &node{
		server: s, changed: make(chan struct{}), pongs: map[string]heard{}, asked: map[string]bool{},
		passing: map[string]map[net.Conn]struct{}{},
	}
	s.node = n
	if err := checkLayout(s.cfg.Data.Dir, true); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	if len(c.Peers) == 1 && !exists(s.cfg.Data.Dir, nodeFile) {
		return fmt.Errorf("data.dir: %s is empty, and cluster.peers names only this node. If it had data, it must "+
			"not begin without that beside the nodes that it has led: "+
			"name some of them in cluster.peers, and add it with \"millrace cluster join\". For a new cluster use "+
			"\"millrace cluster init\"", s.cfg.Data.Dir)
	}
	if err := n.openIdentity(s.cfg.Data.Dir, c.Node); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	if err := takeReceived(s.cfg.Data.Dir); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	if err := removeLeftovers(s.cfg.Data.Dir); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	r, err := n.openReplica()
	if err != nil {
		return fmt.Errorf("data.dir: %w", n.advise(err))
	}
	if n.received, err = cluster.OpenReceiver(filepath.Join(s.cfg.Data.Dir, receivedDir), s.log, n.roomFor,
		n.fatal); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	i := slices.IndexFunc(c.Peers, func(p config.Peer) bool { return p.Name == c.Node })
	secure, err := cluster.LoadTLS(c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA)
	if err != nil {
		return err
	}
	n.port, err = cluster.Listen(ctx, cluster.Options{
		Addr: c.Addr, ID: n.id, Advertise: c.Peers[i].Addr, TLS: secure, Logger: s.log, Ping: n.pong,
		Confirm: n.confirmed, Forwarded: n.forwarded,
		Cluster: n.ofCluster, Join: n.joins, Data: n.received.Take,
	})
	if err != nil {
		return err
	}
	transport := n.port.Transport()
	n.log, err = raftlog.Open(raftlog.Options{
		Name: c.Node, ID: n.id, Dir: filepath.Join(s.cfg.Data.Dir, logDir), Replica: r, Transport: transport,
		KeepBytes: c.LogKeep, Election: c.Election, Logger: s.log, OnFatal: n.fatal, OnLeader: n.wake,
		Snapshots: snapshotter{n},
	})
	if err != nil {
		return errors.Join(n.advise(err), transport.Close())
	}
	n.leader = func() string { return n.leads().ID }
	if n.log.Bootstrapped() && n.ofCluster() == "" {
		return fmt.Errorf("data.dir: %s does not say of which cluster this node is: the file %s is missing or empty",
			s.cfg.Data.Dir, clusterFile)
	}
	return nil
}

// openReplica opens the store.
func (n *node) openReplica() (*replica.Replica, error) {
	s, err := pebblestore.Open(pebblestore.Options{
		Dir: filepath.Join(n.cfg.Data.Dir, storeDir), Logger: n.server.log,
		CacheBytes:    int64(n.cfg.Store.CacheBytes),    //nolint:gosec // the configuration bounds it
		MemTableBytes: int64(n.cfg.Store.MemtableBytes), //nolint:gosec // the configuration bounds it
		OpenTables:    n.files.tables,
		OpenLog:       func(uint64, uint64, commitlog.Visit) (commitlog.Log, error) { return replica.Log{}, nil },
		OnFatal:       n.fatal,
	})
	if err != nil {
		return nil, err
	}
	n.store.Store(s)
	if err := n.checkFormat(); err != nil {
		return nil, err
	}
	keys := &engine.KeyFilter{}
	keys.Make(s)
	n.keys.Store(keys)
	return replica.OpenWith(s, replica.Options{Applied: keys.Note})
}

// advise tells what to do about damaged data.
func (n *node) advise(err error) error {
	if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, raftlog.ErrDamaged) {
		return err
	}
	if a, ok := errors.AsType[*store.AdviceError](err); ok {
		err = a.Err // which is for a server of its own
	}
	name := n.cfg.Cluster.Node
	return fmt.Errorf("%w: the other nodes have all data, so replace this one: stop it, empty %s, start "+
		"it again, and run "+
		"\"millrace cluster remove %s\" and \"millrace cluster join %s=ADDRESS\". A cluster that has no other node "+
		"is restored from a backup",
		err, n.cfg.Data.Dir, name, name)
}

// fatal ends the process.
func (n *node) fatal(err error) {
	err = n.advise(err)
	n.logStorage(err)
	select {
	case n.storageFailed <- err:
	default:
	}
}

// run serves until something ends the process.
func (n *node) run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, len(n.gates))
	go n.port.Serve()
	front, err := n.front()
	if err != nil {
		return errors.Join(err, n.close())
	}
	for _, g := range n.gates {
		if g.config.Protocol == config.ProtocolWeb {
			go func() { ended <- front(serving, g) }()
		} else {
			go n.accept(g)
		}
	}
	go n.meet(serving)
	go n.pingAll(serving)
	n.announce()
	n.tell(systemd.Ready, systemd.Status(fmt.Sprintf("node %s from %s", n.cfg.Cluster.Node, n.dataDir())))
	defer n.watchdog()()
	for {
		select {
		case t := <-n.log.Terms():
			switch err := n.lead(ctx, t); {
			case errors.Is(err, errStopped):
				return n.close()
			case err != nil:
				return err
			}
		case <-n.opts.Reloads:
			n.reload()
		case <-ctx.Done():
			return n.close()
		case sig := <-n.opts.Signals:
			n.server.log.Info("stopping", slog.String("reason", sig.String()))
			return n.close()
		case err := <-n.storageFailed:
			return n.storageFailure(err)
		case err := <-ended:
			return err
		}
	}
}

// lead serves clients for a term.
func (n *node) lead(ctx context.Context, t *replica.Term) error {
	began := time.Now()
	s := &server{
		cfg: n.settings.current.Load(), opts: n.opts, log: n.server.log, systemd: n.systemd, files: n.files,
		seats: n.seats, gates: n.gates, logins: n.logins,
		settings: n.settings, shared: n.shared, store: t, cluster: n, clusterFigures: n.figures, traces: n.traces,
		storageFailed: make(chan error, 1),
	}
	// What serves this term also follows the configuration for as long.
	reloaders := n.settings.reloaders
	defer func() { n.settings.reloaders = reloaders }()
	l := &leading{term: t, served: s, sessions: map[string]*session{}}
	for _, g := range n.gates {
		l.sessions[g.name] = newSession(g)
	}
	o := n.engineOptions(t)
	o.OnFailure = func() { n.cut(l) }
	var err error
	if s.engine, err = engine.Open(o); err != nil {
		// A term that ended meanwhile is no fault of the data.
		if t.Err() == nil {
			return fmt.Errorf("open engine on %s: %w", n.cfg.Data.Dir, err)
		}
		return nil
	}
	s.recovery = time.Since(began)
	if s.services, err = s.build(); err != nil {
		return s.unbuilt(t, err)
	}
	n.raiseFor(s)
	if err := s.followFirst(); err != nil { // this node leads all the same
		n.server.log.Error("rules of the configuration not taken over", slog.Any("error", err))
	}
	l.web = s.webHandler
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // connections are cut first
	defer stop()
	group := startAll(s.calling(serving, s.reporting(serving, s.runs(serving, l))))
	n.setTerm(l)
	n.server.log.Info("this node leads", slog.Uint64("term", t.Number()), slog.Duration("after", time.Since(began)))
	cause := n.untilOver(ctx, t, s)
	n.setTerm(nil)
	if cause == nil || errors.Is(cause, errStopped) {
		n.server.log.Info("this node does not lead any more", slog.Any("reason", t.Err()))
	}
	s.engine.Abandon(replica.ErrFenced) // which cuts the connections first
	t.End(replica.ErrFenced)
	stop()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-group.ended
		if s.web != nil {
			s.web.Close()
		}
		_ = s.engine.Close() // it tells why it was abandoned
	}()
	if !waitFor(closed, endPatience) {
		return errors.New("what served clients did not end: stopping")
	}
	return cause
}

// unbuilt ends what was made for a term whose listeners cannot be served. That is a fault, unless the term has ended
// meanwhile: then nothing can be read any more, and another node may lead.
func (s *server) unbuilt(t *replica.Term, err error) error {
	if t.Err() != nil || s.engine.Err() != nil {
		err = nil
	}
	s.engine.Abandon(replica.ErrFenced)
	t.End(replica.ErrFenced)
	if s.web != nil {
		s.web.Close()
	}
	_ = s.engine.Close() // it tells why it was abandoned
	return err
}

// runs returns what serves the listeners for a term. Those of the operator's side live as long as the process: here
// only what comes from other nodes is served.
func (s *server) runs(ctx context.Context, l *leading) []func() error {
	runs := make([]func() error, 0, len(s.services))
	for _, svc := range s.services {
		serve := svc.serve
		if svc.gate.config.Protocol == config.ProtocolWeb {
			serve = s.serveHTTP(s.webHandler, nil)
		}
		runs = append(runs, func() error { return serve(ctx, l.sessions[svc.gate.name]) })
	}
	return runs
}

// untilOver returns when a term is over. Asked to stop, it lets another node lead first.
func (n *node) untilOver(ctx context.Context, t *replica.Term, s *server) error {
	var cause error
	for {
		select {
		case <-t.Lost():
			return cause
		case <-s.engine.Failed():
			return cause
		case <-ctx.Done():
			return errStopped
		case err := <-n.storageFailed:
			return n.storageFailure(err)
		case <-n.opts.Reloads:
			n.reload()
		case sig := <-n.opts.Signals:
			n.server.log.Info("stopping", slog.String("reason", sig.String()))
			if cause != nil {
				return cause
			}
			cause = errStopped
			s.engine.Drain()
			go func() {
				if err := n.log.Transfer(); err != nil {
					n.server.log.Warn("no other node could take over", slog.Any("error", err))
					t.End(errStopped)
				}
			}()
		}
	}
}

var errStopped = errors.New("stopped")

func (n *node) engineOptions(t *replica.Term) engine.Options {
	o := n.server.engineOptions()
	o.Store, o.Now, o.Core.Gated, o.Keys = roomy{t, n}, t.Now, true, n.keys.Load()
	o.Node, o.Run = 1, t.Number()<<8 // no two nodes lead in the same term
	return o
}

func (n *node) setTerm(l *leading) {
	n.term.Store(l)
	n.wake()
}

// wake has the connections that are held look again who leads.
func (n *node) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

// cut closes the connections of all clients that were served: of what is on its way nobody may be told anything.
func (n *node) cut(l *leading) {
	for _, s := range l.sessions {
		s.cut()
	}
	for _, g := range n.gates {
		if g.config.Protocol == config.ProtocolWeb {
			g.cutOpen()
		}
	}
}

// accept takes the connections of a listener.
func (n *node) accept(g *gate) {
	for {
		c, err := g.Accept()
		if err != nil {
			if isClosed(err) {
				return
			}
			<-time.After(acceptPause) // for want of files, for example
			continue
		}
		if !n.take(g.name, c) {
			go n.pass(g.name, c)
		}
	}
}

// take gives a connection to what serves clients here, if something does.
func (n *node) take(listener string, c net.Conn) bool {
	l := n.term.Load()
	return l != nil && l.sessions[listener] != nil && l.sessions[listener].take(c)
}

// counted is a connection whose end somebody is told.
type counted struct {
	net.Conn
	leave func() // does it once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// forwarded takes the connection of a client that came to another node.
func (n *node) forwarded(from net.Conn, listener, id string) {
	if !n.seats.take() {
		_ = from.Close() // it was never ours
		return
	}
	n.mu.Lock()
	if n.passing[id] == nil {
		n.passing[id] = map[net.Conn]struct{}{}
	}
	n.passing[id][from] = struct{}{}
	n.mu.Unlock()
	c := &counted{from, sync.OnceFunc(func() {
		n.seats.leave()
		n.mu.Lock()
		defer n.mu.Unlock()
		if delete(n.passing[id], from); len(n.passing[id]) == 0 {
			delete(n.passing, id)
		}
	})}
	deadline := time.Now().Add(holdPatience)
	for !n.take(listener, c) {
		if !n.hold(deadline) {
			_ = c.Close() // it was never ours
			return
		}
	}
}

// vanishAfter is how long a node may be silent before the connections of clients that came to it are closed. They hold
// leases, and nobody else would tell that they are gone.
const vanishAfter = 10 * time.Second

// vanished closes the connections of clients that came to a node, if that has been silent for long.
func (n *node) vanished(m *member, since time.Time) {
	if time.Since(since) < vanishAfter {
		return
	}
	n.mu.Lock()
	gone := slices.Collect(maps.Keys(n.passing[m.id]))
	n.mu.Unlock()
	for _, c := range gone {
		_ = c.Close() // whoever serves it notices
	}
	if len(gone) > 0 {
		n.server.log.Warn("a node is gone: the connections that it has passed on are closed",
			slog.String("node", m.name), slog.Int("connections", len(gone)))
	}
}

// hold waits until another node may lead. It reports false if it is of no use to wait any longer.
func (n *node) hold(deadline time.Time) bool {
	n.mu.Lock()
	if n.held >= heldMax {
		n.mu.Unlock()
		return false
	}
	n.held++
	changed := n.changed
	n.mu.Unlock()
	select {
	case <-changed:
	case <-time.After(min(tryEvery, time.Until(deadline))):
	}
	n.mu.Lock()
	n.held--
	n.mu.Unlock()
	return time.Now().Before(deadline)
}

// pass passes a connection on to the leader.
func (n *node) pass(listener string, c net.Conn) {
	deadline := time.Now().Add(holdPatience)
	for {
		if n.take(listener, c) {
			return
		}
		if n.forward(listener, c) {
			return
		}
		if !n.hold(deadline) {
			_ = c.Close() // there is nobody who could serve it
			return
		}
	}
}

// forward joins a connection with one to a listener of the leader, until one of them ends. It reports false if there is
// none.
func (n *node) forward(listener string, c net.Conn) bool {
	to, err := n.reach(listener, c.RemoteAddr().String(), c.LocalAddr().String())
	if err == nil {
		join(c, to)
	}
	return err == nil
}

var (
	errNoLeader = errors.New("no leader is known")
	errNoSeat   = errors.New("this node has as many connections as it may")
)

// reach returns a connection to a listener of the leader, for a client that has come to the address local. A leader
// that hangs or is cut off does not close it, and who waits for an answer on it would wait for as long as TCP tries: so
// this node closes it once that one does not lead any more.
func (n *node) reach(listener, client, local string) (net.Conn, error) {
	to := n.leads()
	if to.ID == "" || to.ID == n.id {
		return nil, errNoLeader
	}
	if !n.seats.take() {
		return nil, errNoSeat
	}
	c, err := n.port.Forward(to.Addr, listener, client, local)
	if err != nil {
		n.seats.leave()
		return nil, err
	}
	n.passed.Add(1)
	over := make(chan struct{})
	go func() {
		n.follow(to.ID, over)
		_ = c.Close() // closing twice is harmless
		n.seats.leave()
		n.passed.Add(-1)
	}()
	return &counted{c, sync.OnceFunc(func() { close(over) })}, nil
}

// follow returns when another node leads than the given one, when none has led for long, or when over is closed.
func (n *node) follow(id string, over <-chan struct{}) {
	for {
		n.mu.Lock()
		changed := n.changed
		n.mu.Unlock()
		var gone <-chan time.Time
		switch leads := n.leader(); leads {
		case id:
		case "":
			gone = time.After(holdPatience)
		default:
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		case <-over:
			return
		}
	}
}

// close releases what openNode has opened.
func (n *node) close() error {
	for _, g := range n.gates {
		_ = g.Close() // closing twice is harmless
		g.cut()
	}
	var errs []error
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.port != nil {
		_ = n.port.Close() // the log may have closed it
	}
	if n.received != nil {
		n.received.Close()
	}
	if keys := n.keys.Load(); keys != nil {
		keys.Stop()
	}
	if s := n.store.Load(); s != nil {
		// So that the directory can be checked without the log.
		errs = append(errs, s.Settle(), s.Close())
	}
	return errors.Join(errs...)
}
