package pebblestore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

const copyDir = "/srv/copy"

// loaded returns a store on mem with a number of batches, some of which only its log has.
func loaded(t *testing.T, mem vfs.FS, batches int) *pebblestore.Store {
	t.Helper()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, SegmentBytes: 64 << 10, MemTableBytes: memTableBytes})
	for n := 1; n <= batches; n++ {
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
	}
	return s
}

// TestCheckpointCutShort cuts the power at every moment of a checkpoint. What is left of the copy is whole, or cannot
// be taken for a data directory: a server on it does not begin without the jobs.
func TestCheckpointCutShort(t *testing.T) {
	t.Parallel()
	const batches = 30
	for _, lost := range []int{0, 100} { // per cent of what was not synced
		t.Run(fmt.Sprintf("%d%% lost", lost), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			var mu sync.Mutex
			var all []*vfs.MemFS
			begun := false
			s := loaded(t, storetest.Hooked(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if begun && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					all = append(all, mem.CrashClone(vfs.CrashCloneCfg{
						UnsyncedDataPercent: 100 - lost,
						RNG:                 rand.New(rand.NewPCG(1, 1)),
					}))
				}
				return nil
			})), batches)
			mu.Lock()
			begun = true
			mu.Unlock()
			if err := s.Checkpoint(copyDir); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			begun = false
			all = append(all, mem.CrashClone(vfs.CrashCloneCfg{}))
			mu.Unlock()
			whole := 0
			for i, left := range all {
				names, err := left.List(copyDir)
				if err != nil || len(names) == 0 {
					continue // nothing that could be taken for something
				}
				slices.Sort(names)
				moment := fmt.Sprintf("moment %d of %d: %s", i, len(all), strings.Join(names, " "))
				finished := slices.Contains(names, "FORMAT")
				cut, err := pebblestore.Open(pebblestore.Options{
					Dir: copyDir, FS: left, SegmentBytes: 64 << 10,
					MemTableBytes: memTableBytes,
				})
				if finished != (err == nil) {
					t.Fatalf("%s: finished %t, and opened: %v", moment, finished, err)
				}
				if err != nil {
					continue
				}
				whole++
				if checkHistory(t, cut, batches, batches); t.Failed() {
					t.Fatal(moment)
				}
				mustClose(t, cut)
			}
			if whole == 0 || whole == len(all) {
				t.Errorf("of %d copies %d are whole", len(all), whole)
			}
			mustClose(t, s)
		})
	}
}

// TestCheckpointMeetsAnError lets everything that is written or created fail once while a checkpoint is made. Either
// the error is told, or the copy is whole. Where a directory cannot be synced Pebble ends the process, so that is left
// out.
func TestCheckpointMeetsAnError(t *testing.T) {
	t.Parallel()
	const batches = 30
	kinds := []errorfs.OpKind{
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpCreate, errorfs.OpLink,
		errorfs.OpMkdirAll,
	}
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		var left atomic.Int64 // until one fails; below zero none does
		s := loaded(t, storetest.Hooked(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if slices.Contains(kinds, op.Kind) && left.Add(-1) == 0 {
				return errInjected
			}
			return nil
		})), batches)
		left.Store(int64(n))
		err := s.Checkpoint(copyDir)
		met := left.Load() <= 0
		_ = s.Close() // which may have met it too
		switch {
		case err != nil && !errors.Is(err, errInjected):
			t.Errorf("operation %d fails, and Checkpoint says: %v", n, err)
		case err == nil:
			c, err := pebblestore.Open(pebblestore.Options{Dir: copyDir, FS: mem})
			if err != nil {
				t.Fatalf("operation %d failed: %v", n, err)
			}
			checkHistory(t, c, batches, batches)
			mustClose(t, c)
		}
		if !met {
			break
		}
	}
}
