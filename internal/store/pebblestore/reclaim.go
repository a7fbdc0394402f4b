package pebblestore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// reclaimer compacts in the background, once at a time. Close stops it.
type reclaimer struct {
	mu     sync.Mutex  // guards what follows
	cancel func()      // ends the run in progress; nil: there is none
	timer  *time.Timer // of later; nil: it was never called
	closed bool
	done   sync.WaitGroup
}

// start runs do unless a run is in progress.
func (r *reclaimer) start(do func(ctx context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.done.Go(func() {
		do(ctx)
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancel = nil
	})
}

// later calls do after a while, unless it is called again before.
func (r *reclaimer) later(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case r.timer == nil:
		r.timer = time.AfterFunc(reclaimDelay, do)
	default:
		r.timer.Reset(reclaimDelay)
	}
}

// reclaimDelay is how long after the last deleted range its space is asked for, if what else is written has not brought it back.
// Pebble compacts the newest tables only when there are several runs of them.
const reclaimDelay = 30 * time.Second

// stop ends the run in progress and lets none begin any more.
func (r *reclaimer) stop() {
	r.mu.Lock()
	r.closed = true
	if r.cancel != nil {
		r.cancel()
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.done.Wait()
}

// Reclaim implements store.Store. Deletions that are only in memory free nothing, and
// the log goes with the memtable: both are flushed. Then what has been deleted has to meet what it deletes. Pebble
// leaves that for later as long as the deletions alone are small, however large what they delete: so
// they are compacted here.
func (s *Store) Reclaim() error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("reclaim: %w", err)
	}
	s.reclaimer.start(func(ctx context.Context) {
		if s.move(pebble.NoSync) != nil {
			return // the fuse is blown
		}
		flushed, err := s.db.AsyncFlush()
		if err != nil {
			return // as it is with a store that is only read
		}
		select {
		case <-flushed:
			s.compactNewest(ctx)
		case <-ctx.Done():
		}
	})
	return nil
}

// compactNewest compacts the newest tables, if they delete something and there is room for the outcome. What goes wrong
// with it blows the fuse, or is no worse than not having begun.
func (s *Store) compactNewest(ctx context.Context) {
	levels, err := s.db.SSTables()
	if err != nil || len(levels[0]) == 0 || s.refusal() != nil {
		return
	}
	m := s.db.Metrics()
	var size uint64 // of what is rewritten: the newest level, and the next that has any
	for i := range levels {
		for _, table := range levels[i] {
			size += table.Size
		}
		if i > 0 && len(levels[i]) > 0 {
			break
		}
	}
	free, err := s.FreeBytes()
	// The floor of free space is by default as large as the second of these levels may get.
	if err != nil || m.Keys.TombstoneCount == 0 || size > free+m.Table.Garbage.PointDeletionsBytesEstimate {
		return
	}
	// A compaction takes whole tables, and with them what they overlap: one key of those that are left is enough.
	for range levels[0] {
		left, err := s.db.SSTables()
		if err != nil || len(left[0]) == 0 {
			return
		}
		key := left[0][0].Smallest.UserKey
		if err := s.db.Compact(ctx, key, append(slices.Clip(key), 0), false); err != nil {
			return
		}
	}
}
