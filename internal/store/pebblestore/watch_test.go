package pebblestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// matching returns the last file of a directory that fits a pattern.
func matching(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return names[len(names)-1]
}

// replace puts a copy of a file in its place.
func replace(t *testing.T, path string) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.WriteFile(path+".copy", p, 0o600), os.Rename(path+".copy", path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakenAway takes the data directory, or a part of it, away from a store in use: it stops, says why, and
// acknowledges nothing more.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	away := func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
	}
	one := func(pattern string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(matching(t, dir, pattern)); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := func(pattern string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { t.Helper(); replace(t, matching(t, dir, pattern)) }
	}
	for name, c := range map[string]struct {
		do    func(t *testing.T, dir string)
		parts []string
	}{
		"deleted": {func(t *testing.T, dir string) {
			t.Helper()
			for os.RemoveAll(dir) != nil { // until no file is made meanwhile
			}
		}, nil},
		"moved": {away, []string{"deleted, moved or unmounted"}},
		"another directory": {func(t *testing.T, dir string) {
			t.Helper()
			away(t, dir)
			if err := os.CopyFS(dir, os.DirFS(dir+".away")); err != nil {
				t.Fatal(err)
			}
		}, []string{"another one was put in its place"}},
		"a file": {func(t *testing.T, dir string) {
			t.Helper()
			away(t, dir)
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"another one was put in its place"}},
		"log deleted":       {one("log-*"), []string{"log-", "deleted"}},
		"table deleted":     {one("*.sst"), []string{".sst"}},
		"manifest deleted":  {one("MANIFEST-*"), []string{"MANIFEST-"}},
		"lock deleted":      {one("LOCK"), []string{"LOCK"}},
		"marker deleted":    {one("FORMAT"), []string{"FORMAT"}},
		"log replaced":      {other("log-*"), []string{"log-", "another one"}},
		"manifest replaced": {other("MANIFEST-*"), []string{"MANIFEST-", "another one"}},
		"lock replaced":     {other("LOCK"), []string{"LOCK", "another one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			o := pebblestore.Options{
				Dir: dir, SegmentBytes: 256 << 10, MemTableBytes: roomyMemTable,
				NoCompactions: true,
			}
			s := open(t, o)
			for n := range 2000 { // until there is a table
				storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte{'k', byte(n)}, make([]byte, 500)) })
			}
			mustClose(t, s)
			fatal := make(chan error, 1)
			o.OnFatal = func(err error) { fatal <- err }
			s = open(t, o)
			c.do(t, dir)
			err := <-fatal
			if !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), dir) {
				t.Errorf("it stopped with %v", err)
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it stopped with %v, which does not say %q", err, part)
				}
			}
			var b store.Batch
			b.Set([]byte("k"), nil)
			if err := store.CommitNow(s, &b); !errors.Is(err, store.ErrGone) {
				t.Errorf("a commit after that: %v", err)
			}
			if err := s.Close(); !errors.Is(err, store.ErrGone) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// TestTakenAwaySoon looks how long that takes, on a file system in memory and with a clock of its own.
func TestTakenAwaySoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		fatal := make(chan error, 1)
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem, OnFatal: func(err error) { fatal <- err }})
		<-time.After(time.Hour)
		began := time.Now()
		remove(t, mem, find(t, mem, "log-", ""))
		if err := <-fatal; !errors.Is(err, store.ErrGone) || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		_ = s.Close() // which tells of it once more
	})
}

// TestForeignFilesComeAndGo puts a file of somebody else into the directory and takes it away: that is nobody's
// business.
func TestForeignFilesComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
		mustClose(t, s)
		writeFile(t, mem, memDir+"/notes.txt", []byte("x"))
		s = open(t, pebblestore.Options{Dir: memDir, FS: mem})
		<-time.After(time.Minute)
		remove(t, mem, memDir+"/notes.txt")
		<-time.After(time.Minute)
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, 1) })
		mustClose(t, s)
	})
}
