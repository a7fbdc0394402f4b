package pebblestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// journaled returns a crashed store of n batches, all of them in its journal alone.
func journaled(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, JournalBytes: 64 << 10})
	defer mustClose(t, s)
	for i := 1; i <= n; i++ {
		storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, i) })
	}
	return mem.CrashClone(vfs.CrashCloneCfg{})
}

// TestJournalDamage changes bits all over the records of a journal, which must be told from its end, and cuts it, which a
// crash may have done to the last record. In the last one only its first sector tells.
func TestJournalDamage(t *testing.T) {
	t.Parallel()
	const count = 40
	mem := journaled(t, count)
	path := find(t, mem, "journal-0", "")
	whole := readFile(t, mem, path)
	// A record says how long it is, and begins at a multiple of 16.
	last, end := 0, 0
	for n := binary.LittleEndian.Uint32(whole[4:]); n > 0; n = binary.LittleEndian.Uint32(whole[end+4:]) {
		last, end = end, end+(16+int(n)+15)&^15
	}
	sector := last&^511 + 512
	with := func(p []byte) (*pebblestore.Store, error) {
		writeFile(t, mem, path, p)
		return pebblestore.Open(pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
	}
	for at := 0; at < sector; at += 3 {
		p := append([]byte(nil), whole...)
		p[at] ^= 1 << (at % 8)
		s, err := with(p)
		if err == nil {
			mustClose(t, s)
		}
		// Between two records there is padding, which nothing is read from.
		if !errors.Is(err, store.ErrCorrupt) && (err != nil || whole[at] != 0) {
			t.Errorf("byte %d of %d changed: %v", at, end, err)
		}
	}
	for at := 0; at < end; at += 50 {
		p := append(append([]byte(nil), whole[:at]...), make([]byte, len(whole)-at)...)
		s, err := with(p)
		if err != nil {
			t.Fatalf("cut at byte %d: %v", at, err)
		}
		checkHistory(t, s, 0, count)
		mustClose(t, s)
	}
	s, err := with(whole)
	if err != nil {
		t.Fatal(err)
	}
	checkHistory(t, s, count, count)
	if v, ok, err := s.Get(nil, []byte("\xffjournal")); ok || err != nil {
		t.Errorf("the marker is read: %x, %v", v, err)
	}
	mustClose(t, s)
}

// TestJournalTurns writes so much that the files of a small journal take turns many times, with crashes in between, and
// after each everything is there.
func TestJournalTurns(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	done := 0
	for round := range 12 {
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem, JournalBytes: 4 << 10, MemTableBytes: memTableBytes})
		checkHistory(t, s, done, done)
		for range 60 {
			done++
			storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, done) })
			if done%7 == 0 { // has Pebble apply what there is
				snap, err := s.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				if err := snap.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if done%29 == 0 { // and the journal written over
				if err := s.Checkpoint(fmt.Sprintf("copy-%d-%d", round, done)); err != nil {
					t.Fatal(err)
				}
			}
		}
		after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 10 * round, RNG: rand.New(rand.NewPCG(uint64(round), 9))})
		mustClose(t, s)
		mem = after
	}
}

// TestJournalIsApplied waits until Pebble has what was committed, without any further commit.
func TestJournalIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
		storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("k"), []byte("v")) })
		<-time.After(2 * time.Second)
		synctest.Wait()
		after := mem.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		journal := find(t, after, "journal-0", "")
		writeFile(t, after, journal, make([]byte, len(readFile(t, after, journal))))
		s = open(t, pebblestore.Options{Dir: memDir, FS: after})
		if v, ok, err := s.Get(nil, []byte("k")); !ok || string(v) != "v" || err != nil {
			t.Errorf("%q, %v, %v", v, ok, err)
		}
		mustClose(t, s)
	})
}

// TestRecentIsRead reads while batches are gathered, applied and forgotten, against a map.
func TestRecentIsRead(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{Dir: memDir, FS: vfs.NewMem()})
	model := map[string]string{}
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 3000 {
		storetest.Commit(t, s, rnd.IntN(50) > 0, func(b *store.Batch) {
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

// TestJournalOnDisk copies a directory on a real file system, where the journal is written past the page cache if that lets it, while
// it is in use: what is in the files is what was acknowledged. Records of all sizes begin and end anywhere in their blocks.
func TestJournalOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, pebblestore.Options{Dir: filepath.Join(dir, "data"), MemTableBytes: unwidened})
	defer mustClose(t, s)
	rng := rand.New(rand.NewPCG(5, 5))
	for n := 1; n <= 120; n++ {
		storetest.Commit(t, s, true, func(b *store.Batch) {
			historyBatch(b, n)
			b.Set([]byte("noise"), make([]byte, rng.IntN(1<<rng.IntN(17))))
		})
		if n%10 != 0 {
			continue
		}
		// Nothing is committed meanwhile. Pebble may be given what is in the journal, which stays there all the same.
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
