package raftsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

// Send implements raftlog.Snapshotter.
func (s snapshotter) Send() (io.ReadCloser, int64, error) {
	d := s.p.disk.Load()
	d.mu.Lock()
	v := *d.last()
	d.mu.Unlock()
	all, err := content(v.data)
	if err != nil {
		return nil, 0, err
	}
	p := binary.BigEndian.AppendUint64(nil, v.index)
	p = binary.BigEndian.AppendUint64(p, v.history)
	p = binary.BigEndian.AppendUint64(p, uint64(len(v.state)))
	p = append(append(p, v.state...), all...)
	s.p.run.tracef("%s sends its store of entry %d", s.p.name, v.index)
	return io.NopCloser(bytes.NewReader(p)), int64(len(p)), nil
}

// receiver takes a store. It counts, also after a crash, once it is closed.
type receiver struct {
	bytes.Buffer
	p *process
}

// Receive implements raftlog.Snapshotter.
func (s snapshotter) Receive() (raftlog.Receiver, error) { return &receiver{p: s.p}, nil }

// Close implements raftlog.Receiver.
func (r *receiver) Close() error {
	p := r.Bytes()
	if len(p) < 24 {
		return io.ErrUnexpectedEOF
	}
	v := version{data: memstore.New(), index: binary.BigEndian.Uint64(p), history: binary.BigEndian.Uint64(p[8:])}
	n := binary.BigEndian.Uint64(p[16:])
	if uint64(len(p)) < 24+n {
		return io.ErrUnexpectedEOF
	}
	v.state = bytes.Clone(p[24 : 24+n])
	b, err := store.DecodeBatch(p[24+n:])
	if err != nil {
		return err
	}
	if err := store.CommitNow(v.data, &b); err != nil {
		return err
	}
	r.p.run.fail(r.p.run.truth.compare(v))
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.p.proc == r.p {
		r.p.received = &v
	}
	return nil
}

// Cancel implements raftlog.Receiver.
func (r *receiver) Cancel() error { return nil }

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
