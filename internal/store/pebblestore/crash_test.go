package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"millrace/internal/commitlog"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/internal/testkit"
	"millrace/test/tier"
)

const memDir = "/srv/data"

// memTableBytes is small, so that a short test flushes, compacts and rotates logs.
const memTableBytes = 64 << 10

// roomyMemTable is the size of memtables of which none is full in a test.
const roomyMemTable = 512 << 10

// historyBatch fills the n-th batch of a history, counted from 1, of which a store
// may lose an end but nothing in between. Each batch depends on those before it.
func historyBatch(b *store.Batch, n int) {
	b.Set(historyKey(n), bytes.Repeat([]byte{byte(n)}, 700))
	b.Set([]byte("last"), strconv.AppendInt(nil, int64(n), 10))
	if n > 20 {
		b.Delete(historyKey(n - 20))
	}
	if n%50 == 0 {
		b.DeleteRange(historyKey(0), historyKey(n-5))
	}
}

func historyKey(n int) []byte { return fmt.Appendf(nil, "h%06d", n) }

// checkHistory checks that the store holds exactly the first n batches for some n
// from atLeast to atMost, and returns n.
func checkHistory(tb testing.TB, s store.Store, atLeast, atMost int) int {
	tb.Helper()
	last, _, err := s.Get(nil, []byte("last"))
	if err != nil {
		tb.Fatalf("Get: %v", err)
	}
	n := 0
	if len(last) > 0 {
		if n, err = strconv.Atoi(string(last)); err != nil {
			tb.Fatal(err)
		}
	}
	if n < atLeast || n > atMost {
		tb.Errorf("the store holds %d batches, want %d to %d", n, atLeast, atMost)
	}
	var want []string
	oldest := max(1, n-19)
	if cut := n/50*50 - 5; cut > oldest {
		oldest = cut
	}
	for i := oldest; i <= n; i++ {
		want = append(want, string(historyKey(i)))
	}
	var got []string
	for _, kv := range storetest.Dump(tb, s, store.Range{Lo: []byte("h"), Hi: []byte("i")}) {
		got = append(got, kv.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("after %d batches (-want +got):\n%s", n, diff)
	}
	return n
}

// crash is a file system as a crash left it, and what had to be on it.
type crash struct {
	fs              *vfs.MemFS
	durable, newest int
}

// crashes collects a crash at every n-th change of a file system.
type crashes struct {
	mem    *vfs.MemFS
	every  int
	config func(seed uint64) vfs.CrashCloneCfg

	mu              sync.Mutex // guards what follows
	changes         int
	durable, newest int
	all             []crash
}

func (c *crashes) String() string { return "crashes" }

// MaybeError is called before each operation and never injects an error.
func (c *crashes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if c.changes%c.every == 0 {
		c.all = append(c.all, crash{c.mem.CrashClone(c.config(uint64(c.changes))), c.durable, c.newest})
	}
	return nil
}

func (c *crashes) commit(tb testing.TB, s *pebblestore.Store, n int, durable bool) {
	tb.Helper()
	c.mu.Lock()
	c.newest = n
	c.mu.Unlock()
	storetest.Commit(tb, s, func(b *store.Batch) { historyBatch(b, n) })
	if durable {
		if err := s.Sync(); err != nil {
			tb.Fatal(err)
		}
		c.mu.Lock()
		c.durable = n
		c.mu.Unlock()
	}
}

// TestCrash ends the machine at many points, the creation of the store included,
// with none, half or all of the unsynced data on the disk.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("kept=%d%%", percent), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			c := &crashes{mem: mem, every: 1, config: func(seed uint64) vfs.CrashCloneCfg {
				return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}
			}}
			s := open(t, pebblestore.Options{
				Dir: memDir, FS: storetest.Hooked(mem, c), MemTableBytes: memTableBytes,
				SegmentBytes: 32 << 10, Mode: commitlog.None,
			})
			c.mu.Lock()
			c.every = tier.Pick(11, 43)
			c.mu.Unlock()
			for n := 1; n <= 1500; n++ {
				c.commit(t, s, n, n%7 == 0)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			kept := 0
			for _, crash := range c.all {
				s := open(t, pebblestore.Options{
					Dir: memDir, FS: crash.fs, MemTableBytes: memTableBytes,
					SegmentBytes: 32 << 10,
				})
				n := checkHistory(t, s, crash.durable, crash.newest)
				kept += n - crash.durable
				// What was recovered is a working store.
				storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n+1) })
				checkHistory(t, s, n+1, n+1)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d crashes; %d batches survived without having been synced", len(c.all), kept)
		})
	}
}

