package filelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/store"
)

// What follows is all damage that is not told. It can not be told from what a crash leaves. Only who knows that a
// record was safe, and says so when the log is opened, is told of it; TestDamageThatIsNotTold checks that as well.
//
//   - In mode Fsync, the last record of the last segment, if it is damaged in any way, and those right before it if
//     they are damaged as well. One
//     whole record tells of all before it. A log that is opened begins a new segment, which tells of all that was read,
//     so that only what was appended
//     since then can be lost.
//   - In modes Interval and None, the first damaged record of the last segment that was appended behind the last sync,
//     and all behind it, damaged or
//     not. The last sync is the one that some whole record behind the damage knows of. A segment is synced before the
//     next one is begun.
//   - In all modes, an earlier copy of the last segment, or of the whole directory, in place of the newer one, which
//     loses what was appended since.
//   - Two at once: the last segment missing, or its header damaged, and the mark at the end of the segment before
//     damaged too.
//   - Damage that leaves the checksum right, which one in four thousand million does if it changes more than 32 bits.
//
// Damage of these bytes loses nothing, and is not told: the rest of the block that the header is in, the up to 7 bytes
// behind a record, the mark at the end of a segment (alone), what is behind that or behind the last record, segments
// whose records are all below what is asked for, and spare segments.

const damageRecords = 26

// small and large are sizes of records: five small ones fit into a segment.
const (
	small = 700
	large = 10_001
)

// damageable writes a log of several segments, one of them larger than the others, of which the last one has several
// records. In the modes that do not sync by themselves all but the last three are synced. The log is killed.
func damageable(t *testing.T, mode commitlog.Mode, id uint64) (*vfs.MemFS, knowledge) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	o := options(mem, mode)
	o.ID = id
	create(t, o)
	l, err := Open(o, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	know := knowledge{contents: map[uint64][]byte{}, newest: damageRecords}
	for n := uint64(1); n <= damageRecords; n++ {
		size := small + int(n%9) // so that there is something between the records
		if n == 8 {
			size = large
		}
		know.contents[n] = bytes.Repeat([]byte{byte(n)}, size)
		if err := logtest.Append(l, n, know.contents[n]); err != nil {
			t.Fatal(err)
		}
		if n == damageRecords-3 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk := mem.CrashClone(kept(100, rand.New(rand.NewPCG(1, 1))))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, know
}

// place is where a record or the end of a segment is.
type place struct {
	begin, end int // without what fills it up to a multiple of 8
	number     uint64
	kind       uint32
}

// layout returns what is in a segment.
func (s *segment) layout(data []byte) (places []place) {
	for at := blockSize; at < len(data); {
		r, ok := recordAt(data[at:], s.salt)
		if !ok {
			break
		}
		places = append(places, place{at, at + recordHeader + len(r.content), r.number, r.kind})
		at += int(recordSize(len(r.content)))
	}
	return places
}

func fileData(t *testing.T, fsys *vfs.MemFS, name string) []byte {
	t.Helper()
	data, err := fsys.UnsafeGetFileDataBuffer(memDir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func segments(t *testing.T, fsys vfs.FS) (used, free []*segment) {
	t.Helper()
	used, free, err := list(fsys, memDir)
	if err != nil {
		t.Fatal(err)
	}
	return used, free
}

// outcome is what becomes of a damaged log: the records from there on are lost without a word.
type outcome uint64

const (
	complete outcome = 0
	told     outcome = 1 << 63
)

func (o outcome) String() string {
	switch o {
	case complete:
		return "everything is read"
	case told:
		return "it is told"
	default:
		return fmt.Sprintf("record %d and those behind it are lost without a word", uint64(o))
	}
}

// read reads a log from a number on that had all that is known. What is read must be right in any case.
func (k knowledge) read(t *testing.T, disk vfs.FS, from, safe uint64) outcome {
	t.Helper()
	var last uint64
	err := Read(disk, memDir, testID, from, safe, k.visit(&last, from))
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return told
	case err != nil:
		t.Error(err)
		return told
	case last < k.newest:
		return outcome(last + 1)
	}
	return complete
}

// TestFlippedBits changes one bit of each byte in turn, of some at least, and expects what the comment above says.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		t.Run(mode.Name, func(t *testing.T) {
			t.Parallel()
			disk, know := damageable(t, mode.Mode, testID)
			synced := uint64(damageRecords - 1)
			if mode.Mode != commitlog.Fsync {
				synced = damageRecords - 3
			}
			used, free := segments(t, disk)
			rng, seen := rand.New(rand.NewPCG(3, 3)), map[string]int{}
			for _, from := range []uint64{1, damageRecords - 1, damageRecords, damageRecords + 1} {
				first := lastIndex(used, func(s *segment) bool { return s.first <= from })
				for i, s := range slices.Concat(used, free) {
					data := fileData(t, disk, s.name)
					places := s.layout(data)
					var step int
					for at := 0; at < len(data); at += 1 + rng.IntN(step) {
						region, want := "nothing", complete
						if at < len(magic)+44 {
							region, want = "header", told
						}
						for _, p := range places {
							switch {
							case at < p.begin || at >= p.end:
							case p.kind == kindEnd:
								region = "end"
							case i < len(used)-1:
								region, want = "record that has an end", told
							case from > damageRecords:
								region = "record that is not needed"
							case p.number <= synced:
								region, want = "record that is vouched for", told
							default:
								region, want = "last record", outcome(max(p.number, from))
							}
						}
						if i < first || i >= len(used) {
							region, want = "segment that is not needed", complete
						}
						switch step = 60; {
						case region == "header", region == "end":
							step = 2
						case want == complete:
							step = 200
						}
						bit := byte(1 << rng.IntN(8))
						data[at] ^= bit
						got := know.read(t, disk, from, 0)
						data[at] ^= bit
						if seen[region]++; got != want {
							t.Fatalf("from %d: byte %d of %s flipped, in a %s: %v, want: %v\n%+v", from, at, s.name,
								region, got, want, places)
						}
					}
				}
			}
			t.Log(seen)
			if len(seen) != 8 {
				t.Errorf("only these were flipped: %v", seen)
			}
		})
	}
}

