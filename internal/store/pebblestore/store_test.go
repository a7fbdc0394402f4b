package pebblestore_test

import (
	"io"
	"testing"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// disk is a store that remembers where it lives, for reopening it.
type disk struct {
	*pebblestore.Store
	dir string
}

func open(tb testing.TB, o pebblestore.Options) *pebblestore.Store {
	tb.Helper()
	if o.FS != nil && o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 10 // of memory, which crashes copy
	}
	s, err := pebblestore.Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func mustClose(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	openDir := func(tb testing.TB, dir string) store.Store {
		tb.Helper()
		return disk{open(tb, pebblestore.Options{Dir: dir, MemTableBytes: 1 << 20}), dir}
	}
	storetest.Run(t, storetest.Harness{
		Open: func(tb testing.TB) store.Store {
			tb.Helper()
			return openDir(tb, tb.TempDir())
		},
		Reopen: func(tb testing.TB, s store.Store) store.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			return openDir(tb, s.(disk).dir)
		},
		OpenCheckpoint: openDir,
	})
}
