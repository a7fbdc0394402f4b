package filelog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/plant"
	"millrace/internal/store"
)

const (
	// blockSize is what files are written in: at least what a disk wants to be given, in memory and in the file.
	blockSize    = 4 << 10
	recordHeader = 24
	recordAlign  = 8
	kindRecord   = 0
	kindEnd      = 1
	magic        = "millrace log 1\n\x00"
	namePrefix   = "log-"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IsSegment reports whether a file of that name is a segment.
func IsSegment(name string) bool {
	_, ok := slotOf(name)
	return ok
}

// Remove removes the segments of a directory that nobody writes to.
func Remove(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if IsSegment(name) {
			if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	return SyncDir(fsys, dir)
}

// slotOf returns the number in the name of a segment. It has nothing to do with the numbers of
// records: files are used again.
func slotOf(name string) (slot int, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	slot, err := strconv.Atoi(rest)
	return slot, ok && err == nil && slot > 0
}

// segment is one file of a log.
type segment struct {
	name  string
	size  int64  // of the file, or what its header says
	id    uint64 // of the log
	first uint64 // number of its first record; zero: it has none and may be used
	begun uint64 // how many segments were begun before it
	salt  uint64
}

// header returns the first block of a segment, with a checksum, so that one that is half written
// counts as none.
func (s *segment) header() []byte {
	block := alignedBlocks(blockSize)
	b := append(block[:0], magic...)
	size := uint64(s.size) //nolint:gosec // sizes are not negative
	for _, n := range []uint64{s.id, s.first, s.begun, s.salt, size} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return block
}

// parseHeader reads the first block of a segment. Without a whole header the segment is one that
// may be used: it was made and never begun, or a crash has torn its header.
func (s *segment) parseHeader(block []byte) {
	const size = len(magic) + 5*8
	if len(block) < size+4 || string(block[:len(magic)]) != magic ||
		binary.LittleEndian.Uint32(block[size:]) != crc32.Checksum(block[:size], castagnoli) {
		return
	}
	length := int64(binary.LittleEndian.Uint64(block[size-8:])) //nolint:gosec // a negative one is refused
	// The checksum is right, and still a size that no segment has would be used to read the file.
	if length < 2*blockSize || length%blockSize != 0 {
		return
	}
	s.size = length
	at := len(magic)
	for _, field := range []*uint64{&s.id, &s.first, &s.begun, &s.salt} {
		*field = binary.LittleEndian.Uint64(block[at:])
		at += 8
	}
}

// list returns the segments of a directory: those in use in the order of their records, and those that may be used.
func list(fsys vfs.FS, dir string) (used, free []*segment, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !IsSegment(name) {
			continue
		}
		path := fsys.PathJoin(dir, name)
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		block, err := read(fsys, path, blockSize)
		if err != nil {
			return nil, nil, err
		}
		s := &segment{name: name, size: info.Size()}
		if s.parseHeader(block); s.first > 0 {
			used = append(used, s)
		} else {
			free = append(free, s)
		}
	}
	slices.SortFunc(used, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.begun, b.begun))
	})
	return used, free, nil
}

// read returns the beginning of a file, at most sizeMax bytes. What a header says about the size of
// its file is not believed.
func read(fsys vfs.FS, path string, sizeMax int64) ([]byte, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := make([]byte, min(sizeMax, info.Size()))
	n, err := f.ReadAt(p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], errors.Join(err, f.Close())
}

// record is one record as it lies in a file.
type record struct {
	number   uint64
	unsynced uint32
	kind     uint32
	content  []byte
}

