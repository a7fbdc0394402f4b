package raftsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"millrace/internal/raftlog"
	"millrace/internal/replica"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// version is a store at one moment.
type version struct {
	data    *memstore.Store
	index   uint64
	state   []byte
	history uint64 // of all changes, in their order
}

// disk is the store of a process. A crash leaves any of its versions since it was last synced, and never a part of one.
type disk struct {
	*memstore.Store // the last version

	run  *run
	name string

	mu       sync.Mutex // guards what follows
	versions []version  // the first is on stable storage
	dead     bool       // what happens to it is of no interest any more
}

var errReplicated = errors.New("only entries change the store of a replica")

func newDisk(r *run, name string, v version) *disk {
	return &disk{Store: v.data.Fork(), run: r, name: name, versions: []version{v}}
}

func (d *disk) last() *version { return &d.versions[len(d.versions)-1] }

// Commit implements store.Store.
func (d *disk) Commit(_ *store.Batch, done func(error)) { done(errReplicated) }

// Apply implements replica.Store.
func (d *disk) Apply(b *store.Batch, index uint64, state []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := *d.last()
	before := v.index
	if b.Len() > 0 {
		if err := store.CommitNow(d.Store, b); err != nil {
			return err
		}
		v.data, v.history = d.Fork(), withBatch(v.history, b)
	}
	v.index, v.state = index, bytes.Clone(state)
	d.versions = append(d.versions, v)
	if !d.dead {
		d.run.fail(d.run.truth.note(d.name, before, v))
	}
	return nil
}

// Applied implements replica.Store.
func (d *disk) Applied() (index uint64, state []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last().index, d.last().state
}

// sync has all of it kept.
func (d *disk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errGone
	}
	d.versions = d.versions[len(d.versions)-1:]
	return nil
}

// end returns what a crash leaves.
func (d *disk) end(choose func(n int) int) version {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	return d.versions[choose(len(d.versions))]
}

var polynomial = crc64.MakeTable(crc64.ECMA)

// withBatch returns the history behind one more batch.
func withBatch(history uint64, b *store.Batch) uint64 {
	b.Each(func(op store.Op, key, value []byte) bool {
		history = crc64.Update(history, polynomial, []byte{byte(op), byte(len(key)), byte(len(key) >> 8)})
		history = crc64.Update(history, polynomial, key)
		history = crc64.Update(history, polynomial, value)
		return true
	})
	return history
}

// content is a store as one batch that sets everything.
func content(r store.Reader) ([]byte, error) {
	var b store.Batch
	err := r.Scan(store.Range{}, func(key, value []byte) bool {
		b.Set(key, value)
		return true
	})
	return b.Bytes(), err
}

// snapshotter sends the store of a process, and takes that of another.
type snapshotter struct{ p *process }

var _ raftlog.Snapshotter = snapshotter{}

// Settle implements raftlog.Snapshotter.
func (s snapshotter) Settle() error {
	if s.p.run.fault.cutsApplied {
		return nil
	}
	return s.p.disk.Load().sync()
}

// Reach implements raftlog.Snapshotter.
func (s snapshotter) Reach(id, addr string) error {
	if s.p.run.net.find(raft.ServerID(id), raft.ServerAddress(addr)) == nil {
		return errRefused
	}
	return nil
}

// Checkpoint implements raftlog.Snapshotter.
func (s snapshotter) Checkpoint() (raftlog.Checkpoint, error) {
	d := s.p.disk.Load()
	d.mu.Lock()
	v := *d.last()
	d.mu.Unlock()
	s.p.run.tracef("%s makes a checkpoint of entry %d", s.p.name, v.index)
	return &checkpoint{p: s.p, version: v, name: fmt.Sprintf("%s/%d", s.p.id, s.p.run.made.Add(1))}, nil
}

// checkpoint is the store of a process at one moment.
type checkpoint struct {
	p *process
	version
	name string
}

// brought is a checkpoint that another node has sent.
type brought struct {
	version
	name  string
	parts int // that are there
}

// partsOf is how many parts a checkpoint has.
const partsOf = 4

// Name implements raftlog.Checkpoint.
func (c *checkpoint) Name() string { return c.name }

