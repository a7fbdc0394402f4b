package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/replica"
	"millrace/internal/timing"
)

// Options say who a node is and where it keeps its log.
type Options struct {
	Name      string           // of this node, for people
	ID        string           // which no other node has ever had
	Dir       string           // of the log
	FS        vfs.FS           // nil is the real disk
	Replica   *replica.Replica // what the entries are applied to
	Snapshots Snapshotter      // of its store
	Transport Transport
	OnLeader  func()        // is called when another node, or none, is known to lead; nil does nothing
	Election  time.Duration // how long a leader may be silent; zero is 500 ms
	KeepBytes uint64        // how much of the log is kept for nodes that are behind; zero is 256 MiB
	Logger    *slog.Logger
	OnFatal   func(error) // called when this node must stop; the process ends then
	// SegmentBytes is the size of the files of the log; zero is 16 MiB.
	SegmentBytes int64
}

// Snapshotter gives the state of this node to another one, and takes that of another.
type Snapshotter interface {
	// Settle returns once everything that was applied is on stable storage without the log.
	Settle() error
	// Reach reports whether another node can be reached.
	Reach(id, addr string) error
	// Checkpoint returns the state as it is now. It stays until it is closed.
	Checkpoint() (Checkpoint, error)
	// Received has a checkpoint count that another node has brought here, also after a crash: Restore takes it then.
	Received(name string) error
	// Restore replaces the state by what was received last.
	Restore() (*replica.Replica, error)
}

// Checkpoint is a state of this node that can be brought to others.
type Checkpoint interface {
	// Name is one that no other checkpoint has, of this node or another.
	Name() string
	// Deliver brings to another node what that lacks of it, and reports whether that was anything. The term is that in
	// which this node leads. If it fails, it can be called again.
	Deliver(ctx context.Context, term uint64, id, addr string) (moved bool, err error)
	// Close removes it.
	Close() error
}

// Server is a member of a cluster.
type Server struct {
	ID, Addr string
	Learner  bool // it gets all entries, but counts for no majority
}

const (
	defaultElection     = 500 * time.Millisecond
	defaultKeepBytes    = 256 << 20
	defaultSegmentBytes = 16 << 20
	entriesPerSend      = 64
	// beginAgain is how long a node that leads waits before it begins another term.
	beginAgain = 50 * time.Millisecond
	// cutEvery is how often the length of the log is looked at.
	cutEvery = time.Second
	// slackShare is how much longer than it has to be the log may become before it is cut: one part in this many.
	slackShare = 4
	// heldShare is how many times as long the log may be while a node is brought all data: what follows the data comes
	// from the log.
	heldShare = 4
)

// Node is this node's part of the log.
type Node struct {
	o     Options
	log   *slog.Logger
	raft  *raft.Raft
	store *logStore
	snaps *snapshots
	acks  *acks
	terms chan *replica.Term
	times times

	mu      sync.Mutex // guards what follows
	replica *replica.Replica

	stop  chan struct{}
	ended sync.WaitGroup
}

// Open starts a node. If it has no log yet it waits to be made a member, by Bootstrap or by another node.
func Open(o Options) (*Node, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Election <= 0 {
		o.Election = defaultElection
	}
	if o.KeepBytes == 0 {
		o.KeepBytes = defaultKeepBytes
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	n := &Node{
		o: o, log: o.Logger, acks: newAcks(), replica: o.Replica,
		terms: make(chan *replica.Term), stop: make(chan struct{}),
	}
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	kept, err := openValues(o.FS, o.Dir, o.OnFatal)
	if err != nil {
		return nil, err
	}
	if n.store, err = openLogStore(o.FS, o.Dir, kept, o.SegmentBytes, o.OnFatal); err != nil {
		return nil, err
	}
	n.snaps = &snapshots{kept: kept, node: n}
	notify := make(chan bool)
	n.raft, err = raft.NewRaft(n.config(notify), fsm{n}, n.store, kept, n.snaps, transport{o.Transport, n.acks})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Raft: %w", err), n.store.close())
	}
	changes := plant.Or((<-chan bool)(notify), plant.LeaderChannel, n.raft.LeaderCh())
	n.ended.Go(func() { n.watch(changes) })
	n.ended.Go(n.cutLoop)
	if o.OnLeader != nil {
		n.ended.Go(n.observe)
	}
	return n, nil
}

