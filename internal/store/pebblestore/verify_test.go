package pebblestore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// tabled returns a directory with a closed store in it that has tables.
func tabled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, pebblestore.Options{Dir: dir, MemTableBytes: 1 << 20})
	noise := rand.NewChaCha8([32]byte{})
	// Small values make small blocks: in a damaged one Pebble looks for the bit that is wrong.
	value := make([]byte, 512)
	for i := range 64 {
		storetest.Commit(t, s, func(b *store.Batch) {
			for k := range 128 {
				_, _ = noise.Read(value) // never fails
				b.Set(fmt.Appendf(nil, "key-%d-%d", i, k), value)
			}
		})
	}
	// Which has all of it put into tables.
	if err := s.Checkpoint(filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return dir
}

func verify(t *testing.T, dir string) (pebblestore.Verified, []int, error) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		return pebblestore.Verified{}, nil, err
	}
	defer mustClose(t, s)
	var calls []int
	v, err := s.Verify(t.Context(), func(done, total int) { calls = append(calls, done, total) })
	return v, calls, err
}

func TestVerify(t *testing.T) {
	t.Parallel()
	v, calls, err := verify(t, tabled(t))
	if err != nil || v.Tables < 2 || v.TableBytes < 2<<20 {
		t.Fatalf("verified %+v, %v", v, err)
	}
	if len(calls) != 2*v.Tables || calls[len(calls)-2] != v.Tables || calls[len(calls)-1] != v.Tables {
		t.Errorf("progress %v of %d tables", calls, v.Tables)
	}
}

// A bit that is wrong in a table, wherever it is, is found by Open or by Verify.
func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	dir := tabled(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %q, %v", tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		at := len(whole) * i / 40
		damaged := append([]byte(nil), whole...)
		damaged[at] ^= 0x10
		if err := os.WriteFile(tables[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := verify(t, dir); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("byte %d of %d changed: %v", at, len(whole), err)
		}
	}
	if err := os.WriteFile(tables[0], whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := verify(t, dir); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("half a table: %v", err)
	}
	if err := os.WriteFile(tables[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := verify(t, dir); err != nil {
		t.Errorf("the table is whole again: %v", err)
	}
}

func TestVerifyClosed(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{Dir: created(t), ReadOnly: true})
	mustClose(t, s)
	if _, err := s.Verify(t.Context(), func(int, int) {}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Verify after Close: %v", err)
	}
}

// A wrong bit in the manifest, wherever it is, is damage, or makes Pebble go back to tables from which the log leads
// on: it never passes for another content.
func TestVerifyManifest(t *testing.T) {
	t.Parallel()
	mem := damaged(t)
	path := find(t, mem, "MANIFEST-", "")
	whole := readFile(t, mem, path)
	for at := range whole {
		p := append([]byte(nil), whole...)
		p[at] ^= 1 << (at % 8)
		writeFile(t, mem, path, p)
		s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
		switch {
		case err == nil:
			checkHistory(t, s, 400, 400)
			mustClose(t, s)
		case !errors.Is(err, store.ErrCorrupt):
			t.Errorf("byte %d of %d changed: %v", at, len(whole), err)
		}
	}
	for _, p := range [][]byte{whole, append(append([]byte(nil), whole...), make([]byte, 100)...)} {
		writeFile(t, mem, path, p)
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
		checkHistory(t, s, 400, 400)
		mustClose(t, s)
	}
}
