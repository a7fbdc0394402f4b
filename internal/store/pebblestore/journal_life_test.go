package pebblestore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// torn returns what a crash may leave of the last record of a file: of each sector what was written, or what was there.
func torn(rng *rand.Rand, r storetest.JournalRecord, whole []byte) []byte {
	out := slices.Clone(whole)
	const sector = 512
	for at := r.Begin; at < r.End; at = (at/sector + 1) * sector {
		to := min(r.End, (at/sector+1)*sector)
		switch rng.IntN(4) {
		case 0:
		case 1:
			copy(out[at:to], r.Before[at:])
		default: // nothing behind it has reached the disk
			copy(out[at:r.End], r.Before[at:])
			return out
		}
	}
	return out
}

// TestJournalLives ends the machine many times with the last record of the journal torn, spoils records that are not needed any more,
// and goes on. Everything that was acknowledged is there each time; damage is told or makes no difference, also later.
func TestJournalLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 77))
			mem := vfs.NewCrashableMem()
			done, spoilt, told := 0, 0, 0
			for range 25 {
				fsys := &storetest.JournalWatch{MemFS: mem}
				o := pebblestore.Options{Dir: memDir, FS: fsys, JournalBytes: 8 << 10, MemTableBytes: memTableBytes}
				s, err := pebblestore.Open(o)
				if err != nil {
					t.Fatalf("with %d batches: %v", done, err)
				}
				done = checkHistory(t, s, done, done+1)
				live(t, rng, s, &done)
				whole := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * rng.IntN(2), RNG: rng})
				records := fsys.Written()
				mustClose(t, s)
				if len(records) < 3 {
					mem = whole
					continue
				}
				last := records[len(records)-1]
				files := map[string][]byte{last.Path: torn(rng, last, readFile(t, whole, last.Path))}
				// The last record may be lost now, as if it had not been acknowledged.
				done--
				mem = rewritten(t, whole, files)
				for range 3 { // and one of the others spoilt, with a whole one behind it
					r := records[rng.IntN(len(records)-2)]
					if r.Overlaps(last) || r.Overlaps(records[len(records)-2]) {
						continue
					}
					damaged := maps.Clone(files)
					if damaged[r.Path] == nil {
						damaged[r.Path] = readFile(t, whole, r.Path)
					}
					damaged[r.Path] = slices.Clone(damaged[r.Path])
					damaged[r.Path][r.Begin+rng.IntN(r.End-r.Begin)] ^= 1 << rng.IntN(8)
					disk := rewritten(t, whole, damaged)
					s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: disk, ReadOnly: true})
					spoilt++
					if err != nil {
						if !errors.Is(err, store.ErrCorrupt) {
							t.Fatal(err)
						}
						told++
						continue
					}
					checkHistory(t, s, done, done+1)
					mustClose(t, s)
					mem = disk // it goes on with that
				}
			}
			t.Logf("%d batches; of %d that were spoilt %d were told", done, spoilt, told)
		})
	}
}

// rewritten returns a copy of a disk with other contents of some files.
func rewritten(t *testing.T, disk *vfs.MemFS, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	for name, p := range files {
		writeFile(t, clone, name, p)
	}
	return clone
}

// live commits for a while, and has Pebble apply some of it in each way there is.
func live(t *testing.T, rng *rand.Rand, s *pebblestore.Store, done *int) {
	t.Helper()
	for range 2 + rng.IntN(40) {
		*done++
		storetest.Commit(t, s, true, func(b *store.Batch) {
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
		case 2:
			*done++
			storetest.Commit(t, s, false, func(b *store.Batch) { historyBatch(b, *done) })
			*done++
			storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, *done) })
		case 3: // a batch of many changes
			*done++
			storetest.Commit(t, s, true, func(b *store.Batch) {
				historyBatch(b, *done)
				for i := range 600 {
					b.Set(fmt.Appendf(nil, "many%d", i), nil)
				}
			})
		}
	}
	*done++ // the last one always goes to the journal
	storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, *done) })
}

