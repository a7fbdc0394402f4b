package pebblestore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
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

	"millrace/internal/commitlog"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/internal/testkit"
)

// fileFailure fails some operations on files whose names begin and end in some way, while it is on.
type fileFailure struct {
	prefix, suffix string
	kinds          []errorfs.OpKind

	mu sync.Mutex // guards on
	on bool
}

func (f *fileFailure) String() string { return "file failure" }

func (f *fileFailure) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := path.Base(op.Path)
	if !f.on || !strings.HasPrefix(name, f.prefix) || !strings.HasSuffix(name, f.suffix) {
		return nil
	}
	if slices.Contains(f.kinds, op.Kind) {
		return errInjected
	}
	return nil
}

func (f *fileFailure) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

var syncKinds = []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}

// rewritten returns a copy of a disk with other contents of some files.
func rewritten(t *testing.T, disk *vfs.MemFS, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	for name, p := range files {
		writeFile(t, clone, name, p)
	}
	return clone
}

func contentOf(t *testing.T, mem *vfs.MemFS) map[string][]byte {
	t.Helper()
	names, err := mem.List(memDir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if name != "LOCK" {
			files[name] = readFile(t, mem, memDir+"/"+name)
		}
	}
	return files
}

// TestLives ends the machine many times, with none, some or all of what was not synced, and goes on. Everything that
// was acknowledged is there each time, and nothing comes back, also when what Pebble has on stable storage is older or
// younger than the end of the log.
func TestLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 77))
			mem := vfs.NewCrashableMem()
			done := 0
			for range 25 {
				s := open(t, pebblestore.Options{
					Dir: memDir, FS: mem, SegmentBytes: 8 << 10,
					MemTableBytes: memTableBytes,
				})
				checkHistory(t, s, done, done)
				live(t, rng, s, &done)
				after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * rng.IntN(3), RNG: rng})
				mustClose(t, s)
				mem = after
			}
		})
	}
}

// live commits for a while, and has Pebble apply some of it in each way there is.
func live(t *testing.T, rng *rand.Rand, s *pebblestore.Store, done *int) {
	t.Helper()
	for range 2 + rng.IntN(40) {
		*done++
		storetest.Commit(t, s, func(b *store.Batch) {
			historyBatch(b, *done)
			b.Set([]byte("noise"), make([]byte, rng.IntN(3000)))
		})
		switch rng.IntN(20) {
		case 0:
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, snap)
		case 1:
			if err := s.Checkpoint(fmt.Sprintf("copy-%d", *done)); err != nil {
				t.Fatal(err)
			}
		case 2: // more than a segment holds
			*done++
			storetest.Commit(t, s, func(b *store.Batch) {
				historyBatch(b, *done)
				for i := range 600 {
					b.Set(fmt.Appendf(nil, "many%d", i), make([]byte, 30))
				}
			})
		}
	}
}

// TestBesideCommits takes snapshots and copies, scans and reclaims while batches are committed: each sees one
// moment, with all that had been acknowledged before and nothing that was asked for later.
func TestBesideCommits(t *testing.T) {
	t.Parallel()
	const count = 1500
	mem := vfs.NewMem()
	var acked, asked atomic.Int64
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, SegmentBytes: 8 << 10, MemTableBytes: memTableBytes})
	look := func(what string, r store.Reader, least int64) {
		n, keys := 0, 0
		err := r.Scan(store.Range{Lo: []byte("h"), Hi: []byte("m")}, func(key, value []byte) bool {
			if string(key) == "last" {
				n, _ = strconv.Atoi(string(value))
			} else {
				keys++
			}
			return true
		})
		most, want := asked.Load(), min(n, 20, n-n/50*50+6)
		if n < 50 {
			want = min(n, 20)
		}
		if err != nil || int64(n) < least || int64(n) > most || keys != want {
			t.Errorf("%s: %d batches with %d keys, want %d keys and %d to %d batches: %v", what, n, keys,
				want, least, most, err)
		}
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	repeat := func(do func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
					do(i)
				}
			}
		})
	}
	repeat(func(int) { look("a scan", s, acked.Load()) })
	repeat(func(int) {
		least := acked.Load()
		snap, err := s.Snapshot()
		if err != nil {
			t.Error(err)
			return
		}
		look("a snapshot", snap, least)
		mustClose(t, snap)
	})
	repeat(func(i int) {
		least, dir := acked.Load(), fmt.Sprint("/srv/copy-", i)
		if err := s.Checkpoint(dir); err != nil {
			t.Error(err)
			return
		}
		c, err := pebblestore.Open(pebblestore.Options{Dir: dir, FS: mem, SegmentBytes: 8 << 10})
		if err != nil {
			t.Error(err)
			return
		}
		look("a copy", c, least)
		mustClose(t, c)
		_ = s.Reclaim()
		_ = s.Stats()
	})
	for n := 1; n <= count; n++ {
		asked.Store(int64(n))
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
		acked.Store(int64(n))
	}
	close(ended)
	wg.Wait()
	checkHistory(t, s, count, count)
	mustClose(t, s)
}

