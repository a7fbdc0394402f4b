package pebblestore_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// TestSpaceComesBack deletes nearly everything, key by key or as a range, and waits
// for the files to shrink without any further write.
func TestSpaceComesBack(t *testing.T) {
	t.Parallel()
	const count = 20_000
	for name, erase := range map[string]func(b *store.Batch){
		"range": func(b *store.Batch) { b.DeleteRange(historyKey(10), historyKey(count)) },
		"keys": func(b *store.Batch) {
			for i := 10; i < count; i++ {
				b.Delete(historyKey(i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 2 << 30})
				s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: 256 << 10})
				value := make([]byte, 500)
				rng := rand.NewChaCha8([32]byte{})
				for i := range count {
					_, _ = rng.Read(value)
					key := historyKey(i)
					if i < 10 {
						// Of another space: the table that a deleted range is cut out of stays on disk as a whole for
						// what is left in it.
						key[0]--
					}
					storetest.Commit(t, s, func(b *store.Batch) { b.Set(key, value) })
				}
				if err := s.Reclaim(); err != nil { // which has all of it put into tables
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				before := s.Stats()
				storetest.Commit(t, s, erase)
				<-time.After(time.Minute)
				synctest.Wait()
				after := s.Stats()
				t.Logf("%d bytes in %d tables, then %d in %d, %d tombstones",
					before.DiskBytes, before.Tables, after.DiskBytes, after.Tables, after.Tombstones)
				if after.DiskBytes-after.WALBytes > (before.DiskBytes-before.WALBytes)/4 {
					t.Errorf("of %d bytes %d are still there", before.DiskBytes, after.DiskBytes)
				}
				if got := len(storetest.Dump(t, s, store.Range{})); got != 10 {
					t.Errorf("%d keys are left, want 10", got)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReclaim deletes large values one by one: the deletions are so small that they would be left where they are for
// long.
func TestReclaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count = 600
		mem := vfs.NewMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 2 << 30})
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: 1 << 20})
		value := make([]byte, 16<<10)
		rng := rand.NewChaCha8([32]byte{})
		for i := range count {
			_, _ = rng.Read(value)
			storetest.Commit(t, s, func(b *store.Batch) { b.Set(historyKey(i), value) })
		}
		if err := s.Reclaim(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // all of it is in the last level
		before := s.Stats()
		for i := range count - 10 {
			storetest.Commit(t, s, func(b *store.Batch) { b.Remove(historyKey(i)) })
		}
		for range 3 { // while one runs the others do nothing
			if err := s.Reclaim(); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		synctest.Wait()
		after := s.Stats()
		if after.DiskBytes-after.WALBytes > (before.DiskBytes-before.WALBytes)/4 {
			t.Errorf("of %d bytes %d are still there", before.DiskBytes, after.DiskBytes)
		}
		if got := len(storetest.Dump(t, s, store.Range{})); got != 10 {
			t.Errorf("%d keys are left, want 10", got)
		}
		if err := s.Reclaim(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil { // which ends what the last one began
			t.Error(err)
		}
		if err := s.Reclaim(); err == nil {
			t.Error("a closed store reclaims")
		}
	})
}

// TestSpaceNotWorthIt deletes so few of the keys that rewriting what is left would cost more than it brings.
func TestSpaceNotWorthIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every   int // is deleted
		flushes int64
	}{
		"few":    {100, 0},
		"spread": {10, 1}, // enough to look at them
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const count = 100_000
				mem := vfs.NewMem()
				mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 2 << 30})
				s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
				value := make([]byte, 100)
				rng := rand.NewChaCha8([32]byte{})
				for _, part := range [][2]int{{0, 1}, {1, count}} { // what comes behind the first is moved down
					storetest.Commit(t, s, func(b *store.Batch) {
						for i := part[0]; i < part[1]; i++ {
							_, _ = rng.Read(value)
							b.Insert(historyKey(i), value)
						}
					})
					if err := s.Reclaim(); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Minute)
				}
				before := s.Stats()
				storetest.Commit(t, s, func(b *store.Batch) {
					for i := c.every; i < count; i += c.every {
						b.Remove(historyKey(i))
					}
				})
				<-time.After(time.Minute)
				synctest.Wait()
				after := s.Stats()
				if after.Flushes-before.Flushes != c.flushes || after.Compactions != before.Compactions {
					t.Errorf("%d flushes and %d compactions for a part that is small, want %d and 0",
						after.Flushes-before.Flushes, after.Compactions-before.Compactions, c.flushes)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
