package pebblestore

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/store"
)

// sinker moves new tables down a level, as they are, if their keys come behind all of the same first byte that were
// flushed before: those of jobs, which arrive in the order of their numbers. Were they left with the other new tables,
// Pebble would take them along when it compacts those next to them that overlap each other, which the keys of clients
// do, and so write each job twice.
type sinker struct {
	mu   sync.Mutex
	last [256][]byte // the greatest key of each first byte that was flushed
	todo [][]byte    // the first keys of tables to move

	work chan struct{} // capacity 1: todo has something
}

// sinkMax is how many tables wait to be moved. Those that are one too many stay where they are.
const sinkMax = 256

// flushed notes new tables. Pebble calls it with its locks held, so that it only takes notes.
func (k *sinker) flushed(tables []pebble.TableInfo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range tables {
		first, last := tables[i].Smallest.UserKey, tables[i].Largest.UserKey
		before := &k.last[store.FirstByte(first)]
		if *before != nil && bytes.Compare(first, *before) > 0 && len(k.todo) < sinkMax {
			k.todo = append(k.todo, bytes.Clone(first))
		}
		if bytes.Compare(last, *before) > 0 {
			*before = bytes.Clone(last)
		}
	}
	if len(k.todo) > 0 {
		signal(k.work)
	}
}

// next returns the first key of the next table to move; nil if there is none.
func (k *sinker) next() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.todo) == 0 {
		return nil
	}
	key := k.todo[0]
	k.todo = slices.Delete(k.todo, 0, 1)
	return key
}

// sink moves tables until it is stopped.
func (k *sinker) sink(ctx context.Context, db *pebble.DB) {
	for {
		select {
		case <-k.work:
		case <-ctx.Done():
			return
		}
		for key := k.next(); key != nil; key = k.next() {
			// A compaction of what lies between the first two keys of the table: it takes the table as a whole, and no
			// memtable has to be flushed for it. It fails only when it is stopped.
			from := append(key, 0)
			_ = db.Compact(ctx, from, append(slices.Clip(from), 0), false)
		}
	}
}
