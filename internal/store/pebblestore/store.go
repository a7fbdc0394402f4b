// Package pebblestore is the durable store.Store: one Pebble database in one
// directory of the local disk.
//
// It owns the files of the data directory, the marker that says what they are, and
// the rule that nothing is acknowledged after a write error. It never looks into
// keys or values. The server opens one; the engine uses it as a store.Store.
package pebblestore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// Store is an open data directory. Open makes one.
type Store struct {
	reader
	db   *pebble.DB
	dir  string
	fs   vfs.FS // unguarded
	lock *pebble.Lock
	// unlocked tells why nobody is kept from writing to the directory meanwhile; nil: the lock does that
	unlocked error
	fuse     *fuse
	events   *events
	closed   atomic.Bool

	files   *fileSet
	watcher *watcher // nil in a store that is only read

	commits, committedBytes atomic.Uint64

	recent      recent
	compactions *compactions
	sinker      *sinker

	copying sync.Mutex  // held by a checkpoint
	holding atomic.Bool // it is about to copy the logs, and nothing was held for it yet

	reclaimer reclaimer
}

var _ store.Store = (*Store)(nil)

// refusal returns why the store takes no more changes, or nil.
func (s *Store) refusal() error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := s.fuse.err(); err != nil {
		return fmt.Errorf("store in %s stopped after an error: %w", s.dir, err)
	}
	return nil
}

// Unlocked tells why the directory of a store that is only read could not be locked, and what that means; nil if it is locked.
func (s *Store) Unlocked() error { return s.unlocked }

// Commit implements store.Store. A durable batch goes to the journal, and to Pebble later, together with others.
func (s *Store) Commit(b *store.Batch, durable bool) error {
	err := s.refusal()
	if err == nil {
		if durable && s.recent.takes(b) {
			err = s.commitRecent(b)
		} else {
			err = s.commitDirect(b, durable)
		}
	}
	if err == nil {
		err = s.refusal()
	}
	if err != nil {
		return fmt.Errorf("commit batch of %d: %w", b.Len(), err)
	}
	s.commits.Add(1)
	s.committedBytes.Add(uint64(b.Size())) //nolint:gosec // sizes are not negative
	return nil
}

// change is one entry of a batch.
type change struct {
	rank   uint64 // orders it among those that begin with the same byte, as far as it goes
	offset uint32 // in the batch
}

// apply has Pebble apply the changes of a batch, and sets the marker if it is another now or a deleted range takes it along. The caller holds
// recent.applying.
func (s *Store) apply(b *store.Batch, opts *pebble.WriteOptions, m marker) error {
	pb := s.recent.batch
	// The entries have nearly the same form in Pebble, after a longer header.
	if size := b.Size() + 64; size > batchKept {
		pb = s.db.NewBatchWithSize(size)
		defer func() { _ = pb.Close() }()
	} else {
		defer pb.Reset()
	}
	marked, err := s.fill(pb, b)
	if err == nil && (marked || m != s.recent.marker) {
		err = m.setIn(pb)
	}
	if err == nil && !pb.Empty() {
		err = s.db.Apply(pb, opts)
	}
	return err
}

// fill copies the changes of b. They go in by key where their order allows it: Pebble
// finds the place of a key much quicker next to the one before it. Marked tells that they delete the marker.
func (s *Store) fill(pb *pebble.Batch, b *store.Batch) (marked bool, err error) {
	cs := s.sorted(b)
	removed, ranges := 0, false
	for i := range cs {
		op, key, value, _ := b.At(cs[i].offset)
		switch op {
		case store.OpSet, store.OpInsert:
			err = pb.Set(key, value, nil)
		case store.OpDelete:
			err = pb.Delete(key, nil)
			removed++
		case store.OpRemove:
			err = pb.SingleDelete(key, nil)
			removed++
		case store.OpDeleteRange:
			if bytes.Compare(key, value) < 0 {
				err = pb.DeleteRange(key, value, nil)
				ranges = true
				marked = marked || bytes.Compare(key, markerKey) <= 0 && bytes.Compare(markerKey, value) < 0
			}
		case store.OpVoidSet, store.OpVoidDelete: // sorted leaves them out
		}
		if err != nil {
			return false, err
		}
	}
	if removed > 0 || ranges {
		s.reclaimer.later(removed, ranges, s.reclaim)
	}
	if cap(s.recent.changes) > changesKept {
		s.recent.changes = nil
	}
	return marked, nil
}