// observe tells when another node leads.
func (n *Node) observe() {
	news := make(chan raft.Observation, 1) // if it is full, OnLeader is still to be called
	o := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		_, is := o.Data.(raft.LeaderObservation)
		return is
	})
	n.raft.RegisterObserver(o)
	defer n.raft.DeregisterObserver(o)
	for {
		select {
		case <-news:
			n.o.OnLeader()
		case <-n.stop:
			return
		}
	}
}

// makeDir makes a directory, on stable storage.
func makeDir(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return filelog.SyncDir(fsys, fsys.PathDir(dir))
}

func (n *Node) config(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.o.ID)
	c.HeartbeatTimeout, c.ElectionTimeout = n.o.Election, n.o.Election
	c.LeaderLeaseTimeout = n.o.Election // it ends a term, and nothing depends on it for safety
	c.CommitTimeout = 5 * time.Millisecond
	c.MaxAppendEntries = entriesPerSend
	c.BatchApplyCh = true
	// Without a buffer: Raft waits until the end of a term is taken note of.
	c.NotifyCh = plant.Or(notify, plant.LeaderChannel, nil)
	c.NoSnapshotRestoreOnStart = true
	// Only cutLoop makes snapshots.
	c.SnapshotThreshold, c.SnapshotInterval = math.MaxUint64, time.Hour
	c.NoLegacyTelemetry = true
	c.Logger = newLogger(n.log)
	return c
}

// Bootstrapped reports whether the node is or was a member of a cluster.
func (n *Node) Bootstrapped() bool {
	last, _ := n.store.LastIndex() // never fails
	metas, _ := n.snaps.List()
	return last > 0 || len(metas) > 0
}

// Bootstrap makes a cluster of servers, this node among them, none of which has a log.
func (n *Node) Bootstrap(servers []Server) error {
	var c raft.Configuration
	for _, s := range servers {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Addr)})
	}
	return n.raft.BootstrapCluster(c).Error()
}

// Terms delivers a term each time this node leads.
func (n *Node) Terms() <-chan *replica.Term { return n.terms }

// Leader returns the id and the address of the leader; empty: none is known.
func (n *Node) Leader() (id, addr string) {
	a, i := n.raft.LeaderWithID()
	return string(i), string(a)
}

// Term returns the term of the replica that has begun last.
func (n *Node) Term() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	state, _ := n.replica.State()
	return state.Term
}

// Stored returns the index of the last entry whose changes the store has.
func (n *Node) Stored() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, index := n.replica.State()
	return index
}

// Time returns what time it is in the last term this node knows the time of; term 0: of none.
func (n *Node) Time() (term uint64, t job.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replica.Time()
}

// Hear notes what time it is in a term, as another node says.
func (n *Node) Hear(term uint64, t job.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replica.Hear(term, t)
}

// Transfer gives the leadership to another node.
func (n *Node) Transfer() error { return n.raft.LeadershipTransfer().Error() }

// Stats are figures of the log.
type Stats struct {
	Commit, Applied uint64 // the last entry that a majority has, and that this node has applied
	Bytes           uint64
	Voids, Begun    uint64 // entries that were void, and terms that have begun, since the start
}

// Stats returns the figures.
func (n *Node) Stats() Stats {
	_, bytes := n.store.size()
	n.mu.Lock()
	voids, begun := n.replica.Counts()
	n.mu.Unlock()
	return Stats{Commit: n.raft.CommitIndex(), Applied: n.raft.AppliedIndex(), Bytes: bytes, Voids: voids, Begun: begun}
}

// times are what takes long in a log.
type times struct {
	confirms, cuts, sent timing.Shared
}

// Times tell how long it took that others confirmed this node as the leader, to cut the log, and to send all data to a
// node that was too far behind.
type Times struct{ Confirms, Cuts, Sent timing.Histogram }

// Times returns them, since the start.
func (n *Node) Times() Times {
	t := &n.times
	return Times{t.confirms.Load(), t.cuts.Load(), t.sent.Load()}
}

// closePatience is how long Raft may take to stop: it waits for answers of other nodes.
const closePatience = 3 * time.Second