// killed returns a directory whose store was killed with n batches in its log alone.
func killed(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
	for i := 1; i <= n; i++ {
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, i) })
	}
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	return after
}

// TestReadOnlyWithLog reads a store that was killed: all of the log is there, and no file is changed.
func TestReadOnlyWithLog(t *testing.T) {
	t.Parallel()
	mem := killed(t, 40)
	before := contentOf(t, mem)
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
	checkHistory(t, s, 40, 40)
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if v, ok, err := snap.Get(nil, []byte("last")); string(v) != "40" || !ok || err != nil {
		t.Errorf("a snapshot says %q, %t, %v", v, ok, err)
	}
	mustClose(t, snap)
	var b store.Batch
	b.Set([]byte("k"), nil)
	if err := store.CommitNow(s, &b); err == nil {
		t.Error("it takes commits")
	}
	_ = s.Reclaim() // of no use here, and harmless
	if err := s.Checkpoint("/srv/copy"); err == nil {
		t.Error("it makes a copy")
	}
	checkHistory(t, s, 40, 40)
	mustClose(t, s)
	after := contentOf(t, mem)
	for name := range after {
		if !slices.Equal(before[name], after[name]) {
			t.Errorf("%s was changed", name)
		}
	}
}

// TestPositionMovesWithState takes the log away up to where Pebble says that it has it: nothing is missed, and nothing
// is applied a second time. A removal leaves nothing of a key that was set once, and would bring one back that was set
// twice.
func TestPositionMovesWithState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		rng := rand.New(rand.NewPCG(3, 3))
		for round := range 12 {
			s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: memTableBytes})
			for key := range 40 {
				name := fmt.Appendf(nil, "k%d", key)
				if _, there, err := s.Get(nil, name); err != nil || there {
					t.Fatalf("round %d: %s is there: %v", round, name, err)
				}
				storetest.Commit(t, s, func(b *store.Batch) { b.Insert(name, make([]byte, rng.IntN(500))) })
				if rng.IntN(4) == 0 {
					testkit.Advance(t, 2*time.Second) // Pebble is given what there is
				}
				if rng.IntN(8) == 0 {
					if err := s.Reclaim(); err != nil { // and flushes it
						t.Fatal(err)
					}
					testkit.Advance(t, 3*time.Second)
				}
				storetest.Commit(t, s, func(b *store.Batch) { b.Remove(name) })
			}
			after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * rng.IntN(2), RNG: rng})
			mustClose(t, s)
			mem = after
		}
	})
}

// TestLogIsTrimmed has more come and go than a log holds before it is flushed, without ever filling a memtable.
func TestLogIsTrimmed(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{Dir: t.TempDir(), SegmentBytes: 4 << 20})
	var most uint64
	for range 400 {
		storetest.Commit(t, s, func(b *store.Batch) { b.Insert([]byte("come"), make([]byte, 256<<10)) })
		storetest.Commit(t, s, func(b *store.Batch) { b.Remove([]byte("come")) })
		most = max(most, s.Stats().WALBytes)
	}
	mustClose(t, s)
	if most > 96<<20 {
		t.Errorf("the log had up to %d MiB", most>>20)
	}
}

// TestGatheredIsRead reads while batches are gathered, applied and forgotten, against a map.
func TestGatheredIsRead(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{Dir: memDir, FS: vfs.NewMem()})
	model := map[string]string{}
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 3000 {
		storetest.Commit(t, s, func(b *store.Batch) {
			for range 1 + rnd.IntN(4) {
				k, v := fmt.Sprintf("%c%02d", 'a'+rnd.IntN(3), rnd.IntN(40)), fmt.Sprint(i)
				switch rnd.IntN(8) {
				case 0:
					hi := fmt.Sprintf("%c%02d", k[0], rnd.IntN(40))
					b.DeleteRange([]byte(k), []byte(hi))
					for old := range model {
						if old >= k && old < hi {
							delete(model, old)
						}
					}
				case 1, 2:
					b.Delete([]byte(k))
					delete(model, k)
				default:
					b.Set([]byte(k), []byte(v))
					model[k] = v
				}
			}
		})
		if i%97 == 0 {
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			sameAsMap(t, snap, model)
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 0 {
			sameAsMap(t, s, model)
		}
	}
	mustClose(t, s)
}

func sameAsMap(t *testing.T, r store.Reader, model map[string]string) {
	t.Helper()
	for _, reverse := range []bool{false, true} {
		n, last := 0, ""
		err := r.Scan(store.Range{Reverse: reverse}, func(key, value []byte) bool {
			if n++; model[string(key)] != string(value) || last != "" && (last < string(key)) == reverse {
				t.Fatalf("%q is %q behind %q, want %q", key, value, last, model[string(key)])
			}
			last = string(key)
			return true
		})
		if err != nil || n != len(model) {
			t.Fatalf("%d keys, want %d: %v", n, len(model), err)
		}
	}
	for k, v := range model {
		if got, ok, err := r.Get(nil, []byte(k)); !ok || err != nil || string(got) != v {
			t.Fatalf("get %q: %q, %v, %v", k, got, ok, err)
		}
	}
}

