package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"millrace/internal/replica"
)

// Tail is the end of a log.
type Tail struct {
	Index, Term uint64
	At          time.Time // when the leader appended the last entry; zero: the log has none
	Servers     []Server  // the members
}

// stopped is the log of a node that does not run.
type stopped struct {
	kept  *values
	store *logStore
	err   error // what the log or the store has met
}

// openStopped opens the log of a node that does not run.
func openStopped(dir string) (*stopped, error) {
	s := &stopped{}
	fail := func(err error) { s.err = errors.Join(s.err, err) }
	var err error
	if s.kept, err = openValues(vfs.Default, dir, fail); err != nil {
		return nil, err
	}
	if s.kept.fresh {
		return nil, fmt.Errorf("%s: there is no log of a node", dir)
	}
	s.store, err = openLogStore(vfs.Default, dir, s.kept, defaultSegmentBytes, fail)
	return s, err
}

// Inspect returns the end of the log of a node that does not run.
func Inspect(dir string) (t Tail, err error) {
	s, err := openStopped(dir)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.err, s.store.close()) }()
	return s.tail()
}

func (s *stopped) tail() (t Tail, err error) {
	var c raft.Configuration
	metas, err := (&snapshots{kept: s.kept}).List()
	if err != nil {
		return t, err
	}
	if len(metas) > 0 {
		c, t.Index, t.Term = metas[0].Configuration, metas[0].Index, metas[0].Term
	}
	first, last := s.store.first(), s.store.last()
	for index := max(first, 1); index <= last; index++ {
		var l raft.Log
		if err := s.store.GetLog(index, &l); err != nil {
			return t, err
		}
		if l.Type == raft.LogConfiguration {
			c = raft.DecodeConfiguration(l.Data)
		}
		if l.Index >= t.Index {
			t.Index, t.Term, t.At = l.Index, l.Term, l.AppendedAt
		}
	}
	for _, server := range c.Servers {
		t.Servers = append(t.Servers, Server{
			ID: string(server.ID), Addr: string(server.Address),
			Learner: server.Suffrage != raft.Voter,
		})
	}
	return t, nil
}

// Create makes the log of a cluster of one node whose store has everything up to an index.
func Create(dir string, index uint64, self Server) error {
	if err := makeDir(vfs.Default, dir); err != nil {
		return err
	}
	var failed error
	kept, err := openValues(vfs.Default, dir, func(err error) { failed = err })
	if err != nil {
		return err
	}
	store, err := openLogStore(vfs.Default, dir, kept, defaultSegmentBytes, func(err error) { failed = err })
	if err != nil {
		return err
	}
	if err := kept.Set([]byte("CurrentTerm"), binary.BigEndian.AppendUint64(nil, 1)); err != nil {
		return errors.Join(err, store.close())
	}
	s, err := (&snapshots{kept: kept}).Create(1, index, 1, alone(self), 1, nil)
	if err == nil {
		err = s.Close()
	}
	return errors.Join(err, failed, store.close())
}

func alone(self Server) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{
		ID:      raft.ServerID(self.ID),
		Address: raft.ServerAddress(self.Addr),
	}}}
}

// Recover makes a node that does not run the only member of its cluster, and applies everything that its log has,
// whether a majority has it or not. It returns the index up to which the log counts.
func Recover(dir string, r *replica.Replica, settle func() error, self Server) (index uint64, err error) {
	s, err := openStopped(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.err, s.store.close()) }()
	t, err := s.tail()
	if err != nil {
		return 0, err
	}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(self.ID), newLogger(slog.New(slog.DiscardHandler))
	_, transport := raft.NewInmemTransport("")
	f := &recovering{replica: r, settle: settle}
	if err := raft.RecoverCluster(c, f, s.store, s.kept, standing{&snapshots{kept: s.kept}}, transport,
		alone(self)); err != nil {
		return 0, errors.Join(err, f.err)
	}
	return t.Index, f.err
}

// standing are snapshots of a store that has the state already.
type standing struct{ *snapshots }

// Open implements raft.SnapshotStore.
func (s standing) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	metas, err := s.List()
	if err != nil || len(metas) == 0 {
		return nil, nil, errors.Join(err, errNotFound)
	}
	return metas[0], io.NopCloser(eof{}), nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// recovering applies the end of a log to a store.
type recovering struct {
	replica *replica.Replica
	settle  func() error
	err     error
}

var _ raft.FSM = (*recovering)(nil)

// Apply implements raft.FSM.
func (f *recovering) Apply(l *raft.Log) any {
	if f.err == nil {
		_, f.err = f.replica.Apply(l.Index, l.Data)
	}
	return nil
}

// Restore implements raft.FSM.
func (f *recovering) Restore(io.ReadCloser) error { return nil }

// Snapshot implements raft.FSM. A batch of which the last parts are not there was never answered by this node, and
// goes.
func (f *recovering) Snapshot() (raft.FSMSnapshot, error) { return f, f.err }

// Persist implements raft.FSMSnapshot.
func (f *recovering) Persist(s raft.SnapshotSink) error {
	if err := errors.Join(f.err, f.settle()); err != nil {
		return errors.Join(err, s.Cancel())
	}
	return s.Close()
}

// Release implements raft.FSMSnapshot.
func (f *recovering) Release() {}
