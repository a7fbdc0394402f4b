package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

const oldHistory = 301

// oldDirectory returns a directory as a release without a journal has left it when it was killed: with tables, and a log.
func oldDirectory(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: memTableBytes})
	for n := 1; n < oldHistory; n++ {
		storetest.Commit(t, s, false, func(b *store.Batch) { historyBatch(b, n) })
	}
	mustClose(t, s)
	db, err := pebble.Open(memDir, &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	pb := db.NewBatch()
	var b store.Batch
	historyBatch(&b, oldHistory)
	b.Each(func(op store.Op, key, value []byte) bool {
		if op.Sets() {
			err = pb.Set(key, value, nil)
		} else {
			err = pb.Delete(key, nil)
		}
		return err == nil
	})
	if err == nil {
		err = pb.Delete([]byte("\xffjournal"), nil)
	}
	if err == nil {
		err = db.Apply(pb, pebble.Sync)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	remove(t, mem, memDir+"/journal-0")
	remove(t, mem, memDir+"/journal-1")
	writeFile(t, mem, memDir+"/FORMAT", []byte("millrace data directory\nformat 1\n"))
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// TestUpgrade opens a directory of the first version: for reading, which leaves it as it is, and for writing, with a crash at every change
// on the way. Whatever was reached, everything is there, and the next opening completes it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	mem := oldDirectory(t)
	before := contentOf(t, mem)
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
	checkHistory(t, s, oldHistory, oldHistory)
	mustClose(t, s)
	if after := contentOf(t, mem); len(after) != len(before) {
		t.Errorf("reading leaves %d files of %d", len(after), len(before))
	}
	// Not a part of what was not synced: Pebble itself relies on a new manifest being there when its marker is.
	for _, percent := range []int{0, 100} {
		mem := oldDirectory(t)
		c := &crashes{mem: mem, every: 1, durable: oldHistory, newest: oldHistory, config: func(seed uint64) vfs.CrashCloneCfg {
			return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}
		}}
		s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, c), MemTableBytes: memTableBytes})
		for n := oldHistory + 1; n <= oldHistory+20; n++ {
			c.commit(t, s, n, true)
		}
		mustClose(t, s)
		if p := readFile(t, mem, memDir+"/FORMAT"); string(p) != fmt.Sprintf("millrace data directory\nformat %d\n", pebblestore.FormatVersion) {
			t.Errorf("the marker says %q", p)
		}
		for i, crash := range c.all {
			s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: crash.fs, JournalBytes: 64 << 10, MemTableBytes: memTableBytes})
			if err != nil {
				t.Fatalf("%d%% kept, crash %d: %v", percent, i, err)
			}
			n := checkHistory(t, s, crash.durable, crash.newest)
			storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, n+1) })
			mustClose(t, s)
		}
	}
}

// TestUpgradeFailsCleanly injects errors into the opening of such a directory: the next one works.
func TestUpgradeFailsCleanly(t *testing.T) {
	t.Parallel()
	for _, injection := range injections {
		for step := range 14 {
			t.Run(fmt.Sprintf("%s/%d", injection.name, step), func(t *testing.T) {
				t.Parallel()
				mem := oldDirectory(t)
				inj := &injector{kinds: injection.kinds, ever: step%2 == 0, left: step}
				o := pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, inj), JournalBytes: 64 << 10, MemTableBytes: memTableBytes}
				openFailing(t, o, inj, injection.harmless)
				for _, disk := range []*vfs.MemFS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
					o.FS = disk
					s := open(t, o)
					checkHistory(t, s, oldHistory, oldHistory)
					mustClose(t, s)
				}
			})
		}
	}
}
