package pebblestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// fileFailure fails some operations on files whose names begin in some way, while it is on.
type fileFailure struct {
	prefix string
	kinds  []errorfs.OpKind

	mu sync.Mutex // guards on
	on bool
}

func (f *fileFailure) String() string { return "file failure" }

func (f *fileFailure) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || !strings.HasPrefix(path.Base(op.Path), f.prefix) {
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

// forgedRecord is what a client may put into a job: bytes that a journal without a secret would take for a record of its own.
func forgedRecord(number uint64, b *store.Batch) []byte {
	p := make([]byte, 16, 16+b.Size())
	p = append(p, b.Bytes()...)
	binary.LittleEndian.PutUint32(p[4:], uint32(b.Size()))
	binary.LittleEndian.PutUint64(p[8:], number)
	binary.LittleEndian.PutUint32(p, crc32.Checksum(p[4:], crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// TestForgedRecords pushes values that look like records of the journal, as a client may, and writes over the records that they are in: what is
// left of them is neither read as a change nor taken for damage.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	var evil store.Batch
	evil.Set([]byte("evil"), []byte("yes"))
	for _, number := range []uint64{2, 3, 4, 1000} {
		// Wherever the value lies in its record, one of these lies where a record may begin.
		var value []byte
		for range 16 {
			value = append(value, forgedRecord(number, &evil)...)
			value = append(value, make([]byte, 64+17-len(value)%16)...)
		}
		for range 60 {
			value = append(value, forgedRecord(number, &evil)...)
			value = append(value, make([]byte, -len(value)&15)...)
		}
		for shift := range 16 {
			mem := vfs.NewCrashableMem()
			o := pebblestore.Options{Dir: memDir, FS: mem, JournalBytes: 4 << 10}
			s := open(t, o)
			storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("v"), append(make([]byte, shift), value...)) })
			mustClose(t, s)
			for n := range 3 {
				s, err := pebblestore.Open(o)
				if err != nil {
					t.Fatalf("record %d forged, at %d: opening %d: %v", number, shift, n, err)
				}
				if v, ok, err := s.Get(nil, []byte("evil")); ok || err != nil {
					t.Fatalf("record %d forged, at %d: it was read: %q, %v", number, shift, v, err)
				}
				storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("k"), fmt.Append(nil, n)) })
				mustClose(t, s)
			}
		}
	}
}

// TestRecordThatWasNotSynced ends a store at the sync of its journal. The file system still has the record, and a store that is opened
// again reads it: what is acknowledged from then on builds on it, so that a loss of power must not take it away.
func TestRecordThatWasNotSynced(t *testing.T) {
	t.Parallel()
	for _, fill := range []int{0, 1, 2, 3, 4} {
		mem := vfs.NewCrashableMem()
		f := &fileFailure{prefix: "journal-", kinds: syncKinds}
		o := pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, f), JournalBytes: 4 << 10}
		s := open(t, o)
		n := 0
		for range fill {
			n++
			storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, n) })
		}
		f.set(true)
		var b store.Batch
		historyBatch(&b, n+1)
		b.Set([]byte("noise"), make([]byte, 10<<10)) // which makes the file longer
		if err := s.Commit(&b, true); !errors.Is(err, errInjected) {
			t.Fatalf("the sync has failed, and the commit says %v", err)
		}
		_ = s.Close() // which tells of it once more
		f.set(false)
		s = open(t, o)
		n = checkHistory(t, s, n, n+1)
		if n == fill {
			t.Fatal("the record is not there, so that this test tells nothing")
		}
		before := mem.CrashClone(vfs.CrashCloneCfg{}) // what was read may have been told to somebody
		n++
		storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, n) })
		after := mem.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		for least, disk := range map[int]*vfs.MemFS{n - 1: before, n: after} {
			s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: disk})
			if err != nil {
				t.Errorf("with %d batches before it, after a loss of power behind batch %d: %v", fill, least, err)
				continue
			}
			checkHistory(t, s, least, least)
			mustClose(t, s)
		}
	}
}

// TestDeletedToTheEnd deletes everything by a batch that is not durable, the journal's own key with it if nothing is done about that: what was
// applied before must not come back.
func TestDeletedToTheEnd(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		mem := vfs.NewCrashableMem()
		s := open(t, pebblestore.Options{Dir: memDir, FS: mem})
		holds := func(want map[string]string) {
			t.Helper()
			after, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			if err != nil {
				t.Fatalf("durable %t: %v", durable, err)
			}
			sameAsMap(t, after, want)
			mustClose(t, after)
		}
		storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("gone"), []byte("1")) })
		storetest.Commit(t, s, durable, func(b *store.Batch) { b.DeleteRange(nil, []byte("\xff\xff")) })
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		holds(map[string]string{})
		storetest.Commit(t, s, true, func(b *store.Batch) { b.Set([]byte("kept"), []byte("2")) })
		holds(map[string]string{"kept": "2"})
		mustClose(t, s)
	}
}

