package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/replica"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// replicated are the options of a store whose log is elsewhere.
func replicated(fsys vfs.FS) pebblestore.Options {
	return pebblestore.Options{
		Dir: memDir, FS: fsys, MemTableBytes: memTableBytes,
		OpenLog: func(uint64, uint64, commitlog.Visit) (commitlog.Log, error) { return replica.Log{}, nil },
	}
}

// TestReplicatedCrash ends the machine at many points: the store has the effect of a beginning of the log, at least of
// what was settled, and its number and state are those that came with the last of it.
func TestReplicatedCrash(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("kept=%d%%", percent), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			c := &crashes{mem: mem, every: 5, config: func(seed uint64) vfs.CrashCloneCfg {
				return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}
			}}
			s := open(t, replicated(storetest.Hooked(mem, c)))
			for n := 1; n <= 1500; n++ {
				c.note(func() { c.newest = n })
				var b store.Batch
				historyBatch(&b, n)
				if err := s.Apply(&b, uint64(n), stateOf(n)); err != nil {
					t.Fatal(err)
				}
				if n%100 == 0 {
					if err := s.Settle(); err != nil {
						t.Fatal(err)
					}
					c.note(func() { c.durable = n })
				}
			}
			mustClose(t, s)
			found := map[int]bool{}
			for _, crash := range c.all {
				s := open(t, replicated(crash.fs))
				n := checkHistory(t, s, crash.durable, crash.newest)
				found[n] = true
				if number, state := s.Applied(); number != uint64(n) || n > 0 && string(state) != string(stateOf(n)) {
					t.Errorf("the store has entries 1 to %d, and says %d with %q", n, number, state)
				}
				mustClose(t, s)
			}
			if len(found) < 10 {
				t.Errorf("%d crashes have left %d different states only", len(c.all), len(found))
			}
		})
	}
}

func stateOf(n int) []byte { return fmt.Appendf(nil, "state %d", n) }

func (c *crashes) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}
