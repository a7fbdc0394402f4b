package memstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) store.Store { return memstore.New() },
		OpenCheckpoint: func(tb testing.TB, dir string) store.Store {
			tb.Helper()
			s, err := memstore.Load(dir)
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
	})
}

func TestLoadRefusesDamage(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte("key"), []byte("value")) })
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Checkpoint(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "memstore.batch")
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, p[:len(p)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := memstore.Load(dir); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Load of a cut checkpoint: %v, want ErrCorrupt", err)
	}
}

func TestForkIsIndependent(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	set := func(s *memstore.Store, value string) {
		storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte("key"), []byte(value)) })
	}
	set(s, "before")
	f, kept := s.Fork(), s.Fork()
	set(s, "one")
	set(f, "other")
	for want, s := range map[string]*memstore.Store{"one": s, "other": f, "before": kept} {
		if got, _, err := s.Get(nil, []byte("key")); err != nil || string(got) != want {
			t.Errorf("key is %q, %v, want %q", got, err, want)
		}
	}
}

// BenchmarkCommit is the cost of the store in the unit tests of others.
func BenchmarkCommit(b *testing.B) {
	storetest.BenchmarkCommit(b, func(testing.TB) store.Store { return memstore.New() })
}
