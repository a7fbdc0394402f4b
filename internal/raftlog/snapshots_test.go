package raftlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
)

// shelf makes checkpoints and counts them.
type shelf struct {
	noSnapshots
	made, closed int
}

func (s *shelf) Checkpoint() (Checkpoint, error) {
	s.made++
	return &onShelf{s, fmt.Sprint(s.made)}, nil
}

type onShelf struct {
	*shelf
	name string
}

func (c *onShelf) Name() string { return c.name }
func (c *onShelf) Deliver(context.Context, uint64, string, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (c *onShelf) Close() error {
	c.closed++
	return nil
}

// A checkpoint that has not come as a whole is kept for the rest, as long as the log has what follows it, something is
// brought in a while, and a node needs it.
func TestKeptCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		if err := makeDir(fsys, "log"); err != nil {
			t.Fatal(err)
		}
		opened, shelf := openTest(t, fsys), &shelf{}
		kept := opened.kept
		n := &Node{
			o: Options{Snapshots: shelf, KeepBytes: 100}, log: slog.New(slog.DiscardHandler), store: opened.logStore,
		}
		defer func() { _ = n.store.close() }()
		for i := range uint64(20) {
			if err := n.store.StoreLogs([]*raft.Log{{Index: i + 1, Term: 1, Data: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
		}
		n.snaps = &snapshots{kept: kept, node: n}
		mark := func(index uint64) {
			value, err := json.Marshal(raft.SnapshotMeta{ID: fmt.Sprint("mark-", index), Index: index})
			if err = errors.Join(err, kept.Set(snapshotKey, value)); err != nil {
				t.Fatal(err)
			}
		}
		// deliver delivers to a node, and returns from which entry on that needs the log.
		deliver := func(what string, to raft.ServerID, moved, ok bool, made, closed int) uint64 {
			t.Helper()
			metas, err := n.snaps.List()
			if err != nil {
				t.Fatal(err)
			}
			meta, from, err := n.snaps.Open(metas[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			o := from.(*offer)
			_, h, err := o.begin(to)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			o.done(h, to, moved, ok)
			if shelf.made != made || shelf.closed != closed || n.snaps.holds() != (made > closed) {
				t.Errorf("%s: %d checkpoints were made and %d removed, want %d and %d", what, shelf.made,
					shelf.closed, made, closed)
			}
			// What follows the checkpoint comes from the log.
			if kept := n.keeps(); kept != 100 && made == closed || kept != 400 && made > closed {
				t.Errorf("%s: %d bytes of the log are kept", what, kept)
			}
			return meta.Index
		}
		mark(5)
		_, from, err := n.snaps.Open("mark-5")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := from.(*offer).begin("b"); !errors.Is(err, errNotLeader) {
			t.Errorf("a node that does not lead sends: %v", err)
		}
		n.snaps.leads(true)
		deliver("b is brought a part", "b", true, false, 1, 0)
		mark(9)
		if at := deliver("c is brought a part of the same", "c", true, false, 1, 0); at != 5 {
			t.Errorf("it goes on from entry %d", at)
		}
		// What was offered before is not what is brought now.
		if _, _, err := (&offer{n.snaps, raft.SnapshotMeta{ID: "mark-4", Index: 4}}).begin("d"); !errors.Is(err,
			errNotOffered) {
			t.Errorf("an offer of another checkpoint: %v", err)
		}
		deliver("b is brought the rest", "b", true, true, 1, 0)
		deliver("c is brought the rest", "c", true, true, 1, 1)
		if at := deliver("b is brought a part again", "b", true, false, 2, 1); at != 9 {
			t.Errorf("it goes on from entry %d", at)
		}
		mark(15)
		if err := n.store.DeleteRange(1, 9); err != nil {
			t.Fatal(err)
		}
		if at := deliver("the log does not go on from there any more", "b", true, false, 3, 2); at != 15 {
			t.Errorf("it goes on from entry %d", at)
		}
		<-time.After(keepCheckpoint / 2)
		deliver("nothing gets to b", "b", false, false, 3, 2)
		<-time.After(keepCheckpoint / 2)
		synctest.Wait()
		if shelf.closed != 3 || n.snaps.holds() {
			t.Errorf("%d checkpoints were removed", shelf.closed)
		}
		ctx := n.snaps.lead
		n.snaps.leads(false)
		if ctx.Err() == nil {
			t.Error("deliveries go on although the node does not lead any more")
		}
	})
}

// The leader tries again and again to bring all data to a node that refuses it; its log tells so once a minute for each
// node, and at once after the node has been brought it, or when it leads again.
func TestRefusalsAreToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines, snaps := new(bytes.Buffer), &reached{}
		n := &Node{o: Options{Snapshots: snaps}, log: slog.New(slog.NewTextHandler(lines, nil))}
		n.snaps = &snapshots{node: n}
		n.snaps.leads(true)
		meta := raft.SnapshotMeta{ID: "1-1", Index: 1}
		try := func(id raft.ServerID) {
			t.Helper()
			err := transport{}.InstallSnapshot(id, "addr", &raft.InstallSnapshotRequest{},
				&raft.InstallSnapshotResponse{}, &offer{n.snaps, meta})
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s was brought it: %v", id, err)
			}
		}
		want := func(what string, most int) {
			t.Helper()
			if got := strings.Count(lines.String(), "was not brought all data"); got != most {
				t.Errorf("%s: the log told it %d times, want %d", what, got, most)
			}
		}
		for range 13 {
			try("b")
			<-time.After(tellAgain / 6)
		}
		want("two minutes", 3)
		try("c")
		want("another node", 4)
		o := &offer{n.snaps, meta}
		_, h, err := o.begin("b")
		if err != nil {
			t.Fatal(err)
		}
		o.done(h, "b", true, true)
		try("b")
		want("after it was brought", 5)
		n.snaps.leads(false)
		n.snaps.leads(true)
		try("b")
		want("in another term", 6)
		n.snaps.leads(false)
		n.snaps.mu.Lock()
		n.snaps.drop()
		n.snaps.mu.Unlock()
	})
}

