package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/store"
)

// openUnwatched opens a store that does not look itself, because that would be at the same time.
func openUnwatched(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.watcher.end()
	s.watcher.stop = make(chan struct{})
	return s
}

// TestReplacedBeforeTheNextLook replaces a part of the log that was made after the last look: the next one still
// notices it.
func TestReplacedBeforeTheNextLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openUnwatched(t, Options{Dir: dir, SegmentBytes: 16 << 10})
	looked := s.files.all()
	var made string
	for n := 0; made == ""; n++ {
		var b store.Batch
		b.Set(fmt.Appendf(nil, "k%d", n), make([]byte, 2000))
		if err := store.CommitNow(s, &b); err != nil {
			t.Fatal(err)
		}
		for name := range s.files.all() {
			if _, ok := looked[name]; !ok && filelog.IsSegment(name) {
				made = filepath.Join(dir, name)
			}
		}
	}
	if err := errors.Join(os.WriteFile(made+".copy", nil, 0o600), os.Rename(made+".copy", made)); err != nil {
		t.Fatal(err)
	}
	if err := s.watcher.look(); !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), made) {
		t.Errorf("the look found %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestWatchWhileFilesComeAndGo looks all the time while logs, tables and manifests come and go: nothing of that is
// taken for gone.
func TestWatchWhileFilesComeAndGo(t *testing.T) {
	t.Parallel()
	s := openUnwatched(t, Options{Dir: t.TempDir(), SegmentBytes: 16 << 10, MemTableBytes: 128 << 10})
	stop := make(chan struct{})
	var looks int
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.watcher.look(); err != nil {
				t.Error(err)
				return
			}
			looks++
		}
	})
	seen := map[string]bool{}
	for n := range 1500 {
		var b store.Batch
		b.Set(fmt.Appendf(nil, "k%d", n%50), make([]byte, 2000))
		if err := store.CommitNow(s, &b); err != nil {
			t.Fatal(err)
		}
		for name := range s.files.all() {
			seen[name] = true
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d looks, %d files", looks, len(seen))
	if looks == 0 || len(seen) < 20 {
		t.Error("that tells nothing")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