// recordAt returns the whole record that data begins with. The content points into data. The number
// is not checked: with a wrong salt it is one that nobody expects.
func recordAt(data []byte, salt uint64) (r record, ok bool) {
	if len(data) < recordHeader {
		return r, false
	}
	size := int64(binary.LittleEndian.Uint32(data[4:]))
	if size > int64(len(data)-recordHeader) ||
		binary.LittleEndian.Uint32(data) != crc32.Checksum(data[4:recordHeader+size], castagnoli) {
		return r, false
	}
	return record{
		number:   binary.LittleEndian.Uint64(data[8:]) ^ salt,
		unsynced: binary.LittleEndian.Uint32(data[16:]),
		kind:     binary.LittleEndian.Uint32(data[20:]),
		content:  data[recordHeader : recordHeader+size : recordHeader+size],
	}, true
}

// put writes a record to p, which is as long as recordSize says. The bytes up to the alignment are
// cleared, because p is used again.
func (r record) put(p []byte, salt uint64) {
	binary.LittleEndian.PutUint32(p[4:], uint32(len(r.content))) //nolint:gosec // Append has looked
	binary.LittleEndian.PutUint64(p[8:], r.number^salt)
	binary.LittleEndian.PutUint32(p[16:], r.unsynced)
	binary.LittleEndian.PutUint32(p[20:], r.kind)
	n := recordHeader + copy(p[recordHeader:], r.content)
	clear(p[n:])
	binary.LittleEndian.PutUint32(p, crc32.Checksum(p[4:n], castagnoli))
}

// recordSize returns how much room a record takes.
func recordSize(content int) int64 {
	return int64(recordHeader+content+recordAlign-1) &^ (recordAlign - 1)
}

// tail is where the records of a segment end.
type tail struct {
	last  uint64 // number of the last record; one less than the first if there is none
	at    int64  // where it ends
	ended bool   // the end is marked
	data  []byte // all of the segment
}

// scan visits the records of a segment from a number on, and returns where they end: at the mark,
// or at the first that is not whole or not the next one. Whether the latter is damage is for the
// caller to say. It reads the whole file into memory.
func (s *segment) scan(fsys vfs.FS, dir string, from uint64, visit commitlog.Visit) (t tail, err error) {
	path := fsys.PathJoin(dir, s.name)
	t = tail{last: s.first - 1, at: blockSize}
	if t.data, err = read(fsys, path, s.size); err != nil {
		return t, err
	}
	if int64(len(t.data)) < s.size {
		return t, fmt.Errorf("%w: %s has %d bytes, but had %d: what it held may be lost",
			store.ErrCorrupt, path, len(t.data), s.size)
	}
	for {
		r, ok := recordAt(t.data[t.at:], s.salt)
		// What a segment held in an earlier life has another salt, and so another number.
		if !ok || r.number != t.last+1 {
			return t, nil
		}
		if t.ended = r.kind == kindEnd; t.ended {
			return t, nil
		}
		t.last, t.at = r.number, t.at+recordSize(len(r.content))
		if r.number >= from {
			if err := visit(r.number, r.content); err != nil {
				return t, fmt.Errorf("%s: record %d: %w", path, r.number, err)
			}
		}
	}
}

// ahead is how far behind a broken record others are looked for, in numbers: what looks like a
// record with another number is content.
const ahead = 1 << 24

// promised looks behind the tail for whole records that tell that more had been written. It returns
// the last record of which one of them says that it was on stable storage, and the last one that
// was there. Every place where a record could begin is tried, because where the broken one ends is
// not known.
func (s *segment) promised(t tail) (synced, last uint64) {
	for at := t.at; at+recordHeader <= int64(len(t.data)); at += recordAlign {
		n := binary.LittleEndian.Uint64(t.data[at+8:]) ^ s.salt
		if n <= t.last || n-t.last > ahead {
			continue
		}
		if r, ok := recordAt(t.data[at:], s.salt); ok && !plant.NotLookedBehind.On() {
			synced = max(synced, r.number-min(r.number, uint64(r.unsynced)))
			if r.kind == kindEnd {
				// The mark of the end has the number that the next record would have.
				r.number--
			}
			last = max(last, r.number)
		}
	}
	return synced, last
}

// chain is what a directory has of a log from a number on.
type chain struct {
	used, free []*segment
	first      uint64   // of the first one that was read
	current    *segment // the last one
	tail       tail     // of it
}