// reached is a shelf that knows whether the other node is up, and takes what comes.
type reached struct {
	shelf
	up error
}

func (r *reached) Reach(_, _ string) error { return r.up }
func (r *reached) Received(string) error   { return nil }

// No checkpoint is made for a node that is down, and a snapshot that was given up is none. A node that takes over the
// data of another gives up what it has kept of its own.
func TestNoCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		if err := makeDir(fsys, "log"); err != nil {
			t.Fatal(err)
		}
		opened, down := openTest(t, fsys), errors.New("it is down")
		snaps := &reached{up: down}
		n := &Node{o: Options{Snapshots: snaps}, log: slog.New(slog.DiscardHandler), store: opened.logStore}
		defer func() { _ = n.store.close() }()
		n.snaps = &snapshots{kept: opened.kept, node: n}
		n.snaps.leads(true)
		defer n.snaps.leads(false)
		o := &offer{n.snaps, raft.SnapshotMeta{ID: "1-1", Index: 1}}
		err := transport{}.InstallSnapshot("b", "b", &raft.InstallSnapshotRequest{}, &raft.InstallSnapshotResponse{}, o)
		if !errors.Is(err, down) || snaps.made != 0 {
			t.Errorf("%v, and %d checkpoints were made", err, snaps.made)
		}
		sinkAt := func(index uint64) raft.SnapshotSink {
			s, err := n.snaps.Create(1, index, 1, raft.Configuration{}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := sinkAt(1)
		if err := errors.Join(s.Cancel(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if metas, err := n.snaps.List(); err != nil || len(metas) != 0 {
			t.Errorf("a snapshot that was given up is listed: %v, %v", metas, err)
		}
		_, h, err := o.begin("b")
		if err != nil {
			t.Fatal(err)
		}
		o.done(h, "b", true, false)
		s = sinkAt(2)
		if _, err := s.Write([]byte("c/1")); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil || n.snaps.holds() || snaps.closed != 1 {
			t.Errorf("%v, and %d checkpoints were removed", err, snaps.closed)
		}
	})
}