// TestLostBlocks sets sectors and blocks to zero: records are lost without a word only if each of them was damaged, and
// they are the last.
func TestLostBlocks(t *testing.T) {
	t.Parallel()
	disk, know := damageable(t, commitlog.Fsync, testID)
	used, _ := segments(t, disk)
	silent := 0
	for i, s := range used {
		data := fileData(t, disk, s.name)
		places := s.layout(data)
		end := places[len(places)-1].end
		for _, size := range []int{512, blockSize, 2 * blockSize} {
			for at := 0; at+size <= len(data); at += size {
				before := bytes.Clone(data[at : at+size])
				clear(data[at : at+size])
				got := know.read(t, disk, 1, 0)
				copy(data[at:], before)
				last := i == len(used)-1 && at >= blockSize && at < end && at+size > places[len(places)-1].begin
				switch {
				case last && got != told && got != complete:
					silent++
					for _, p := range places {
						if p.number >= uint64(got) && (p.begin >= at+size || p.end <= at) {
							t.Errorf("%d bytes at %d of %s are zero: %v, although record %d is whole", size, at,
								s.name, got, p.number)
						}
					}
				case got != told && (at < end && at > blockSize && i < len(used)-1 &&
					at < places[len(places)-2].end || got != complete):
					t.Errorf("%d bytes at %d of %s are zero: %v", size, at, s.name, got)
				}
			}
		}
	}
	if silent == 0 {
		t.Error("the end of the log was never zero")
	}
}

// TestDamageThatIsNotTold damages a log as the comment above lists: it is read without its end, unless the caller knows
// better.
func TestDamageThatIsNotTold(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		for name, damage := range map[string]func(disk *vfs.MemFS, used []*segment) (lost uint64){
			"zeros": func(disk *vfs.MemFS, used []*segment) uint64 {
				s := used[len(used)-1]
				clear(fileData(t, disk, s.name)[blockSize:])
				return s.first
			},
			"all but the first": func(disk *vfs.MemFS, used []*segment) uint64 {
				s := used[len(used)-1]
				data := fileData(t, disk, s.name)
				clear(data[s.layout(data)[1].begin:])
				return s.first + 1
			},
			"missing, and not told": func(disk *vfs.MemFS, used []*segment) uint64 {
				s, before := used[len(used)-1], used[len(used)-2]
				data := fileData(t, disk, before.name)
				places := before.layout(data)
				data[places[len(places)-1].begin] ^= 1
				if err := disk.Remove(memDir + "/" + s.name); err != nil {
					t.Error(err)
				}
				return s.first
			},
		} {
			disk, know := damageable(t, mode.Mode, testID)
			used, _ := segments(t, disk)
			lost := damage(disk, used)
			if got := know.read(t, disk, 1, 0); got != outcome(lost) {
				t.Errorf("%s, %s: %v, want that %d is lost: the list has to be changed", mode.Name, name, got, lost)
			}
			if got := know.read(t, disk, 1, lost); got != told {
				t.Errorf("%s, %s: the caller knows of record %d: %v", mode.Name, name, lost, got)
			}
		}
	}
}

