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

// reclaimer notes what was removed, and asks for its space after a while. Pebble gives space back
// when it compacts, which it may put off for very long if little is written.
type reclaimer struct {
	asked chan bool // capacity 1; true: for all of it, also where that is not worth it

	mu     sync.Mutex  // guards what follows
	timer  *time.Timer // asks; nil: there was no reason to yet
	keys   int         // how many were removed since it last did
	ranges bool        // ranges were, too
}

// ask asks for space once; asking again before that has begun changes nothing.
func (r *reclaimer) ask(all bool) {
	select {
	case r.asked <- all:
	default:
	}
}

// removed notes a removal, and has its space asked for after a while without another. Few keys are not worth it.
func (r *reclaimer) removed(keys int, ranges bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.ranges = r.keys+keys, r.ranges || ranges
	switch {
	case r.keys < reclaimKeys && !r.ranges:
	case r.timer == nil:
		r.timer = time.AfterFunc(reclaimDelay, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ask(r.ranges)
			r.keys, r.ranges = 0, false
		})
	default:
		r.timer.Reset(reclaimDelay)
	}
}

const (
	// reclaimDelay is how long after the last removal its space is asked for, if what else is written has not brought
	// it back. Pebble compacts the newest tables only when there are several runs of them.
	reclaimDelay = 30 * time.Second
	// reclaimKeys is how many keys have to be removed one by one for that.
	reclaimKeys = 8 << 10
	// statsDelay is enough for Pebble to find out what new tables delete.
	statsDelay = time.Second
)

// Reclaim implements store.Store.
func (s *Store) Reclaim() error {
	if err := s.refusal(); err != nil {
		return fmt.Errorf("reclaim: %w", err)
	}
	s.reclaimer.ask(true)
	return nil
}

// reclaim brings space back whenever it is asked for. Deletions that are only in memory free nothing, and
// the log goes with the memtable: both are flushed. Then what has been deleted has to meet what it deletes. Pebble
// leaves that for later as long as the deletions alone are small, however large what they delete: so
// they are compacted here.
func (s *Store) reclaim(ctx context.Context) {
	for {
		var all bool
		select {
		case all = <-s.reclaimer.asked:
		case <-ctx.Done():
			return
		}
		if s.betweenMoves(s.move) != nil || s.flushTables() != nil {
			return // the store is closed, or the fuse blown
		}
		select {
		case <-time.After(statsDelay):
		case <-ctx.Done():
			return
		}
		s.compactNewest(ctx, all)
	}
}

// compactNewest compacts the newest tables, without all only those of which it is worth it, if they
// delete something and there is room for the outcome. What goes wrong with it blows the fuse, or is
// no worse than not having begun. It compacts at most once for each of them.
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
			if bytes.Compare(o.Smallest.UserKey, t.Largest.UserKey) <= 0 &&
				bytes.Compare(t.Smallest.UserKey, o.Largest.UserKey) <= 0 {
				size += o.Size
			}
		}
	}
	return deleted > 0 && 4*deleted >= size
}