// TestBesideCommits takes snapshots and copies, scans and reclaims while batches are committed: each sees one
// moment, with all that had been acknowledged before and nothing that was asked for later.
func TestBesideCommits(t *testing.T) {
	t.Parallel()
	const count = 1500
	mem := vfs.NewMem()
	var acked, asked atomic.Int64
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, JournalBytes: 8 << 10, MemTableBytes: memTableBytes})
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
			t.Errorf("%s: %d batches with %d keys, want %d keys and %d to %d batches: %v", what, n, keys, want, least, most, err)
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
		c, err := pebblestore.Open(pebblestore.Options{Dir: dir, FS: mem, JournalBytes: 8 << 10})
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
		storetest.Commit(t, s, n%9 > 0, func(b *store.Batch) { historyBatch(b, n) })
		acked.Store(int64(n))
	}
	close(ended)
	wg.Wait()
	checkHistory(t, s, count, count)
	mustClose(t, s)
}

// TestCopyOfLogInUse commits between the reads of the newest log by which it is copied: the copy is not of two moments.
func TestCopyOfLogInUse(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	between := &betweenReads{}
	s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, between), MemTableBytes: memTableBytes})
	n := 0
	commit := func() error {
		n++
		var b store.Batch
		historyBatch(&b, n)
		return s.Commit(&b, n%10 == 0)
	}
	newest := func() string { names := logs(t, mem); return names[len(names)-1] }
	for before := newest(); n < 400 || newest() == before; { // until there is a log that was another, and hardly anything in it
		before = newest()
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
	done, ended := make(chan error, 1), make(chan struct{})
	between.do(newest(), func() {
		go func() {
			defer close(ended)
			for range 69 {
				if err := commit(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		select {
		case <-ended:
		case <-time.After(200 * time.Millisecond): // they have to wait for the copy
		}
	})
	least := n
	if err := s.Checkpoint("/srv/copy"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c := open(t, pebblestore.Options{Dir: "/srv/copy", FS: mem})
	checkHistory(t, c, least, n)
	mustClose(t, c)
	checkHistory(t, s, n, n)
	mustClose(t, s)
}

// betweenReads does something once, between the first two reads of a file.
type betweenReads struct {
	mu    sync.Mutex // guards what follows
	name  string
	reads int
	then  func()
}

func (r *betweenReads) String() string { return "between reads" }

func (r *betweenReads) do(name string, then func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.then = name, then
}

func (r *betweenReads) MaybeError(op errorfs.Op) error {
	r.mu.Lock()
	due := op.Kind == errorfs.OpFileRead && r.name != "" && path.Base(op.Path) == r.name
	if due {
		r.reads++
	}
	due = due && r.reads == 2
	r.mu.Unlock()
	if due {
		r.then()
	}
	return nil
}

// TestReadOnlyWithJournal reads a store that was killed: all of the journal is there, and no file is changed.
func TestReadOnlyWithJournal(t *testing.T) {
	t.Parallel()
	mem := journaled(t, 40)
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
	for _, durable := range []bool{false, true} {
		if err := s.Commit(&b, durable); err == nil {
			t.Error("it takes commits")
		}
	}
	_ = s.Reclaim() // of no use here, and harmless
	checkHistory(t, s, 40, 40)
	mustClose(t, s)
	after := contentOf(t, mem)
	for name := range after {
		if !slices.Equal(before[name], after[name]) {
			t.Errorf("%s was changed", name)
		}
	}
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

// TestDirectBatchIsMissed tears the end of Pebble's log, where a batch is that was not in the journal because it was large, while one that was
// acknowledged later is in the journal: that is told.
func TestDirectBatchIsMissed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
	storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("a"), nil) })
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, snap)
	names := logs(t, mem)
	log := memDir + "/" + names[len(names)-1]
	before := len(readFile(t, mem, log))
	storetest.Commit(t, s, true, func(b *store.Batch) {
		for i := range 700 {
			b.Set(fmt.Appendf(nil, "b%d", i), nil)
		}
	})
	storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("c"), nil) })
	disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	mustClose(t, s)
	whole := readFile(t, disk, log)
	if len(whole) < before+700 {
		t.Fatalf("the batch is not at the end of %s: it has %d bytes behind %d", log, len(whole), before)
	}
	writeFile(t, disk, log, whole[:before])
	s, err = pebblestore.Open(pebblestore.Options{Dir: memDir, FS: disk})
	if err == nil {
		_, b, _ := s.Get(nil, []byte("b1"))
		_, c, _ := s.Get(nil, []byte("c"))
		if !b || !c {
			t.Errorf("nobody is told that a batch is lost: the large one is there: %t, the one behind it: %t", b, c)
		}
		mustClose(t, s)
	} else if !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
}