// TestReadsAfterFailure lets nothing of a table be written that Pebble then believes to have: whoever reads it
// is told what has failed, not that the data is damaged.
func TestReadsAfterFailure(t *testing.T) {
	t.Parallel()
	failure := &fileFailure{kinds: []errorfs.OpKind{errorfs.OpFileWrite}}
	s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(vfs.NewMem(), failure), MemTableBytes: unwidened})
	storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, 1) })
	failure.set(true)
	if err := s.Reclaim(); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil { // until the table is there that is not
		_, _, err = s.Get(nil, []byte("last"))
	}
	if !errors.Is(err, errInjected) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %v", err)
	}
	if err := s.Scan(store.Range{}, func(_, _ []byte) bool { return true }); !errors.Is(err, errInjected) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Scan: %v", err)
	}
	if err := s.Close(); !errors.Is(err, errInjected) {
		t.Errorf("Close: %v", err)
	}
}

// TestSnapshotAfterFailure lets the sync of Pebble's log fail while commits go on: a snapshot that is taken then
// has everything that was acknowledged, or is refused. So has whoever reads the store itself.
func TestSnapshotAfterFailure(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	begun, end := make(chan struct{}), make(chan struct{})
	slow := &slowSync{begun: begun, end: end}
	o := pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, slow), JournalBytes: 4 << 10}
	s := open(t, o)
	slow.arm()
	n := 0
	commit := func() {
		n++
		storetest.Commit(t, s, true, func(b *store.Batch) { historyBatch(b, n) })
	}
	for range 8 {
		commit() // until the journal is full, and Pebble is to apply it
	}
	<-begun
	commit()
	commit() // acknowledged, while Pebble's log is being synced
	close(end)
	var b store.Batch
	b.Set([]byte("k"), nil)
	for s.Commit(&b, true) == nil { // until it is known that the sync has failed
	}
	checkHistory(t, s, n, n)
	for range 3 {
		snap, err := s.Snapshot()
		if err != nil {
			continue
		}
		last, _, err := snap.Get(nil, []byte("last"))
		if err != nil || string(last) != fmt.Sprint(n) {
			t.Errorf("a snapshot has %q batches, want %d: %v", last, n, err)
		}
		mustClose(t, snap)
	}
	if err := s.Close(); !errors.Is(err, errInjected) {
		t.Errorf("Close: %v", err)
	}
	s = open(t, pebblestore.Options{Dir: memDir, FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	checkHistory(t, s, n, n)
	mustClose(t, s)
}

// TestReadWhileApplied reads while Pebble is applying what was gathered and more has been gathered since: what is newer
// counts.
func TestReadWhileApplied(t *testing.T) {
	t.Parallel()
	slow := &slowSync{begun: make(chan struct{}), end: make(chan struct{}), harmless: true}
	s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(vfs.NewMem(), slow), JournalBytes: 4 << 10})
	model := map[string]string{}
	commit := func(keys, value string) {
		storetest.Commit(t, s, true, func(b *store.Batch) {
			for k := range strings.FieldsSeq(keys) {
				b.Set([]byte(k), []byte(value))
				model[k] = value
			}
		})
	}
	commit("a1 b1 c1 d1 e1 f1 g1", "oldest")
	snap, err := s.Snapshot() // Pebble has these
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, snap)
	slow.arm()
	commit("a1 b1 c1 c2 d1 e2 g1 g2", "older")
	commit("z", strings.Repeat("z", 5<<10)) // now the journal is full: Pebble is given what there is
	<-slow.begun
	commit("a1 e1 e2 g3", "newest")
	storetest.Commit(t, s, true, func(b *store.Batch) {
		b.Delete([]byte("b1"))
		b.DeleteRange([]byte("c"), []byte("d"))
		b.DeleteRange([]byte("g2"), []byte("h"))
		b.Set([]byte("c2"), []byte("again"))
	})
	for _, k := range []string{"b1", "c1", "g2", "g3"} {
		delete(model, k)
	}
	model["c2"] = "again"
	sameAsMap(t, s, model)
	close(slow.end)
	sameAsMap(t, s, model)
	if snap, err = s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	sameAsMap(t, snap, model)
	mustClose(t, snap)
	mustClose(t, s)
}

// slowSync lets the first sync of a log of Pebble's wait, and then fail unless it is harmless.
type slowSync struct {
	begun, end chan struct{}
	harmless   bool
	mu         sync.Mutex // guards armed
	armed      bool
}

func (s *slowSync) String() string { return "slow sync" }

func (s *slowSync) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
}

func (s *slowSync) MaybeError(op errorfs.Op) error {
	if !strings.HasSuffix(op.Path, ".log") || !slices.Contains(syncKinds, op.Kind) {
		return nil
	}
	s.mu.Lock()
	armed := s.armed
	s.armed = false
	s.mu.Unlock()
	if !armed {
		return nil
	}
	close(s.begun)
	<-s.end
	if s.harmless {
		return nil
	}
	return errInjected
}
