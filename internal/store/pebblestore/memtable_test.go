package pebblestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// TestMemTablesAreWhole shows that a store soon has memtables of the size asked for, and that nothing shows in what it holds.
func TestMemTablesAreWhole(t *testing.T) {
	t.Parallel()
	for _, asked := range []int64{1 << 20, 3 << 20, 32 << 20} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: asked})
			storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("k"), []byte("v")) })
			for giveUp := time.After(time.Minute); s.Stats().MemTableBytes < uint64(asked)/2; {
				select {
				case <-giveUp:
					t.Fatalf("memtables of %d bytes, want at least half of %d", s.Stats().MemTableBytes, asked)
				case <-time.After(time.Millisecond):
				}
			}
			if got := len(storetest.Dump(t, s, store.Range{})); got != 1 {
				t.Errorf("the store holds %d keys, want 1", got)
			}
			mustClose(t, s)
			s = open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: asked})
			defer mustClose(t, s)
			if got := len(storetest.Dump(t, s, store.Range{})); got != 1 {
				t.Errorf("the store holds %d keys after a restart, want 1", got)
			}
		})
	}
}