// TestModes loses power behind commits: with commitlog.Fsync all of them are there, with Interval what is older than
// the interval, with None what was synced by name.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []commitlog.Mode{commitlog.Fsync, commitlog.Interval, commitlog.None} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const interval = 50 * time.Millisecond
				mem := vfs.NewCrashableMem()
				s := open(t, pebblestore.Options{Dir: memDir, FS: mem, Mode: mode, SyncEvery: interval})
				left := func() int {
					crashed := open(t, pebblestore.Options{Dir: memDir, FS: mem.CrashClone(vfs.CrashCloneCfg{})})
					defer mustClose(t, crashed)
					return checkHistory(t, crashed, 0, 30)
				}
				for n := 1; n <= 30; n++ {
					if n == 21 {
						testkit.Advance(t, 2*interval)
					}
					storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
				}
				want := map[commitlog.Mode]int{commitlog.Fsync: 30, commitlog.Interval: 20, commitlog.None: 0}[mode]
				if got := left(); got != want {
					t.Errorf("%d batches are left, want %d", got, want)
				}
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				if got := left(); got != 30 {
					t.Errorf("after a sync %d batches are left, want 30", got)
				}
				if st := s.Stats(); st.Syncs.Count == 0 {
					t.Error("no sync is counted")
				}
				mustClose(t, s)
			})
		})
	}
}

func readFile(tb testing.TB, fsys vfs.FS, path string) []byte {
	tb.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer mustClose(tb, f)
	p, err := io.ReadAll(f)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func writeFile(tb testing.TB, fsys vfs.FS, path string, p []byte) {
	tb.Helper()
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := f.Write(slices.Clone(p)); err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		tb.Fatal(err)
	}
}

// injector fails the n-th of some operations, and maybe all that follow.
type injector struct {
	kinds []errorfs.OpKind
	ever  bool // fail all later ones too

	mu     sync.Mutex // guards what follows
	left   int        // operations until the first failure; negative while off
	failed bool
}

var errInjected = errors.New("injected")

func (i *injector) String() string { return "injector" }

func (i *injector) MaybeError(op errorfs.Op) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.left < 0 || !slices.Contains(i.kinds, op.Kind) || op.Path != "" && !strings.HasPrefix(op.Path, memDir) {
		return nil
	}
	if i.left > 0 {
		i.left--
		return nil
	}
	if i.failed && !i.ever {
		return nil
	}
	i.failed = true
	return errInjected
}

func (i *injector) hasFailed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed
}

func (i *injector) start(left int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = left
}

var injections = []struct {
	name  string
	kinds []errorfs.OpKind
	// harmless errors may pass, or be noticed by a later commit than the next.
	harmless bool
	steps    []int
}{
	{
		"write",
		[]errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt},
		false,
		[]int{0, 1, 2, 5, 20, 77, 78, 79, 80, 81, 82, 83, 84, 120},
	},
	{
		"sync",
		[]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData},
		false,
		[]int{0, 1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 30, 47},
	},
	{"create", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, false, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
	{"rename", []errorfs.OpKind{errorfs.OpRename, errorfs.OpLink}, false, nil}, // Only Open renames.
	{"open", []errorfs.OpKind{errorfs.OpOpen}, true, []int{0, 1, 2, 3}},
	{"stat", []errorfs.OpKind{errorfs.OpFileStat}, true, []int{0, 1, 2, 3}},
	{"remove", []errorfs.OpKind{errorfs.OpRemove}, true, []int{0, 1, 2, 3}},
}

// TestNothingIsAcknowledgedAfterAFailure injects an error, once or from then on,
// into the files of a store at work.
func TestNothingIsAcknowledgedAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, injection := range injections {
		for _, step := range injection.steps {
			for _, ever := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/ever=%t", injection.name, step, ever), func(t *testing.T) {
					t.Parallel()
					testFailure(t, &injector{kinds: injection.kinds, ever: ever, left: -1}, step, injection.harmless)
				})
			}
		}
	}
}