// kind is the changes of a batch whose keys begin with the same byte.
type kind struct {
	end    int    // where they end among all
	common []byte // what their keys begin with
}

// sorted returns the changes of b that have an effect: by key, or as they are if one
// of them deletes a range. Keys that begin with the same byte mostly come in order
// already, so that it pays to part them by that first. The bytes behind what all of a kind have in common nearly always tell
// two of them apart.
func (s *Store) sorted(b *store.Batch) []change {
	var kinds [256]kind
	n, ordered := 0, false
	for at := b.First(); at < b.Offset(); {
		op, key, _, next := b.At(at)
		if at = next; op.Void() {
			continue
		}
		n++
		k := &kinds[store.FirstByte(key)]
		if k.end++; k.end == 1 {
			k.common = key
		} else {
			k.common = k.common[:commonPrefix(k.common, key)]
		}
		ordered = ordered || op == store.OpDeleteRange
	}
	begin := 0
	for i := range kinds {
		begin, kinds[i].end = begin+kinds[i].end, begin
	}
	cs := slices.Grow(s.recent.changes[:0], n)[:n]
	s.recent.changes = cs
	i := 0
	for at := b.First(); at < b.Offset(); {
		op, key, _, next := b.At(at)
		switch {
		case op.Void():
		case ordered:
			cs[i] = change{offset: at}
			i++
		default:
			k := &kinds[store.FirstByte(key)]
			cs[k.end] = change{rank(key[len(k.common):]), at}
			k.end++
		}
		at = next
	}
	if ordered {
		return cs
	}
	begin = 0
	for i := range kinds {
		if end := kinds[i].end; end > begin {
			slices.SortFunc(cs[begin:end], func(x, y change) int {
				if c := cmp.Compare(x.rank, y.rank); c != 0 {
					return c
				}
				return cmp.Or(bytes.Compare(b.KeyAt(x.offset), b.KeyAt(y.offset)), cmp.Compare(x.offset, y.offset))
			})
			begin = end
		}
	}
	return cs
}

