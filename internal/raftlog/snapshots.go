package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// snapshots tells Raft from where on the log is needed. The state itself is in the store of the replica, which is on
// stable storage up to there.
type snapshots struct {
	kept *values
	node *Node
}

var _ raft.SnapshotStore = (*snapshots)(nil)

var snapshotKey = []byte("millrace snapshot")

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{snapshots: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: c, ConfigurationIndex: cIndex,
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
		return nil, fmt.Errorf("%w: %w", errLogEntry, err)
	}
	return []*raft.SnapshotMeta{&m}, nil
}

// Open implements raft.SnapshotStore. What is sent may be newer than the mark: the node that gets it passes over the
// entries that it has then.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	metas, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	if len(metas) == 0 || metas[0].ID != id {
		return nil, nil, fmt.Errorf("snapshot %s is not there any more", id)
	}
	r, size, err := s.node.o.Snapshots.Send()
	if err != nil {
		return nil, nil, err
	}
	metas[0].Size = size
	return metas[0], &sent{r, &s.node.times, time.Now()}, nil
}

// sent is the state on its way to another node.
type sent struct {
	io.ReadCloser
	times *times
	began time.Time
}

// Close ends it.
func (s *sent) Close() error {
	s.times.sent.Observe(time.Since(s.began))
	return s.ReadCloser.Close()
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

// sink takes a snapshot: of this node, of which only the mark is kept, or one that is received.
type sink struct {
	*snapshots
	meta     raft.SnapshotMeta
	received Receiver
	began    time.Time // the receipt
	closed   bool
}

var _ raft.SnapshotSink = (*sink)(nil)

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.meta.ID }

// Write implements raft.SnapshotSink.
func (s *sink) Write(p []byte) (int, error) {
	if s.received == nil {
		r, err := s.node.o.Snapshots.Receive()
		if err != nil {
			return 0, err
		}
		s.received, s.began = r, time.Now()
	}
	return s.received.Write(p)
}

// Close implements raft.SnapshotSink.
func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.received != nil {
		if err := s.received.Close(); err != nil {
			return err
		}
		s.node.times.received.Observe(time.Since(s.began))
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
	if s.received == nil {
		return nil
	}
	return s.received.Cancel()
}
