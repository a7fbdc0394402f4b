package pebblestore_test

import (
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

func open(t testing.TB, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	openDir := func(t testing.TB, dir string) store.Store {
		return disk{open(t, pebblestore.Options{Dir: dir, MemTableBytes: 1 << 20}), dir}
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store { return openDir(t, t.TempDir()) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openDir(t, s.(disk).dir)
		},
		OpenCheckpoint: openDir,
	})
}