// rank returns the first bytes of a key as a number.
func rank(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// changesKept and batchKept are the longest scratch list and the largest batch of Pebble's, in bytes, that are kept between commits.
const (
	changesKept = 64 << 10
	batchKept   = 4 << 20
)

// Sync implements store.Store.
func (s *Store) Sync() error {
	err := s.refusal()
	if err == nil {
		// An empty record that is synced takes all before it along.
		err = s.db.LogData(nil, pebble.Sync)
	}
	if err == nil {
		err = s.refusal()
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Snapshot implements store.Store.
func (s *Store) Snapshot() (store.Snapshot, error) {
	if s.closed.Load() {
		return nil, fmt.Errorf("snapshot: %w", store.ErrClosed)
	}
	if s.recent.journal == nil {
		return &standing{s}, nil
	}
	if err := s.move(pebble.NoSync); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	snap := &snapshot{snap: s.db.NewSnapshot()}
	snap.reader = reader{source: snap.snap, closed: &snap.closed, fuse: s.fuse}
	return snap, nil
}

// Checkpoint implements store.Store. Tables are linked where the file system can,
// so that a checkpoint on the same disk is quick and at first takes no space. The
// copy counts as a data directory only when its marker is written, which is last.
func (s *Store) Checkpoint(dir string) error {
	if err := s.checkpoint(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	return nil
}

func (s *Store) checkpoint(dir string) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if dir == s.dir || strings.HasPrefix(dir, s.dir+string(filepath.Separator)) {
		return fmt.Errorf("the copy must lie outside of the data directory %s", s.dir)
	}
	if err := s.move(pebble.Sync); err != nil {
		return err
	}
	if err := s.copyDB(dir); err != nil {
		return err
	}
	if err := s.refusal(); err != nil {
		return err
	}
	sizes := s.recent.sizes() // at least those that the copy knows of, because they only grow
	for i, name := range journalNames() {
		if err := makeJournalFile(s.fs, s.fs.PathJoin(dir, name), sizes[i]); err != nil {
			return err
		}
	}
	if err := writeMarker(s.fs, dir, markerUnfinished); err != nil {
		return err
	}
	return finishMarker(s.fs, dir)
}

// copyDB copies the database. Its logs come last. While they are copied nothing is written to them: a copy that has one part from before a write and one
// from after it would be damaged. What is committed meanwhile stays in the journal.
func (s *Store) copyDB(dir string) error {
	s.copying.Lock()
	defer s.copying.Unlock()
	s.holding.Store(true)
	err := s.db.Checkpoint(dir, pebble.WithFlushedWAL())
	if !s.holding.Swap(false) {
		s.recent.applying.Unlock()
	}
	return err
}

// holdLog lets nothing more be written to the log if a checkpoint is about to copy it, which then runs on this goroutine.
func (s *Store) holdLog() error {
	if !s.holding.CompareAndSwap(true, false) {
		return nil
	}
	s.recent.applying.Lock()
	return s.db.LogData(nil, pebble.Sync) // what was written without waiting for it
}

// Stats implements store.Store.
func (s *Store) Stats() store.Stats {
	if s.closed.Load() {
		return store.Stats{}
	}
	m := s.db.Metrics()
	total := m.Total()
	syncs, slowest := s.fuse.syncTimes()
	log := max(m.WAL.PhysicalSize, m.WAL.Size) // the former lacks the one that is being written
	var journal uint64
	if s.recent.journal != nil {
		for _, size := range s.recent.journal.sizes() {
			journal += uint64(size) //nolint:gosec // sizes are not negative
		}
	}
	return store.Stats{
		DiskBytes:        m.DiskSpaceUsage() - m.WAL.PhysicalSize + log + journal,
		WALBytes:         log + m.WAL.ObsoletePhysicalSize + journal,
		MemTableBytes:    m.MemTable.Size + m.MemTable.ZombieSize + uint64(s.recent.bytes()), //nolint:gosec // as above
		CacheBytes:       uint64(max(m.BlockCache.Size, 0)),
		CacheHits:        m.BlockCache.Hits,
		CacheMisses:      m.BlockCache.Misses,
		Commits:          s.commits.Load(),
		CommittedBytes:   s.committedBytes.Load(),
		SyncCount:        syncs.Count,
		SyncDuration:     syncs.Sum,
		SyncMax:          slowest,
		Syncs:            syncs,
		Flushes:          m.Flush.Count,
		Compactions:      m.Compact.Count,
		CompactionDebt:   m.Compact.EstimatedDebt,
		ReadAmp:          m.ReadAmp(),
		Tables:           total.TablesCount,
		Tombstones:       m.Keys.TombstoneCount,
		WriteStalls:      s.events.stalls.Load(),
		WriteStallTime:   time.Duration(s.events.stallNanos.Load()),
		BackgroundErrors: s.events.backgroundErrors.Load(),
		Corruptions:      s.events.corruptions.Load(),
	}
}

// FreeBytes implements store.Store. What Pebble has still to take counts as taken.
func (s *Store) FreeBytes() (uint64, error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", s.dir, err)
	}
	return usage.AvailBytes - min(usage.AvailBytes, uint64(s.recent.bytes())), nil //nolint:gosec // a size
}

// Close implements store.Store. After a write error it returns that error, because
// what was not yet on stable storage will not get there.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return fmt.Errorf("close: %w", store.ErrClosed)
	}
	s.watcher.end()
	s.reclaimer.stop()
	finishErr := s.finish()
	s.sinker.end()
	closeErr := s.db.Close()
	lockErr := s.lock.Close()
	if err := errors.Join(s.fuse.err(), finishErr, closeErr, lockErr); err != nil {
		return fmt.Errorf("close store in %s: %w", s.dir, err)
	}
	return nil
}