func testFailure(t *testing.T, inj *injector, step int, harmless bool) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	var mu sync.Mutex
	var fatal []error
	s := open(t, pebblestore.Options{
		Dir: memDir, FS: storetest.Hooked(mem, inj), MemTableBytes: memTableBytes, Mode: commitlog.None,
		OnFatal: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			fatal = append(fatal, err)
		},
	})
	inj.start(step)
	durable, newest := 0, 0
	var failure error
	// What is harmless happens in the background, which takes its time on a busy machine: the history waits for it.
	deadline := time.Now().Add(time.Minute)
	for n := 1; n <= 900 || harmless && !inj.hasFailed() && time.Now().Before(deadline); n++ {
		if n > 5000 {
			runtime.Gosched()
		}
		var b store.Batch
		historyBatch(&b, n)
		mu.Lock()
		late := len(fatal) > 0 // the store knows; a failure in the background takes a moment to get there
		mu.Unlock()
		err := store.CommitNow(s, &b)
		if err == nil && n%10 == 0 {
			err = s.Sync()
		}
		switch {
		case err == nil && (late || failure != nil):
			t.Fatalf("batch %d is acknowledged after the failure", n)
		case err == nil && n%10 == 0:
			durable, newest = n, n
		case err == nil:
			newest = n
		case failure == nil:
			failure, newest = err, n
		}
		if failure != nil && !errors.Is(err, errInjected) {
			t.Fatalf("batch %d: %v, want the first error", n, err)
		}
	}
	if !inj.hasFailed() {
		t.Error("the history is too short for the failure to happen")
	}
	if failure == nil && !harmless {
		t.Error("all commits succeeded")
	}
	if failure != nil {
		if err := s.Sync(); !errors.Is(err, errInjected) {
			t.Errorf("Sync: %v, want the injected error", err)
		}
		if err := s.Checkpoint("/srv/copy"); !errors.Is(err, errInjected) {
			t.Errorf("Checkpoint: %v, want the injected error", err)
		}
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	closeErr := s.Close()
	late := harmless && errors.Is(closeErr, errInjected) // it was met in the background, behind the last commit
	if (closeErr != nil) != (failure != nil) && !late {
		t.Errorf("Close: %v after %v", closeErr, failure)
	}
	mu.Lock()
	if calls := len(fatal); failure != nil && calls != 1 || failure == nil && calls > 0 && !inj.hasFailed() {
		t.Errorf("OnFatal was called %d times: %v", calls, fatal)
	}
	mu.Unlock()
	for name, fsys := range map[string]*vfs.MemFS{"closed": mem, "crashed": crashed} {
		reopened, err := pebblestore.Open(pebblestore.Options{
			Dir: memDir, FS: fsys, SegmentBytes: 64 << 10,
			MemTableBytes: memTableBytes,
		})
		if err != nil {
			t.Fatalf("%s: reopen: %v", name, err)
		}
		checkHistory(t, reopened, durable, newest)
		if err := reopened.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// openFailing opens and closes a store while errors are injected. Open must report one that is not harmless, unless it
// is met by what Pebble does in the background once it is open, which is told in the other way.
func openFailing(t *testing.T, o pebblestore.Options, inj *injector, harmless bool) {
	t.Helper()
	var fatal atomic.Value
	o.OnFatal = func(err error) { fatal.Store(err) }
	s, err := pebblestore.Open(o)
	failed := inj.hasFailed()
	inj.start(-1)
	if err != nil {
		if fatal.Load() != nil {
			t.Errorf("OnFatal: %v, and Open: %v", fatal.Load(), err)
		}
		return
	}
	err = s.Close()
	if fatal.Load() == nil && (err != nil || failed && !harmless) {
		t.Errorf("Open succeeds, something has failed: %t, and Close: %v", failed, err)
	}
}

// TestOpenFailsCleanly injects errors while a store is created or recovered: Open
// returns, with an error if it could not finish, and a later Open works.
func TestOpenFailsCleanly(t *testing.T) {
	t.Parallel()
	for _, history := range []int{0, 300} {
		for _, injection := range injections {
			for step := range 12 {
				t.Run(fmt.Sprintf("batches=%d/%s/%d", history, injection.name, step), func(t *testing.T) {
					t.Parallel()
					mem := vfs.NewCrashableMem()
					if history > 0 {
						s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: memTableBytes})
						for n := 1; n <= history; n++ {
							storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
						}
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
					}
					inj := &injector{kinds: injection.kinds, ever: true, left: step}
					o := pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, inj), MemTableBytes: memTableBytes}
					openFailing(t, o, inj, injection.harmless)
					o.FS = mem
					s := open(t, o)
					checkHistory(t, s, history, history)
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