// TestLostSegments takes each segment away, cuts it, puts one of another log in its place, or another one of its own.
// That is told unless nobody needs the segment.
func TestLostSegments(t *testing.T) {
	t.Parallel()
	cut := func(length func(size int) int) func(t *testing.T, disk *vfs.MemFS, s *segment) {
		return func(t *testing.T, disk *vfs.MemFS, s *segment) {
			t.Helper()
			data := fileData(t, disk, s.name)
			// A spare may not be whole yet.
			writeFile(t, disk, s.name, bytes.Clone(data[:min(max(length(len(data)), 0), len(data))]))
		}
	}
	foreign, _ := damageable(t, commitlog.Fsync, testID+1)
	for name, lose := range map[string]func(t *testing.T, disk *vfs.MemFS, s *segment){
		"missing": func(t *testing.T, disk *vfs.MemFS, s *segment) {
			t.Helper()
			if err := disk.Remove(memDir + "/" + s.name); err != nil {
				t.Fatal(err)
			}
		},
		"empty":          cut(func(int) int { return 0 }),
		"one byte":       cut(func(int) int { return 1 }),
		"header only":    cut(func(int) int { return blockSize }),
		"half":           cut(func(size int) int { return size / 2 }),
		"one block less": cut(func(size int) int { return size - blockSize }),
		"one byte less":  cut(func(size int) int { return size - 1 }),
		"zero": func(t *testing.T, disk *vfs.MemFS, s *segment) {
			t.Helper()
			clear(fileData(t, disk, s.name))
		},
		"foreign": func(t *testing.T, disk *vfs.MemFS, s *segment) {
			t.Helper()
			others, _ := segments(t, foreign)
			writeFile(t, disk, s.name, bytes.Clone(fileData(t, foreign, others[0].name)))
		},
		"another": func(t *testing.T, disk *vfs.MemFS, s *segment) {
			t.Helper()
			others, _ := segments(t, disk)
			i := slices.IndexFunc(others, func(o *segment) bool { return o.name != s.name })
			writeFile(t, disk, s.name, bytes.Clone(fileData(t, disk, others[i].name)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed, know := damageable(t, commitlog.Fsync, testID)
			for what, disk := range map[string]*vfs.MemFS{
				"killed":       killed,
				"opened again": reopened(t, killed, commitlog.Fsync),
			} {
				used, free := segments(t, disk)
				if len(used) < 5 {
					t.Fatalf("there are only %d segments", len(used))
				}
				for _, from := range []uint64{1, 6, 9, damageRecords, damageRecords + 1} {
					first := lastIndex(used, func(s *segment) bool { return s.first <= from })
					for i, s := range slices.Concat(used, free) {
						clone := disk.CrashClone(vfs.CrashCloneCfg{})
						lose(t, clone, s)
						want := told
						switch needed := i >= first && i < len(used); {
						case needed, name == "foreign":
						// It is a copy of one that is needed.
						case name == "another" && (i > 0 && first == 0 || i == 0 && first == 1):
						default:
							want = complete
						}
						if got := know.read(t, clone, from, 0); got != want {
							t.Errorf("%s, read from %d on, %s, which begins with %d: %v, want: %v", what, from, s.name,
								s.first, got, want)
						}
						l, err := Open(options(clone, commitlog.Fsync), from, 0,
							func(uint64, []byte) error { return nil })
						if (err == nil) != (want == complete) || err != nil && !errors.Is(err, store.ErrCorrupt) {
							t.Errorf("%s, opened from %d on, %s, which begins with %d: %v", what, from,
								s.name, s.first, err)
						}
						if err == nil {
							mustClose(t, l)
						}
					}
				}
			}
		})
	}
}

// TestOverlappingSegments turns the end of a segment into a record that the next one has as well. Whoever can do that
// can do anything, but no record is read in place of another without a word.
func TestOverlappingSegments(t *testing.T) {
	t.Parallel()
	disk, _ := damageable(t, commitlog.Fsync, testID)
	used, _ := segments(t, disk)
	s := used[len(used)-2]
	data := fileData(t, disk, s.name)
	places := s.layout(data)
	end := places[len(places)-1]
	record{number: end.number, unsynced: 1}.put(data[end.begin:end.end], s.salt)
	if err := Read(disk, memDir, testID, 1, 0, func(uint64, []byte) error { return nil }); !errors.Is(err,
		store.ErrCorrupt) {
		t.Errorf("two segments have record %d: %v", end.number, err)
	}
}

// reopened returns a disk on which the log was opened once more.
func reopened(t *testing.T, disk *vfs.MemFS, mode commitlog.Mode) *vfs.MemFS {
	t.Helper()
	disk = disk.CrashClone(vfs.CrashCloneCfg{})
	l, err := Open(options(disk, mode), 1, 0, func(uint64, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	return disk
}

// TestLastRecordAfterReopening damages the last record when the log was opened once more behind it, in any mode: now it
// is vouched for.
func TestLastRecordAfterReopening(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		disk, know := damageable(t, mode.Mode, testID)
		disk = reopened(t, disk, mode.Mode)
		used, _ := segments(t, disk)
		s := used[len(used)-2]
		data := fileData(t, disk, s.name)
		places := s.layout(data)
		last := places[len(places)-2]
		if last.number != damageRecords || places[len(places)-1].kind != kindEnd {
			t.Fatalf("%s ends with %+v", s.name, places)
		}
		for at := last.begin; at < last.end; at += 5 {
			data[at] ^= 0x10
			if got := know.read(t, disk, 1, 0); got != told {
				t.Errorf("%s: byte %d of the last record flipped: %v", mode.Name, at-last.begin, got)
			}
			data[at] ^= 0x10
		}
		if got := know.read(t, disk, 1, 0); got != complete {
			t.Errorf("%s, undamaged: %v", mode.Name, got)
		}
	}
}

// TestTornSectors lets a crash write any sectors of the last record and not the others: nothing but that record may be
// missed.
func TestTornSectors(t *testing.T) {
	t.Parallel()
	const sector = 512
	rng := rand.New(rand.NewPCG(4, 4))
	disk := vfs.NewCrashableMem()
	o := options(disk, commitlog.Fsync)
	o.SegmentBytes = 64 << 10
	create(t, o)
	know := knowledge{contents: map[uint64][]byte{}}
	var l *Log
	open := func() {
		t.Helper()
		var last uint64
		var err error
		if l, err = Open(o, 1, know.safe, know.visit(&last, 1)); err != nil || last < know.safe {
			t.Fatal(last, err)
		}
	}
	open()
	whole, torn := 0, 0
	for _, size := range []int{0, 1, 400, 600, 3000, 4072, 5000, 100, 9000, 16, 12_000, 300, 300} {
		data := fileData(t, disk, l.current.name)
		before := bytes.Clone(data)
		segment := l.current.name
		know.newest++
		know.contents[know.newest] = bytes.Repeat([]byte{byte(size), byte(know.newest), 1}, size)[:size]
		if err := logtest.Append(l, know.newest, know.contents[know.newest]); err != nil || segment != l.current.name {
			t.Fatal(err, "or another segment")
		}
		after := bytes.Clone(data)
		first := 0
		for bytes.Equal(before[first:first+sector], after[first:first+sector]) {
			first += sector
		}
		for range 60 {
			order := rng.Perm(len(data) / sector)
			copy(data, before)
			for _, n := range order[:rng.IntN(len(order))] {
				copy(data[n*sector:(n+1)*sector], after[n*sector:])
			}
			copy(data[first:], [][]byte{before, after}[rng.IntN(2)][first:first+sector])
			switch got := know.read(t, disk, 1, know.newest-1); {
			case got == complete:
				whole++
			case got == outcome(know.newest):
				torn++
			default:
				t.Fatalf("record %d of %d bytes is torn: %v", know.newest, size, got)
			}
		}
		copy(data, after)
		know.safe = know.newest
	}
	mustClose(t, l)
	open()
	mustClose(t, l)
	if whole == 0 || torn == 0 {
		t.Errorf("%d records were there as a whole, %d were not", whole, torn)
	}
}

// TestReadOfDamaged damages the files of a log that is open: whoever reads it is told.
func TestReadOfDamaged(t *testing.T) {
	t.Parallel()
	disk, know := damageable(t, commitlog.Fsync, testID)
	l, err := Open(options(disk, commitlog.Fsync), 1, 0, func(uint64, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, l)
	know.newest++
	know.contents[know.newest] = []byte("in a segment of its own")
	if err := logtest.Append(l, know.newest, know.contents[know.newest]); err != nil {
		t.Fatal(err)
	}
	used, _ := segments(t, disk)
	for _, s := range used {
		data := fileData(t, disk, s.name)
		for _, p := range s.layout(data) {
			if p.kind == kindEnd {
				continue
			}
			data[p.end-1] ^= 1
			for _, from := range []uint64{1, p.number, p.number + 1} {
				var last uint64
				err := l.Read(from, know.visit(&last, from))
				if !errors.Is(err, store.ErrCorrupt) && (err != nil || last < know.newest) || err == nil &&
					from <= p.number {
					t.Errorf("record %d is damaged: those from %d on are read up to %d: %v", p.number, from, last, err)
				}
			}
			data[p.end-1] ^= 1
		}
	}
}

func mustClose(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Error(err)
	}
}

func writeFile(tb testing.TB, fsys vfs.FS, name string, p []byte) {
	tb.Helper()
	f, err := fsys.Create(fsys.PathJoin(memDir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := f.Write(p); err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		tb.Fatal(err)
	}
}
