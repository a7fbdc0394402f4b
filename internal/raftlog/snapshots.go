package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"millrace/internal/plant"
)

// snapshots tells Raft from where on the log is needed. The state itself is in the store of the replica, which is on
// stable storage up to there. A node that is further behind is brought a checkpoint of the store, and what Raft sends
// it as a snapshot is the name of that.
type snapshots struct {
	kept *values
	node *Node

	mu   sync.Mutex // guards what follows
	held *held      // nil: none
	// lead ends the deliveries when this node does not lead any more.
	lead context.Context //nolint:containedctx // a term of this node
	end  context.CancelFunc
	// told is when the log told last that a node was not brought all data.
	told map[raft.ServerID]time.Time
}

// held is a checkpoint that is on its way, or has not come as a whole and is kept so that only the rest is sent.
type held struct {
	Checkpoint
	meta    raft.SnapshotMeta
	users   int                    // deliveries that are under way
	waiting map[raft.ServerID]bool // the nodes that were not brought all of it
	moved   time.Time              // when it was made, or the last delivery that brought something has ended
	expires *time.Timer
}

// deliverAgain is how long a delivery that was interrupted waits before it goes on.
const deliverAgain = 100 * time.Millisecond

// tellAgain is how often the log tells that a node is not brought all data. One without room refuses until it has some.
const tellAgain = time.Minute

// keepCheckpoint is how long a checkpoint is kept when nothing of it is brought to anybody.
const keepCheckpoint = 10 * time.Minute

var _ raft.SnapshotStore = (*snapshots)(nil)

var snapshotKey = []byte("millrace snapshot")

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{snapshots: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: c,
		ConfigurationIndex: cIndex,
	}}, nil
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	value, err := s.kept.Get(snapshotKey)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m raft.SnapshotMeta
	if err := json.Unmarshal(value, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return []*raft.SnapshotMeta{&m}, nil
}

// Open implements raft.SnapshotStore. It returns no data: the transport brings the checkpoint, which may be newer than
// the mark. The node that gets it passes over the entries that it has then.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	metas, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	if len(metas) == 0 || metas[0].ID != id {
		return nil, nil, fmt.Errorf("snapshot %s is not there any more", id)
	}
	meta := metas[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		// What follows a checkpoint comes from the log, which may have been cut since.
		first, _ := s.node.store.FirstIndex() // never fails
		switch {
		case s.held.meta.ID == id || first <= s.held.meta.Index || plant.CheckpointTooOld.On():
			meta = &s.held.meta
		case s.held.users == 0:
			s.drop()
		}
	}
	m := *meta
	return &m, &offer{s, m}, nil
}

// offer is a snapshot that Raft wants to send. There is nothing to be read from it.
type offer struct {
	*snapshots
	meta raft.SnapshotMeta
}

// Read implements io.Reader.
func (*offer) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (*offer) Close() error { return nil }

var (
	errNotOffered = errors.New("another checkpoint is being sent")
	errNotLeader  = errors.New("this node does not lead")
)

// begin returns the checkpoint of the offer, which it makes if there is none.
func (o *offer) begin(id raft.ServerID) (context.Context, *held, error) {
	s := o.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lead == nil {
		return nil, nil, errNotLeader
	}
	if s.held == nil {
		c, err := s.node.o.Snapshots.Checkpoint()
		if err != nil {
			return nil, nil, err
		}
		s.held = &held{Checkpoint: c, meta: o.meta, waiting: map[raft.ServerID]bool{}, moved: time.Now()}
	}
	h := s.held
	if h.meta.ID != o.meta.ID {
		return nil, nil, errNotOffered
	}
	if h.expires != nil {
		h.expires.Stop()
	}
	h.users++
	h.waiting[id] = true
	return s.lead, h, nil
}

// done notes how a delivery has ended. The checkpoint is kept while a node still needs it, for a time.
func (o *offer) done(h *held, id raft.ServerID, moved, ok bool) {
	s := o.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	h.users--
	if moved {
		h.moved = time.Now()
	}
	if ok {
		delete(h.waiting, id)
		delete(s.told, id)
	}
	left := keepCheckpoint - time.Since(h.moved)
	switch {
	case h.users > 0:
	case s.held != h || len(h.waiting) == 0 || left <= 0:
		s.remove(h)
	default:
		h.expires = time.AfterFunc(left, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.held == h && h.users == 0 {
				s.drop()
			}
		})
	}
}

