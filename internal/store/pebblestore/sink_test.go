package pebblestore

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// TestSinker has keys of two kinds flushed, of which one comes in order and the other does not.
func TestSinker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Dir: "data", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		const flushes, each = 4, 1000
		var keys [][]byte
		for i := range flushes {
			var b store.Batch
			for j := range each {
				keys = append(keys, binary.BigEndian.AppendUint64([]byte("j"), uint64(i*each+j)),
					binary.BigEndian.AppendUint64([]byte("k"), rnd.Uint64()))
				b.Insert(keys[len(keys)-2], []byte("value"))
				b.Insert(keys[len(keys)-1], []byte("value"))
			}
			if err := store.CommitNow(s, &b); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.betweenMoves(s.move), s.flushTables()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		levels, err := s.db.SSTables()
		if err != nil {
			t.Fatal(err)
		}
		count := map[bool]map[byte]int{false: {}, true: {}} // by whether they are new, and by kind
		for i := range levels {
			for _, table := range levels[i] {
				count[i == 0][table.Smallest.UserKey[0]]++
			}
		}
		// Of the first flush nothing is known to come behind what was there.
		if count[true]['j'] != 1 || count[false]['j'] != flushes-1 {
			t.Errorf("of the tables with keys in order %d are new and %d below, want 1 and %d", count[true]['j'],
				count[false]['j'], flushes-1)
		}
		if count[true]['k'] != flushes || count[false]['k'] != 0 {
			t.Errorf("of the tables with keys in no order %d are new and %d below, want %d and 0", count[true]['k'],
				count[false]['k'], flushes)
		}
		var found [][]byte
		if err := s.Scan(store.Range{}, func(key, _ []byte) bool {
			found = append(found, slices.Clone(key))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(keys, slices.Compare)
		if !slices.EqualFunc(found, keys, slices.Equal) {
			t.Errorf("%d keys are there, want the %d that were written", len(found), len(keys))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