// Deliver implements raftlog.Checkpoint. It brings one part after the other, and goes on where it was.
func (c *checkpoint) Deliver(ctx context.Context, _ uint64, id, addr string) (moved bool, err error) {
	late := time.After(underway)
	to := raft.ServerAddress(addr)
	for {
		if err := c.p.run.net.travel(link{c.p.addr, to}, late); err != nil {
			return moved, err
		}
		if ctx.Err() != nil || gone(c.p.dead) {
			return moved, errGone
		}
		if c.p.run.net.find(raft.ServerID(id), to) == nil {
			return moved, errRefused
		}
		i := slices.IndexFunc(c.p.run.nodes, func(n *node) bool { return n.addr == to })
		if c.p.run.nodes[i].take(c, !moved) {
			return moved, nil
		}
		moved = true
		if c.p.run.intN(5) == 0 {
			return moved, errNetTimeout
		}
	}
}

// Close implements raftlog.Checkpoint.
func (c *checkpoint) Close() error { return nil }

// take takes a part of a checkpoint, and reports whether all of it is there.
func (n *node) take(c *checkpoint, first bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.brought.name != c.name:
		n.brought = brought{version: c.version, name: c.name}
	case first:
		n.run.count(&n.run.seen.resumed)
	}
	n.brought.parts = min(n.brought.parts+1, partsOf)
	return n.brought.parts == partsOf
}

// Received implements raftlog.Snapshotter.
func (s snapshotter) Received(name string) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	b := &s.p.brought
	if s.p.proc != s.p || b.name != name || b.parts < partsOf {
		return errGone
	}
	v := b.version
	v.data = v.data.Fork()
	s.p.run.fail(s.p.run.truth.compare(v))
	s.p.received, s.p.brought = &v, brought{}
	return nil
}

// Restore implements raftlog.Snapshotter.
func (s snapshotter) Restore() (*replica.Replica, error) {
	s.p.mu.Lock()
	v := s.p.received
	if s.p.proc != s.p || v == nil {
		s.p.mu.Unlock()
		return nil, errGone
	}
	s.p.received = nil
	d := newDisk(s.p.run, s.p.name, *v)
	s.p.disk.Store(d)
	s.p.mu.Unlock()
	s.p.run.tracef("%s takes a store of entry %d", s.p.name, v.index)
	s.p.run.count(&s.p.run.seen.copies)
	return s.p.openReplica(d)
}

// speed is how quick the disk of a process is.
type speed struct {
	mu    sync.Mutex
	takes time.Duration // a sync, at most
	hangs chan struct{} // closed when it goes on; nil: it does not hang
}

// hang has syncs not return for a time.
func (s *speed) hang(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs == nil {
		s.hangs = make(chan struct{})
		time.AfterFunc(d, s.goOn)
	}
}

// goOn has a disk that hangs go on.
func (s *speed) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs != nil {
		close(s.hangs)
		s.hangs = nil
	}
}

// set says how long a sync takes.
func (s *speed) set(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

// MaybeError delays the syncs of the log. Those of other files are done with a lock held: while somebody waits for a
// lock, no time passes in a bubble.
func (s *speed) MaybeError(op errorfs.Op) error {
	if op.Kind != errorfs.OpFileSyncData {
		return nil
	}
	s.mu.Lock()
	takes, hangs := s.takes, s.hangs
	s.mu.Unlock()
	if takes > 0 {
		<-time.After(takes)
	}
	if hangs != nil {
		<-hangs
	}
	return nil
}

// String implements errorfs.Injector.
func (s *speed) String() string { return "slow" }

var _ errorfs.Injector = (*speed)(nil)

// sameContent reports what differs between two stores.
func sameContent(a, b store.Reader) error {
	one, err := content(a)
	if err != nil {
		return err
	}
	other, err := content(b)
	if err == nil && !bytes.Equal(one, other) {
		err = fmt.Errorf("%d and %d bytes that differ", len(one), len(other))
	}
	return err
}

// crash returns a file system as a crash leaves it.
func (r *run) crash(fsys *vfs.MemFS) *vfs.MemFS {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(101), RNG: r.rng})
}
