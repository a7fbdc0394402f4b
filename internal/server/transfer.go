package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"millrace/internal/cluster"
	"millrace/internal/commitlog/filelog"
	"millrace/internal/raftlog"
	"millrace/internal/replica"
)

// The directories of a node below its data directory.
const (
	storeDir    = "store"
	receivedDir = "store.new" // the data of another node, which replaces that of this one once it is whole
	replacedDir = "store.old"
	sentDir     = "store.sent" // links to the files that are being sent
	logDir      = "log"
)

// snapshotter gives the data of this node to another one, and takes it.
type snapshotter struct{ n *node }

var _ raftlog.Snapshotter = snapshotter{}

// Settle implements raftlog.Snapshotter.
func (s snapshotter) Settle() error { return s.n.store.Load().Settle() }

// Reach implements raftlog.Snapshotter.
func (s snapshotter) Reach(id, addr string) error {
	pong, err := s.n.port.Ping(addr)
	if err == nil && pong.ID != id {
		err = fmt.Errorf("at %s is node %s", addr, pong.ID)
	}
	return err
}

// Checkpoint implements raftlog.Snapshotter.
func (s snapshotter) Checkpoint() (raftlog.Checkpoint, error) {
	dir, err := os.MkdirTemp(s.n.cfg.Data.Dir, sentDir+"-")
	if err != nil {
		return nil, err
	}
	copied := filepath.Join(dir, storeDir)
	c := &checkpoint{n: s.n, dir: dir, name: s.n.id + "/" + rand.Text()}
	if err = s.n.store.Load().Copy(copied); err == nil {
		c.files, err = cluster.OpenCheckpoint(c.name, copied)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// checkpoint is the data of this node at a moment.
type checkpoint struct {
	n         *node
	dir, name string
	files     *cluster.Checkpoint
}

// Name implements raftlog.Checkpoint.
func (c *checkpoint) Name() string { return c.name }

// Deliver implements raftlog.Checkpoint.
func (c *checkpoint) Deliver(ctx context.Context, term uint64, id, addr string) (moved bool, err error) {
	conn, err := c.n.port.Data(id, addr)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // the other side has answered, or is gone
	before := c.n.sent.Load()
	err = c.files.Send(ctx, conn, cluster.Delivery{
		Term: term, Rate: c.n.cfg.Cluster.CatchUpRate, Sent: &c.n.sent,
		Begins: func(have, size int64) {
			c.n.server.log.Info("sending all data to a node", slog.String("node", nameOf(id)),
				slog.String("checkpoint", c.name), slog.Int64("received", have), slog.Int64("of", size))
		},
	})
	return c.n.sent.Load() > before, err
}

// Close implements raftlog.Checkpoint.
func (c *checkpoint) Close() error { return os.RemoveAll(c.dir) }

// Received implements raftlog.Snapshotter.
func (s snapshotter) Received(name string) error { return s.n.received.Count(name) }

// Restore implements raftlog.Snapshotter.
func (s snapshotter) Restore() (*replica.Replica, error) {
	s.n.keys.Load().Stop()
	if err := s.n.store.Load().Close(); err != nil {
		return nil, err
	}
	if !exists(s.n.cfg.Data.Dir, filepath.Join(receivedDir, cluster.ReceivedMark)) {
		return nil, errors.New("the data of another node, which was received, is gone")
	}
	if err := takeReceived(s.n.cfg.Data.Dir); err != nil {
		return nil, err
	}
	s.n.received.Taken()
	s.n.server.log.Info("data of another node received: this one was further behind than its log reaches back")
	return s.n.openReplica()
}

// takeReceived replaces the data by what was received, if that counts. A start does it, too, because Raft may count
// on it already when the process is killed in between.
func takeReceived(dir string) error {
	from, to, old := filepath.Join(dir, receivedDir), filepath.Join(dir, storeDir), filepath.Join(dir, replacedDir)
	if _, err := os.Stat(filepath.Join(from, cluster.ReceivedMark)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(to); err == nil {
		if err := errors.Join(os.RemoveAll(old), os.Rename(to, old)); err != nil {
			return err
		}
	}
	// From here on the mark is in the way of nobody: a store does not know it.
	if err := errors.Join(os.Rename(from, to), filelog.SyncOSDir(dir),
		os.Remove(filepath.Join(to, cluster.ReceivedMark)), filelog.SyncOSDir(to)); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// removeLeftovers removes what a process that was killed has left of sending its data.
func removeLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, sentDir+"-*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, replacedDir))
}