// tell has the log tell why a node was not brought all data, unless it has done so a moment ago.
func (s *snapshots) tell(id raft.ServerID, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.told[id]; ok && time.Since(at) < tellAgain {
		return
	}
	if s.told == nil {
		s.told = map[raft.ServerID]time.Time{}
	}
	s.told[id] = time.Now()
	s.node.log.Warn("a node was not brought all data; told once a minute", slog.String("node", string(id)),
		slog.Any("error", why))
}

// drop gives up the checkpoint that is kept. Deliveries that are under way end it. The caller holds s.mu.
func (s *snapshots) drop() {
	if h := s.held; h != nil {
		s.held = nil
		if h.users == 0 {
			s.remove(h)
		}
	}
}

// remove removes a checkpoint. The caller holds s.mu.
func (s *snapshots) remove(h *held) {
	if s.held == h {
		s.held = nil
	}
	if h.expires != nil {
		h.expires.Stop()
	}
	if err := h.Close(); err != nil {
		s.node.log.Warn("a checkpoint that is not needed any more could not be removed", slog.Any("error", err))
	}
}

// leads begins or ends the time in which checkpoints are delivered.
func (s *snapshots) leads(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
		s.lead, s.end = nil, nil
	}
	s.told = nil
	if is {
		s.lead, s.end = context.WithCancel(context.Background())
	}
}

// holds reports whether a node is being brought a checkpoint, or waits for the rest of it.
func (s *snapshots) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held != nil
}

// InstallSnapshot implements raft.Transport: it brings the checkpoint to the other node, and then Raft's own message.
func (t transport) InstallSnapshot(
	id raft.ServerID, addr raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse,
	data io.Reader,
) error {
	o, ok := data.(*offer)
	if !ok {
		return fmt.Errorf("a snapshot that is a %T", data)
	}
	// No checkpoint is made for a node that is down.
	if err := o.node.o.Snapshots.Reach(string(id), string(addr)); err != nil {
		return err
	}
	ctx, h, err := o.begin(id)
	if err != nil {
		return err
	}
	began, moved := time.Now(), false
	defer func() { o.done(h, id, moved, err == nil && r.Success) }()
	for goesOn := true; goesOn; {
		goesOn, err = h.Deliver(ctx, q.Term, string(id), string(addr))
		moved = moved || goesOn
		if err == nil {
			break
		}
		o.tell(id, err)
		select {
		case <-time.After(deliverAgain):
		case <-ctx.Done():
			return err
		}
	}
	if err != nil {
		return err // nothing gets there: Raft knows how long to wait
	}
	named := *q
	named.Size = int64(len(h.Name()))
	if err = t.Transport.InstallSnapshot(id, addr, &named, r, strings.NewReader(h.Name())); err == nil && r.Success {
		o.node.times.sent.Observe(time.Since(began))
	}
	return err
}

// mark is a snapshot that this node makes of itself.
type mark struct{ n *Node }

// Persist implements raft.FSMSnapshot.
func (m mark) Persist(s raft.SnapshotSink) error {
	began := time.Now()
	defer func() { m.n.times.cuts.Observe(time.Since(began)) }()
	if err := m.n.o.Snapshots.Settle(); err != nil {
		return errors.Join(err, s.Cancel())
	}
	return s.Close()
}

// Release implements raft.FSMSnapshot.
func (m mark) Release() {}

// sink takes a snapshot: of this node, of which only the mark is kept, or the name of one that was brought.
type sink struct {
	*snapshots
	meta   raft.SnapshotMeta
	name   []byte
	closed bool
}

var _ raft.SnapshotSink = (*sink)(nil)

// nameMax is how long the name of a checkpoint may be.
const nameMax = 1 << 10

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.meta.ID }

// Write implements raft.SnapshotSink.
func (s *sink) Write(p []byte) (int, error) {
	if len(s.name)+len(p) > nameMax {
		return 0, errors.New("this is no name of a checkpoint: the leader is of another release")
	}
	s.name = append(s.name, p...)
	return len(p), nil
}

// Close implements raft.SnapshotSink.
func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if len(s.name) > 0 {
		if err := s.node.o.Snapshots.Received(string(s.name)); err != nil {
			return err
		}
		s.mu.Lock()
		s.drop() // it was of the store that is replaced now
		s.mu.Unlock()
	}
	value, err := json.Marshal(&s.meta)
	if err != nil {
		return err
	}
	return s.kept.Set(snapshotKey, value)
}

// Cancel implements raft.SnapshotSink.
func (s *sink) Cancel() error {
	s.closed = true
	return nil
}
