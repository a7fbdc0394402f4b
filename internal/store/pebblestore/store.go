package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/plant"
	"millrace/internal/store"
)

// Store is an open data directory. Open makes one. Commit belongs to one goroutine at a time; all
// reads may run beside it. One goroutine has Pebble apply what was gathered (moveLoop), and others
// look after its tables.
type Store struct {
	reader
	db    *pebble.DB
	log   commitlog.Log // nil in a store that is only read
	dir   string
	fs    vfs.FS   // unguarded
	guard *guardFS // of the log
	lock  io.Closer
	// unlocked tells why nobody is kept from writing to the directory meanwhile; nil: the lock does that
	unlocked error
	fuse     *fuse
	events   *events
	closed   atomic.Bool

	files   *fileSet
	watcher *watcher // nil in a store that is only read

	segmentBytes int64 // of the log

	effective               store.Batch // scratch of Commit
	commits, committedBytes atomic.Uint64

	gathered  gathered
	sinker    *sinker
	reclaimer reclaimer
	// What looks after Pebble's tables in the background.
	tidying     sync.WaitGroup
	stopTidying context.CancelFunc // ends it; nil: it was not begun
}

var _ store.Store = (*Store)(nil)

// refusal returns why the store takes no more changes, or nil. It is asked before something is
// begun, and again before it is acknowledged.
func (s *Store) refusal() error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := s.fuse.err(); err != nil {
		return fmt.Errorf("store in %s stopped after an error: %w", s.dir, err)
	}
	return nil
}

// Unlocked tells why the directory of a store that is only read could not be locked, and what that means; nil if it is
// locked.
func (s *Store) Unlocked() error { return s.unlocked }

var errReadOnly = errors.New("the store is only read")

// Commit implements store.Store. The batch is durable when the log has it; Pebble gets it later.
// Done is called when readers see the batch as well. An error blows the fuse: whether the record is
// on the disk is not known, so that nothing may be acknowledged behind it.
func (s *Store) Commit(b *store.Batch, done func(error)) {
	err := s.refusal()
	if err == nil && s.log == nil {
		err = errReadOnly
	}
	if err != nil {
		done(fmt.Errorf("commit batch of %d: %w", b.Len(), err))
		return
	}
	// What comes and goes within the batch is left out of the log.
	content := b.Effective(&s.effective)
	// A scratch batch that one large commit has grown is given up.
	if s.effective.Size() > batchKept {
		s.effective = store.Batch{}
	}
	s.log.Append(content, func(number uint64, err error) {
		if err != nil {
			s.fuse.blow(err)
		}
		// The fuse may have been blown by somebody else meanwhile, who has seen a file disappear or
		// a table damaged.
		if err = s.refusal(); err != nil {
			done(fmt.Errorf("commit batch of %d: %w", b.Len(), err))
			return
		}
		s.add(b, number, nil)
		done(nil)
	})
}

// Apply makes the changes of a batch visible that are in the log already, as the record of a number, together with a
// state: of whoever writes the log, and as safe as the changes. It is for a log that has other writers than this store.
func (s *Store) Apply(b *store.Batch, number uint64, state []byte) error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("apply record %d: %w", number, err)
	}
	s.add(b, number, state)
	return nil
}

// Applied returns the last record of the log that the store has, and the state that came with it.
// The newest generation that has any counts.
func (s *Store) Applied() (number uint64, state []byte) {
	g := &s.gathered
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gen := range []*generation{g.open, g.moving} {
		if gen != nil && gen.last > g.position.applied {
			return gen.last, gen.state
		}
	}
	return g.position.applied, g.position.state
}

// Settle returns once everything that was applied before is on stable storage in the store itself,
// and not in the log alone. A cluster cuts its log behind that.
func (s *Store) Settle() error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return s.betweenMoves(func() error {
		if err := s.move(); err != nil {
			return err
		}
		return plant.Or(s.flushTables, plant.SettledInMemory, s.refusal)()
	})
}

// Sync returns once all commits so far are on stable storage, whatever the mode of the log.
func (s *Store) Sync() error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return s.log.Sync()
}

// Depth implements store.Store.
func (s *Store) Depth() int {
	if s.log == nil {
		return 1
	}
	return s.log.Depth()
}

// Snapshot implements store.Store. What was gathered is moved to Pebble first, because a snapshot
// of Pebble has nothing else.
func (s *Store) Snapshot() (store.Snapshot, error) {
	if s.closed.Load() {
		return nil, fmt.Errorf("snapshot: %w", store.ErrClosed)
	}
	if s.log == nil {
		return &readOnlySnapshot{s}, nil
	}
	if err := s.betweenMoves(s.move); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	snap := &snapshot{snap: s.db.NewSnapshot()}
	snap.reader = reader{source: snap.snap, closed: &snap.closed, fuse: s.fuse}
	return snap, nil
}

// Stats implements store.Store.
func (s *Store) Stats() store.Stats {
	if s.closed.Load() {
		return store.Stats{}
	}
	m := s.db.Metrics()
	total := m.Total()
	var log commitlog.Stats
	if s.log != nil {
		log = s.log.Stats()
	}
	return store.Stats{
		DiskBytes:        m.DiskSpaceUsage() + log.Bytes,
		WALBytes:         log.Bytes,
		MemTableBytes:    m.MemTable.Size + m.MemTable.ZombieSize + uint64(s.gathered.bytes()), //nolint:gosec // a size
		CacheBytes:       uint64(max(m.BlockCache.Size, 0)),
		CacheHits:        m.BlockCache.Hits,
		CacheMisses:      m.BlockCache.Misses,
		Commits:          s.commits.Load(),
		CommittedBytes:   s.committedBytes.Load(),
		Syncs:            log.Syncs,
		SyncMax:          log.SyncMax,
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

// FreeBytes implements store.Store. What Pebble has still to take counts as taken: it will be
// written although pushes are refused.
func (s *Store) FreeBytes() (uint64, error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", s.dir, err)
	}
	return usage.AvailBytes - min(usage.AvailBytes, uint64(s.gathered.bytes())), nil //nolint:gosec // a size
}

// Close implements store.Store. After a write error it returns that error, because
// what was not yet on stable storage will not get there.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return fmt.Errorf("close: %w", store.ErrClosed)
	}
	if err := errors.Join(s.release(), s.fuse.err(), s.lock.Close()); err != nil {
		return fmt.Errorf("close store in %s: %w", s.dir, err)
	}
	return nil
}

// beginTidying begins to look after Pebble's tables. If they are not to be compacted, space is brought back all the
// same when somebody asks.
func (s *Store) beginTidying(compacts bool) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopTidying = cancel
	s.tidying.Go(func() { s.reclaim(ctx) })
	if compacts {
		s.tidying.Go(func() { s.sinker.sink(ctx, s.db) })
	}
}

// release ends what runs in the background and closes the log and the database, unless that has met
// an error: a goroutine of Pebble's may be stopped where it is then (fuse.end), and closing would
// wait for it for ever.
func (s *Store) release() error {
	s.watcher.end()
	closed := make(chan error, 1)
	go func() {
		if s.stopTidying != nil {
			s.stopTidying()
		}
		finishErr := s.finish()
		s.tidying.Wait()
		closed <- errors.Join(finishErr, s.db.Close())
	}()
	select {
	case err := <-closed:
		return err
	case <-s.fuse.ended:
		return nil // which the fuse tells
	}
}