// Close stops the node. Everything that was promised is on stable storage already, so that nothing is lost if Raft does
// not stop in time.
func (n *Node) Close() error {
	close(n.stop)
	closed := make(chan error, 1)
	go func() {
		err := n.raft.Shutdown().Error()
		n.ended.Wait()
		n.snaps.mu.Lock()
		n.snaps.drop()
		n.snaps.mu.Unlock()
		closed <- errors.Join(err, n.store.close())
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(closePatience):
		n.log.Warn("Raft did not stop in time: going on without it")
		return nil
	}
}

// watch follows the leadership of this node.
func (n *Node) watch(notify <-chan bool) {
	var l *leadership
	end := func() {
		if l != nil {
			l.end()
			l = nil
		}
		n.snaps.leads(false)
	}
	defer end()
	for {
		select {
		case leads := <-notify:
			end()
			if leads {
				n.snaps.leads(true)
				l = n.lead()
			}
		case <-n.stop:
			return
		}
	}
}

// lead makes a term once everything before it was applied. Should that end before Raft says so, it makes another one.
func (n *Node) lead() *leadership {
	l := &leadership{
		raft: n.raft, id: raft.ServerID(n.o.ID), acks: n.acks, term: n.raft.CurrentTerm(),
		times: &n.times, lost: make(chan struct{}),
		proposals: make(chan proposed, proposalsMax), asked: make(chan struct{}, 1),
	}
	go l.await()
	l.ended.Go(l.confirmLoop)
	l.ended.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-l.lost:
				cancel()
			case <-ctx.Done():
			}
		}()
		for {
			t, err := n.begin(ctx, l)
			if err == nil {
				select {
				case n.terms <- t:
					select {
					case <-t.Lost():
					case <-l.lost:
					}
				case <-l.lost:
				case <-n.stop:
				}
				t.End(raft.ErrLeadershipLost)
			} else {
				n.log.Info("a term could not begin", slog.Any("error", err))
			}
			select {
			case <-l.lost:
				return
			case <-n.stop:
				return
			case <-time.After(beginAgain):
			}
		}
	})
	return l
}

func (n *Node) begin(ctx context.Context, l *leadership) (*replica.Term, error) {
	if err := n.raft.Barrier(0).Error(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	r := n.replica
	n.mu.Unlock()
	return r.Begin(ctx, l, n.o.Name)
}

// keeps returns how many bytes of the log are kept.
func (n *Node) keeps() uint64 {
	if n.snaps.holds() {
		return n.o.KeepBytes * heldShare
	}
	return n.o.KeepBytes
}

// cutLoop keeps the log from growing.
func (n *Node) cutLoop() {
	tick := time.NewTicker(cutEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.stop:
			return
		}
		entries, bytes := n.store.size()
		keep := n.keeps()
		if bytes <= keep+keep/slackShare {
			continue
		}
		rc := n.raft.ReloadableConfig()
		rc.TrailingLogs = uint64(float64(entries) * float64(keep) / float64(bytes))
		if err := n.raft.ReloadConfig(rc); err != nil {
			n.log.Error("the length of the log could not be set", slog.Any("error", err))
		}
		if err := n.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) &&
			!errors.Is(err, raft.ErrRaftShutdown) {
			n.log.Warn("the log could not be cut", slog.Any("error", err))
		}
	}
}

// fsm gives the replica what Raft has committed.
type fsm struct{ n *Node }

var _ raft.FSM = fsm{}

// Apply implements raft.FSM.
func (f fsm) Apply(l *raft.Log) any {
	f.n.mu.Lock()
	r := f.n.replica
	f.n.mu.Unlock()
	if _, err := r.Apply(l.Index, l.Data); err != nil {
		f.n.o.OnFatal(err)
		select {} // nothing may follow
	}
	return nil
}

var errParts = errors.New("a batch has not come as a whole yet")

// Snapshot implements raft.FSM. Everything is in the store already: it is only put on stable storage.
func (f fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if !f.n.replica.Whole() {
		return nil, errParts
	}
	return mark(f), nil
}

// Restore implements raft.FSM: what replaces the state was brought already.
func (f fsm) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // there is nothing in it
	next, err := f.n.o.Snapshots.Restore()
	if err != nil {
		f.n.o.OnFatal(err)
		return err
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	// What it has heard of the time is not in the data.
	if term, t := f.n.replica.Time(); term > 0 && !plant.TimeForgotten.On() {
		next.Hear(term, t)
	}
	f.n.replica = next
	return nil
}
