package pebblestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// wantCut checks that a file of the journal which was cut is told, to those who only read and to those who write.
func wantCut(t *testing.T, disk *vfs.MemFS, name string, length int) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		o := pebblestore.Options{Dir: memDir, FS: disk, ReadOnly: readOnly, JournalBytes: 64 << 10}
		s, err := pebblestore.Open(o)
		if err == nil {
			_ = s.Close() // it is too late
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s was cut to %d bytes, and Open says %v", name, length, err)
		}
	}
}

// TestJournalCut cuts a file of the journal at many places, after a kill and after an orderly end, in a directory that was used twice, in one that
// grew, in a copy, and in one of the version before when it was opened: that is told, whatever is left in the file.
func TestJournalCut(t *testing.T) {
	t.Parallel()
	o := pebblestore.Options{Dir: memDir, JournalBytes: 64 << 10, MemTableBytes: unwidened}
	fill := func(s *pebblestore.Store, count int) {
		for range count {
			storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("k"), make([]byte, 900)) })
		}
	}
	for name, use := range map[string]func(mem *vfs.MemFS){
		"one life": func(*vfs.MemFS) {},
		"many lives": func(mem *vfs.MemFS) {
			for _, size := range []int64{32 << 10, 128 << 10, 4 << 10} {
				o := o
				o.FS, o.JournalBytes = mem, size
				s := open(t, o)
				fill(s, 100)
				mustClose(t, s)
			}
		},
		"copied": func(mem *vfs.MemFS) {
			o := o
			o.FS, o.Dir = mem, "/srv/from"
			s := open(t, o)
			fill(s, 10)
			if err := s.Checkpoint(memDir); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			cutEach(t, mem)
		},
		"upgraded": func(mem *vfs.MemFS) {
			o := o
			o.FS = mem
			s := open(t, o)
			fill(s, 10)
			mustClose(t, s)
			makeFormat2(t, mem)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			use(mem)
			o := o
			o.FS = mem
			s := open(t, o)
			fill(s, 50)
			killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
			mustClose(t, s)
			cutEach(t, killed)
			cutEach(t, mem)
			for _, disk := range []*vfs.MemFS{killed, mem} { // which was not changed
				o.FS = disk
				s := open(t, o)
				mustClose(t, s)
			}
		})
	}
}

// TestGrownJournalTorn tears the last record of a file that has just grown by it: the file may end anywhere in that record, as a crash leaves it.
func TestGrownJournalTorn(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, JournalBytes: 4 << 10, MemTableBytes: unwidened})
	storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, 1) })
	storetest.Commit(t, s, true, func(b *store.Batch) {
		historyBatch(b, 2)
		b.Set([]byte("noise"), make([]byte, 20<<10))
	})
	disk := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	path := find(t, disk, "journal-0", "")
	if len(readFile(t, disk, path)) <= 20<<10 {
		path = find(t, disk, "journal-1", "")
	}
	whole := readFile(t, disk, path)
	if len(whole) <= 20<<10 {
		t.Fatalf("no file has grown: %s has %d bytes", path, len(whole))
	}
	for length := 4 << 10; length < 20<<10; length += 500 {
		s := open(t, pebblestore.Options{Dir: memDir, FS: rewritten(t, disk, map[string][]byte{path: whole[:length]})})
		checkHistory(t, s, 1, 1)
		mustClose(t, s)
	}
}

// cutEach cuts each file of the journal in copies of a disk.
func cutEach(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	for i := range 2 {
		name := fmt.Sprint("journal-", i)
		path := memDir + "/" + name
		whole := readFile(t, disk, path)
		for _, length := range []int{0, 1, 16, 4 << 10, len(whole) / 2, 64<<10 - 1} {
			wantCut(t, rewritten(t, disk, map[string][]byte{path: whole[:length]}), name, length)
		}
	}
}

// makeFormat2 turns a directory that was closed into one of version 2, whose database does not know how long the files of the journal
// are: they may be empty, as those of a copy were.
func makeFormat2(t *testing.T, mem *vfs.MemFS) {
	t.Helper()
	db, err := pebble.Open(memDir, &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("\xffjournal")
	value, closer, err := db.Get(key)
	if err != nil || len(value) != 32 || binary.BigEndian.Uint64(value[16:]) < 64<<10 {
		t.Fatalf("the marker is %x: %v", value, err)
	}
	old := append([]byte(nil), value[:16]...)
	if err := errors.Join(closer.Close(), db.Set(key, old, pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	writeFile(t, mem, memDir+"/journal-0", nil)
	writeFile(t, mem, memDir+"/journal-1", nil)
	writeFile(t, mem, memDir+"/FORMAT", []byte("millrace data directory\nformat 2\n"))
}