// TestLogOnDisk copies a directory on a real file system, where the log is written past the page cache if that lets it,
// while it is in use: what is in the files is what was acknowledged. Records of all sizes begin and end anywhere in
// their blocks.
func TestLogOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, pebblestore.Options{Dir: filepath.Join(dir, "data"), SegmentBytes: 1 << 20})
	defer mustClose(t, s)
	rng := rand.New(rand.NewPCG(5, 5))
	for n := 1; n <= 120; n++ {
		storetest.Commit(t, s, func(b *store.Batch) {
			historyBatch(b, n)
			b.Set([]byte("noise"), make([]byte, rng.IntN(1<<rng.IntN(17))))
		})
		if n%10 != 0 {
			continue
		}
		// Nothing is committed meanwhile. Pebble may be given what is in the log, which stays there all the same.
		clone := filepath.Join(dir, fmt.Sprint(n))
		if err := os.CopyFS(clone, os.DirFS(filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
		c, err := pebblestore.Open(pebblestore.Options{Dir: clone, ReadOnly: true})
		if err != nil {
			t.Fatalf("after %d batches: %v", n, err)
		}
		checkHistory(t, c, n, n)
		mustClose(t, c)
	}
}

// TestDeletedToTheEnd deletes everything, the position with it if nothing is done about that: what was
// applied before must not come back.
func TestDeletedToTheEnd(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
	holds := func(want map[string]string) {
		t.Helper()
		if err := s.Checkpoint(fmt.Sprint("/srv/copy", len(want))); err != nil {
			t.Fatal(err)
		}
		after := open(t, pebblestore.Options{Dir: memDir, FS: mem.CrashClone(vfs.CrashCloneCfg{})})
		sameAsMap(t, after, want)
		mustClose(t, after)
	}
	storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte("gone"), []byte("1")) })
	storetest.Commit(t, s, func(b *store.Batch) { b.DeleteRange(nil, []byte("\xff\xff")) })
	holds(map[string]string{})
	storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte("kept"), []byte("2")) })
	holds(map[string]string{"kept": "2"})
	mustClose(t, s)
}

// TestFailedFlush lets no table be written while commits go on: the store stops and says why. Everything that was
// acknowledged can be read from it, in a snapshot that is still given as well, and is there after a start.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	failure := &fileFailure{suffix: ".sst", kinds: []errorfs.OpKind{errorfs.OpFileWrite}}
	s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, failure), MemTableBytes: memTableBytes})
	failure.set(true)
	n := 0
	for {
		var b store.Batch
		historyBatch(&b, n+1)
		if err := store.CommitNow(s, &b); err != nil {
			if !errors.Is(err, errInjected) {
				t.Errorf("Commit: %v", err)
			}
			break
		}
		if n++; n%50 == 0 {
			if snap, err := s.Snapshot(); err == nil { // Pebble is given what there is
				mustClose(t, snap)
			}
		}
	}
	left := checkHistory(t, s, n, n+1)
	for range 3 {
		snap, err := s.Snapshot()
		if err != nil {
			continue
		}
		last, _, err := snap.Get(nil, []byte("last"))
		if err != nil || string(last) != fmt.Sprint(left) {
			t.Errorf("a snapshot has %q batches, want %d: %v", last, left, err)
		}
		mustClose(t, snap)
	}
	if err := s.Close(); !errors.Is(err, errInjected) {
		t.Errorf("Close: %v", err)
	}
	s = open(t, pebblestore.Options{Dir: memDir, FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	checkHistory(t, s, n, n+1)
	mustClose(t, s)
}

// TestFailedSync lets the sync that comes after the interval fail: the store says so without being asked, and takes
// nothing more.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := &fileFailure{prefix: "log-", kinds: syncKinds}
		var fatal atomic.Value
		s := open(t, pebblestore.Options{
			Dir: memDir, FS: storetest.Hooked(vfs.NewMem(), failure), Mode: commitlog.Interval, SyncEvery: time.Second,
			OnFatal: func(err error) { fatal.Store(err) },
		})
		synctest.Wait()
		failure.set(true)
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, 1) })
		testkit.Advance(t, 2*time.Second)
		if err, _ := fatal.Load().(error); !errors.Is(err, errInjected) {
			t.Errorf("OnFatal: %v", err)
		}
		var b store.Batch
		historyBatch(&b, 2)
		if err := store.CommitNow(s, &b); !errors.Is(err, errInjected) {
			t.Errorf("Commit: %v", err)
		}
		if err := s.Close(); !errors.Is(err, errInjected) {
			t.Errorf("Close: %v", err)
		}
	})
}