// standing is a snapshot of a store that is only read.
type standing struct{ store.Reader }

func (standing) Close() error { return nil }

type snapshot struct {
	reader
	snap   *pebble.Snapshot
	closed atomic.Bool
}

func (s *snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.snap.Close(); err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// reader reads the database as it is now or as it was at a snapshot.
type reader struct {
	source pebble.Reader
	closed *atomic.Bool
	fuse   *fuse
}

// failed returns the error of a read. Once the fuse is blown Pebble believes in tables that are not whole on disk:
// those are not damaged, and what blew the fuse is the reason.
func (r reader) failed(op string, err error) error {
	if first := r.fuse.err(); first != nil {
		return fmt.Errorf("%s: after %w", op, first)
	}
	return fmt.Errorf("%s: %w", op, withCorrupt(err))
}

// getOptions consults the filters of the last level too, which Pebble's own Get does
// not: an absent key then costs a fifth, and a present one the same.
var getOptions = &pebble.IterOptions{UseL6Filters: true}

// Get implements store.Reader.
func (r reader) Get(dst, key []byte) ([]byte, bool, error) {
	if r.closed.Load() {
		return dst, false, fmt.Errorf("get: %w", store.ErrClosed)
	}
	if bytes.Equal(key, markerKey) {
		return dst, false, nil
	}
	value, ok, err := r.get(dst, key)
	if err != nil {
		return dst, false, r.failed("get", err)
	}
	return value, ok, nil
}

func (r reader) get(dst, key []byte) (value []byte, ok bool, err error) {
	it, err := r.source.NewIter(getOptions)
	if err != nil {
		return nil, false, err
	}
	// The whole key is its own prefix, so that this finds it or nothing.
	if ok = it.SeekPrefixGE(key); ok {
		value, err = it.ValueAndErr()
		dst = append(dst, value...)
	}
	return dst, ok, errors.Join(err, it.Close())
}

// Scan implements store.Reader.
func (r reader) Scan(rg store.Range, visit func(key, value []byte) bool) error {
	if r.closed.Load() {
		return fmt.Errorf("scan: %w", store.ErrClosed)
	}
	if emptyRange(rg) {
		return nil
	}
	it, err := r.source.NewIter(iterOptions(rg))
	if err == nil {
		err = scan(it, rg.Reverse, visit)
	}
	if err != nil {
		return r.failed("scan", err)
	}
	return nil
}

func emptyRange(rg store.Range) bool {
	return len(rg.Hi) > 0 && bytes.Compare(rg.Lo, rg.Hi) >= 0
}

func iterOptions(rg store.Range) *pebble.IterOptions {
	opts := &pebble.IterOptions{}
	if len(rg.Lo) > 0 {
		opts.LowerBound = rg.Lo
	}
	if len(rg.Hi) > 0 {
		opts.UpperBound = rg.Hi
	}
	return opts
}

// scan visits what an iterator finds and closes it.
func scan(it *pebble.Iterator, reverse bool, visit func(key, value []byte) bool) (err error) {
	// Close reports what ended the iteration early, besides its own errors.
	defer func() { err = errors.Join(err, it.Close()) }()
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for valid := first(); valid; valid = next() {
		if bytes.Equal(it.Key(), markerKey) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if !visit(it.Key(), value) {
			return nil
		}
	}
	return nil
}
