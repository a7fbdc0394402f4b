package pebblestore

import (
	"bytes"
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
	keys   int         // how many were removed since later last called back
	ranges bool        // ranges were, too
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

// later notes what was removed and calls do after a while, unless it is called again before. Few keys are not worth it.
func (r *reclaimer) later(keys int, ranges bool, do func(all bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.ranges = r.keys+keys, r.ranges || ranges
	switch {
	case r.closed || r.keys < reclaimKeys && !r.ranges:
	case r.timer == nil:
		r.timer = time.AfterFunc(reclaimDelay, func() {
			r.mu.Lock()
			all := r.ranges
			r.keys, r.ranges = 0, false
			r.mu.Unlock()
			do(all)
		})
	default:
		r.timer.Reset(reclaimDelay)
	}
}

const (
	// reclaimDelay is how long after the last removal its space is asked for, if what else is written has not brought it back.
	// Pebble compacts the newest tables only when there are several runs of them.
	reclaimDelay = 30 * time.Second
	// reclaimKeys is how many keys have to be removed one by one for that.
	reclaimKeys = 8 << 10
	// statsDelay is enough for Pebble to find out what new tables delete.
	statsDelay = time.Second
)

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

// Reclaim implements store.Store.
func (s *Store) Reclaim() error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("reclaim: %w", err)
	}
	if s.log != nil {
		s.reclaim(true)
	}
	return nil
}

// reclaim brings space back in the background. Deletions that are only in memory free nothing, and
// the log goes with the memtable: both are flushed. Then what has been deleted has to meet what it deletes. Pebble
// leaves that for later as long as the deletions alone are small, however large what they delete: so
// they are compacted here; without all, only where that is worth it.
func (s *Store) reclaim(all bool) {
	s.reclaimer.start(func(ctx context.Context) {
		if s.moving(s.move) != nil {
			return // the fuse is blown
		}
		if s.flushTables() != nil {
			return
		}
		select {
		case <-time.After(statsDelay):
		case <-ctx.Done():
			return
		}
		s.compactNewest(ctx, all)
	})
}

// compactNewest compacts the newest tables, if they delete something and there is room for the outcome. What goes wrong
// with it blows the fuse, or is no worse than not having begun.
func (s *Store) compactNewest(ctx context.Context, all bool) {
	levels, err := s.db.SSTables()
	if err != nil || len(levels[0]) == 0 || s.refusal() != nil {
		return
	}
	m := s.db.Metrics()
	var size uint64 // of what is rewritten: the newest level, and the next that has any
	for _, level := range [][]pebble.SSTableInfo{levels[0], below(levels)} {
		for i := range level {
			size += level[i].Size
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
		if err != nil {
			return
		}
		i := slices.IndexFunc(left[0], func(t pebble.SSTableInfo) bool { return all || worthwhile(&t, left) })
		if i < 0 {
			return
		}
		key := left[0][i].Smallest.UserKey
		if err := s.db.Compact(ctx, key, append(slices.Clip(key), 0), false); err != nil {
			return
		}
	}
}

// below returns the level that new tables are compacted to.
func below(levels [][]pebble.SSTableInfo) []pebble.SSTableInfo {
	for _, level := range levels[1:] {
		if len(level) > 0 {
			return level
		}
	}
	return nil
}

// worthwhile reports whether a new table deletes at least a quarter of what is rewritten when it is compacted.
func worthwhile(t *pebble.SSTableInfo, levels [][]pebble.SSTableInfo) bool {
	deleted := t.TableStats.PointDeletionsBytesEstimate + t.TableStats.RangeDeletionsBytesEstimate
	var size uint64
	for _, level := range [][]pebble.SSTableInfo{levels[0], below(levels)} {
		for i := range level {
			o := &level[i]
			if bytes.Compare(o.Smallest.UserKey, t.Largest.UserKey) <= 0 && bytes.Compare(t.Smallest.UserKey, o.Largest.UserKey) <= 0 {
				size += o.Size
			}
		}
	}
	return deleted > 0 && 4*deleted >= size
}
