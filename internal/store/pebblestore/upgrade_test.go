package pebblestore_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/test/tier"
)

const oldHistory = 301

var wantMarker = fmt.Sprintf("millrace data directory\nformat %d\n", pebblestore.FormatVersion)

// oldDirectory returns a directory as a release with an earlier format has left it when it was killed: with tables, a
// log of Pebble's, and from format 2 on a journal that has the last batches.
func oldDirectory(t *testing.T, format int) *vfs.MemFS {
	t.Helper()
	const secret = 0x1234567890abcdef
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll(memDir, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(memDir, &pebble.Options{
		FS: mem, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: memTableBytes, Logger: quiet{},
	})
	if err != nil {
		t.Fatal(err)
	}
	inPebble := oldHistory
	if format > 1 {
		inPebble -= 40
	}
	for n := 1; n <= inPebble; n++ {
		pb := db.NewBatch()
		var b store.Batch
		historyBatch(&b, n)
		b.Each(func(op store.Op, key, value []byte) bool {
			switch {
			case op.Sets():
				err = pb.Set(key, value, nil)
			case op == store.OpDeleteRange:
				err = pb.DeleteRange(key, value, nil)
			default:
				err = pb.Delete(key, nil)
			}
			return err == nil
		})
		if err == nil && format > 1 {
			marker := binary.BigEndian.AppendUint64(nil, uint64(n))
			marker = binary.BigEndian.AppendUint64(marker, secret)
			if format > 2 {
				marker = append(marker, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40, 0)
			}
			err = pb.Set([]byte("\xffjournal"), marker, nil)
		}
		if err == nil {
			err = db.Apply(pb, pebble.Sync)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, db)
	if format > 1 {
		var files [2][]byte
		for n := inPebble - 5; n <= oldHistory; n++ { // the first are left from before
			var b store.Batch
			historyBatch(&b, n)
			r := binary.LittleEndian.AppendUint64(make([]byte, 8, 16+b.Size()), uint64(n)^secret)
			r = append(r, b.Bytes()...)
			binary.LittleEndian.PutUint32(r[4:], uint32(b.Size()))
			binary.LittleEndian.PutUint32(r, crc32.Checksum(r[4:], crc32.MakeTable(crc32.Castagnoli)))
			r = append(r, make([]byte, -len(r)&15)...)
			turn := min(1, n/(oldHistory-19))
			files[turn] = append(files[turn], r...)
		}
		for i, p := range files {
			writeFile(t, mem, fmt.Sprint(memDir, "/journal-", i), append(p, make([]byte, 0x8000-len(p))...))
		}
	}
	writeFile(t, mem, memDir+"/FORMAT", fmt.Appendf(nil, "millrace data directory\nformat %d\n", format))
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// TestUpgrade opens directories of earlier formats: for reading, which leaves it as it is, and for writing, with a
// crash at every change on the way. Whatever was reached, everything is there, and the next opening completes it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for format := 1; format < pebblestore.FormatVersion; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, format)
		})
	}
}

func testUpgrade(t *testing.T, format int) {
	t.Helper()
	mem := oldDirectory(t, format)
	before := contentOf(t, mem)
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, ReadOnly: true})
	checkHistory(t, s, oldHistory, oldHistory)
	mustClose(t, s)
	if after := contentOf(t, mem); len(after) != len(before) {
		t.Errorf("reading leaves %d files of %d", len(after), len(before))
	}
	// Not a part of what was not synced: Pebble itself relies on a new manifest being there when its marker is.
	for _, percent := range []int{0, 100} {
		mem := oldDirectory(t, format)
		c := &crashes{
			mem: mem, every: tier.Pick(1, 5), durable: oldHistory, newest: oldHistory,
			config: func(seed uint64) vfs.CrashCloneCfg {
				return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}
			},
		}
		s := open(t, pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, c), MemTableBytes: memTableBytes})
		for n := oldHistory + 1; n <= oldHistory+20; n++ {
			c.commit(t, s, n, true)
		}
		mustClose(t, s)
		if p := readFile(t, mem, memDir+"/FORMAT"); string(p) != wantMarker {
			t.Errorf("the marker says %q", p)
		}
		converted := 0
		for i, crash := range c.all {
			if had := newFormat(t, crash.fs); had != "" {
				marker := readFile(t, crash.fs, memDir+"/FORMAT")
				if string(marker) != wantMarker {
					t.Fatalf("%d%% kept, crash %d: there is %s, but the marker says %q", percent, i, had, marker)
				}
				converted++
			}
			s, err := pebblestore.Open(pebblestore.Options{
				Dir: memDir, FS: crash.fs, SegmentBytes: 64 << 10,
				MemTableBytes: memTableBytes,
			})
			if err != nil {
				t.Fatalf("%d%% kept, crash %d: %v", percent, i, err)
			}
			n := checkHistory(t, s, crash.durable, crash.newest)
			storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n+1) })
			mustClose(t, s)
		}
		if converted == 0 || converted == len(c.all) {
			t.Errorf("%d%% kept: %d of %d crashes have something of the new format", percent, converted, len(c.all))
		}
	}
}

// newFormat names something that only the new format has and that is in a directory: a segment of the log, or the
// position in the database. An earlier release knows neither and would take the journal for the newest there is, so the
// marker must keep it away by then.
func newFormat(t *testing.T, mem *vfs.MemFS) string {
	t.Helper()
	for name := range contentOf(t, mem) {
		if strings.HasPrefix(name, "log-") {
			return name
		}
	}
	db, err := pebble.Open(memDir, &pebble.Options{FS: mem, ReadOnly: true, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("\xffposition")})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, it)
	if it.First() {
		return "a position"
	}
	return ""
}

// TestUpgradeFailsCleanly injects errors into the opening of such a directory: the next one works.
func TestUpgradeFailsCleanly(t *testing.T) {
	t.Parallel()
	for _, injection := range injections {
		for step := range 16 {
			format := 1 + step%3
			t.Run(fmt.Sprintf("%s/%d", injection.name, step), func(t *testing.T) {
				t.Parallel()
				mem := oldDirectory(t, format)
				inj := &injector{kinds: injection.kinds, ever: step%2 == 0, left: step}
				o := pebblestore.Options{
					Dir: memDir, FS: storetest.Hooked(mem, inj), SegmentBytes: 64 << 10,
					MemTableBytes: memTableBytes,
				}
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
