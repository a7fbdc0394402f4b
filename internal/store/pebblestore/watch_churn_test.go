package pebblestore

import (
	"fmt"
	"sync"
	"testing"

	"millrace/internal/store"
)

// TestWatchWhileFilesComeAndGo looks all the time while logs, tables and manifests come and go: nothing of that is
// taken for gone.
func TestWatchWhileFilesComeAndGo(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir(), SegmentBytes: 16 << 10, MemTableBytes: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	// What the store does itself would look at the same time.
	s.watcher.end()
	s.watcher.stop = make(chan struct{})
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
