package pebblestore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// wanting is a database that wants to run so many compactions.
type wanting struct {
	mu      sync.Mutex
	wants   int
	allowed int
	runs    int
}

func (w *wanting) GetAllowedWithoutPermission() int { return w.allowed }

func (w *wanting) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wants > 0, pebble.WaitingCompaction{}
}

func (w *wanting) Schedule(pebble.CompactionGrantHandle) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wants == 0 {
		return false
	}
	w.wants--
	w.runs++
	return true
}

func (w *wanting) check(t *testing.T, runs, wants int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs != runs || w.wants != wants {
		t.Errorf("%d compactions were granted and %d wait, want %d and %d", w.runs, w.wants, runs, wants)
	}
}

func TestCompactionsWaitForBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wanting{wants: 5, allowed: 2}
		f := &fuse{}
		c := newCompactions(f)
		c.Register(2, w)
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction was granted before begin")
		}
		c.UpdateGetAllowedWithoutPermission()
		w.check(t, 0, 5)

		c.begin()
		w.check(t, 2, 3)
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a third compaction was granted, with two allowed")
		}
		c.Done()
		w.check(t, 3, 2)
		c.Done()
		c.Done()
		w.check(t, 5, 0)
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a third compaction was granted at the end, with two allowed")
		}
		c.Done()
		if ok, _ := c.TrySchedule(); !ok {
			t.Error("a second compaction was refused, with two allowed")
		}
		c.Done()
		f.blow(errors.New("disk on fire"))
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction was granted behind a blown fuse")
		}

		c.Unregister()
		c.Done()
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction was granted after the end")
		}
	})
}

// TestCompactionsAfterCrash looks for the tables of a killed process being compacted once its directory is open again.
func TestCompactionsAfterCrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := Options{Dir: "data", FS: mem, NoCompactions: true, MemTableBytes: 64 << 10}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for i := range 20 {
		var b store.Batch
		for k := range directChanges {
			b.Set(fmt.Appendf(nil, "key-%05d", k*20+i), make([]byte, 100))
		}
		if err := s.Commit(&b, true); err != nil {
			t.Fatal(err)
		}
	}
	runs := s.db.Metrics().Levels[0].Sublevels
	if runs < 6 {
		t.Fatalf("%d runs of tables, want at least 6", runs)
	}

	o.FS, o.NoCompactions = mem.CrashClone(vfs.CrashCloneCfg{}), false
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for c.db.Metrics().Levels[0].Sublevels >= 2 { // until the test's time is up
		flushed, err := c.db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		<-flushed
	}
}