// readChain reads the records from a number on, segment by segment. Up to the number safe they were
// on stable storage, or are not needed any more. Everything that a crash cannot have caused is
// refused as damage: copies, overlaps, gaps, a missing successor, a torn record that was promised.
// The error of a log that is not there at all wraps fs.ErrNotExist.
func readChain(fsys vfs.FS, dir string, id, from, safe uint64, visit commitlog.Visit) (c chain, err error) {
	if c.used, c.free, err = list(fsys, dir); err != nil {
		return c, err
	}
	foreign := slices.IndexFunc(c.used, func(s *segment) bool { return s.id != id })
	if foreign >= 0 {
		return c, fmt.Errorf("%w: %s belongs to another log",
			store.ErrCorrupt, fsys.PathJoin(dir, c.used[foreign].name))
	}
	at := lastIndex(c.used, func(s *segment) bool { return s.first <= from })
	if at < 0 {
		return c, fmt.Errorf("%w: no segment of the log has record %d: %w", store.ErrCorrupt, from, fs.ErrNotExist)
	}
	c.first = c.used[at].first
	for {
		s := c.used[at]
		copied := slices.IndexFunc(c.used, func(o *segment) bool {
			return o != s && o.first == s.first && o.begun == s.begun
		})
		if copied >= 0 {
			return c, fmt.Errorf("%w: %s and %s are copies of one segment of the log",
				store.ErrCorrupt, fsys.PathJoin(dir, s.name), c.used[copied].name)
		}
		t, err := s.scan(fsys, dir, from, visit)
		if err != nil {
			return c, err
		}
		c.current, c.tail = s, t
		if over := slices.IndexFunc(c.used[at+1:], func(o *segment) bool { return o.first <= t.last }); over >= 0 {
			return c, fmt.Errorf("%w: %s and %s hold the same records of the log",
				store.ErrCorrupt, fsys.PathJoin(dir, s.name), c.used[at+1+over].name)
		}
		// The last of those that begin with the number: an earlier one was begun and left by a
		// crash.
		next := lastIndex(c.used, func(s *segment) bool { return s.first == t.last+1 })
		if next > at {
			at = next
			continue
		}
		path := fsys.PathJoin(dir, s.name)
		synced, last := s.promised(t)
		switch {
		case t.ended && !plant.MissingUntold.On():
			return c, fmt.Errorf("%w: behind %s the segment of the log with record %d is missing",
				store.ErrCorrupt, path, t.last+1)
		case slices.ContainsFunc(c.used, func(s *segment) bool { return s.first > t.last+1 }),
			synced > t.last && last >= from, t.last < safe && !plant.EarlyEndUntold.On():
			return c, fmt.Errorf("%w: record %d at byte %d of %s is not whole, but was on stable storage",
				store.ErrCorrupt, t.last+1, t.at, path)
		}
		return c, nil
	}
}

// lastIndex returns the index of the last segment for which is holds, or -1.
func lastIndex(list []*segment, is func(*segment) bool) int {
	for i, s := range slices.Backward(list) {
		if is(s) {
			return i
		}
	}
	return -1
}

// Read reads the records of a log that nobody writes to, from a number on. Up to the number safe they were on stable
// storage, or are not needed any more: without them the log is damaged.
func Read(fsys vfs.FS, dir string, id, from, safe uint64, visit commitlog.Visit) error {
	_, err := readChain(fsys, dir, id, from, safe, visit)
	return err
}

// Begun reports whether a directory has a log that has records, or had some that were trimmed.
func Begun(fsys vfs.FS, dir string) (bool, error) {
	used, _, err := list(fsys, dir)
	if err != nil {
		return false, err
	}
	for _, s := range used {
		t, err := s.scan(fsys, dir, math.MaxUint64, nil)
		if err != nil || s.first > 1 || t.last > 0 {
			return true, err
		}
	}
	return false, nil
}
