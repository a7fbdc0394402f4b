package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// journal is where a durable batch goes first: one write and one sync, which is all that its caller waits for. Two
// files take turns. The one in use is left when it is full and Pebble has, on stable storage, what is in the other one, which is then
// written over: a sync of what the file system need not allocate takes about half of the time.
//
// A record is a checksum of what follows (4 bytes), the length of its content (4), its number (8) and its content, a batch,
// and begins at a multiple of journalAlign. Those of one file are numbered without gaps, and each is synced before the next is
// written. So a crash can tear the last one alone, and that one has not been acknowledged.
//
// Whole blocks are written, past the page cache where the file system lets us: that halves what a sync takes. The last block of a record is
// written again with the next one, without a change to what was in it.
//
// The number is written with the secret of the directory mixed in: behind the last record lies what clients have sent earlier, and
// none of them may be able to send what passes for a record.
type journal struct {
	secret uint64
	files  [2]journalFile
	turn   int   // which one is in use
	end    int64 // where its next record goes
	next   uint64
	limit  int64
	buf    []byte // begins with what the block that the next record begins in has already
	// released is the last record that is not needed any more. Others than the writer set it.
	released atomic.Uint64
}

type journalFile struct {
	vfs.File
	last uint64        // its last record; zero: none
	size *atomic.Int64 // on stable storage. Others than the writer read it.
}

const (
	journalHeader = 16
	journalAlign  = 16
	journalBlock  = 4 << 10 // at least what a disk wants to be given, in memory and in the file
	// defaultJournalBytes is where a file of the journal is full.
	defaultJournalBytes = 4 << 20
)

func journalNames() [2]string { return [2]string{"journal-0", "journal-1"} }

// openJournal opens a journal for writing that was read, and makes its files, or makes them of full size, if need be. It begins anew: before
// anything is written, Pebble must have what was read and how long the files are, and released be set.
func openJournal(fsys vfs.FS, dir string, found journalState, limit int64) (*journal, error) {
	j := &journal{secret: found.secret, next: found.next, limit: limit}
	made := false
	for i, name := range journalNames() {
		path := fsys.PathJoin(dir, name)
		if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := makeJournalFile(fsys, path, limit); err != nil {
				return nil, errors.Join(err, j.close())
			}
			made = true
			found.size[i] = limit
		}
		f, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.files[i] = journalFile{File: f, last: found.last[i], size: new(atomic.Int64)}
		if err := lengthen(f, found.size[i], limit); err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.files[i].size.Store(max(limit, found.size[i]))
	}
	if made {
		if err := syncDir(fsys, dir); err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	return j, nil
}

// makeJournalFile makes a file of full size, so that the first syncs are as quick as the later ones.
func makeJournalFile(fsys vfs.FS, path string, size int64) error {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	for zero := make([]byte, min(size, 1<<20)); size > 0 && err == nil; size -= int64(len(zero)) {
		_, err = f.Write(zero[:min(size, int64(len(zero)))])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// lengthen writes zeros behind the end of a file, by whole blocks, up to a size, and syncs it: what a process that was killed made longer may be
// with the operating system alone.
func lengthen(f vfs.File, end, size int64) error {
	// What is left of the block that the file ends in becomes zero by itself.
	at, size := wholeBlocks(end), wholeBlocks(size)
	for zero := alignedBlocks(int(min(max(size-at, 0), 1<<20))); at < size; at += int64(len(zero)) {
		if _, err := f.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

func wholeBlocks(size int64) int64 { return (size + journalBlock - 1) &^ (journalBlock - 1) }

// sizes returns how long the files are, on stable storage.
func (j *journal) sizes() (sizes [2]int64) {
	for i := range j.files {
		sizes[i] = j.files[i].size.Load()
	}
	return sizes
}

// append makes a small batch durable.
func (j *journal) append(b *store.Batch) error {
	content := b.Bytes()
	size := int64(alignedSize(len(content)))
	if j.end+size > j.limit && j.end > 0 && j.files[1-j.turn].last <= j.released.Load() {
		j.turn, j.end = 1-j.turn, 0
	}
	start := j.end &^ (journalBlock - 1)
	at, end := int(j.end-start), int(j.end-start+size)
	blocks := j.blocks(at, end)
	record := blocks[at:end]
	binary.LittleEndian.PutUint32(record[4:], uint32(len(content))) //nolint:gosec // below directBytes
	binary.LittleEndian.PutUint64(record[8:], j.next^j.secret)
	clear(blocks[at+journalHeader+copy(record[journalHeader:], content):])
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:journalHeader+len(content)], castagnoli))
	f := &j.files[j.turn]
	if err := writeSynced(f.File, blocks, start); err != nil {
		return err
	}
	copy(j.buf, blocks[end&^(journalBlock-1):end])
	f.last = j.next
	j.end += size
	j.next++
	if size := start + int64(len(blocks)); size > f.size.Load() {
		f.size.Store(size)
	}
	return nil
}

// syncedWriter is a file that can write and sync at once.
type syncedWriter interface {
	WriteSynced(p []byte, offset int64) error
}

// writeSynced writes to stable storage, as far as the file system says.
func writeSynced(f vfs.File, p []byte, offset int64) error {
	if w, ok := f.(syncedWriter); ok {
		return w.WriteSynced(p, offset)
	}
	if _, err := f.WriteAt(p, offset); err != nil {
		return err
	}
	return f.SyncData()
}

// directFS opens files for writing past the page cache.
type directFS struct{ vfs.FS }

func (d directFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return direct(f), nil
}

// blocks returns the buffer as whole blocks that hold at least so many bytes. So many of them are kept if it has to grow.
func (j *journal) blocks(keep, size int) []byte {
	size = (size + journalBlock - 1) &^ (journalBlock - 1)
	if size > len(j.buf) {
		grown := alignedBlocks(size)
		copy(grown, j.buf[:keep])
		j.buf = grown
	}
	return j.buf[:size]
}

// alignedBlocks makes a buffer that begins at a multiple of the size of a block.
func alignedBlocks(size int) []byte {
	b := make([]byte, size+journalBlock)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (journalBlock - 1)) //nolint:gosec // looked at only
	return b[at : at+size : at+size]
}

// alignedSize returns how much room a record takes.
func alignedSize(content int) int {
	return (journalHeader + content + journalAlign - 1) &^ (journalAlign - 1)
}

// skip gives the number of the next record to a batch that Pebble has on stable storage, with all before it. What follows begins
// the other file, so that those of one file have no gap: if Pebble loses that batch, the one in front of them is told.
func (j *journal) skip() {
	j.released.Store(j.next)
	j.next++
	j.turn, j.end = 1-j.turn, 0
}

// written returns the number of the last record.
func (j *journal) written() uint64 { return j.next - 1 }

func (j *journal) close() error {
	var errs []error
	for _, f := range j.files {
		if f.File != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// journalState is what the files of a journal hold.
type journalState struct {
	batches []store.Batch
	secret  uint64
	next    uint64 // the number of the next record
	last    [2]uint64
	size    [2]int64
}

// journalRun is the records at the beginning of one file, up to the first that is not whole or is what
// the file held before it was written over.
type journalRun struct {
	data        []byte
	secret      uint64
	first, last uint64 // zero: there are none
	end         int
}

// readJournal reads the records behind the one that was applied last. Its files must be there if they are required. Whatever cannot be the work of a crash is
// an error of the kind store.ErrCorrupt.
func readJournal(fsys vfs.FS, dir string, m marker, required bool) (journalState, error) {
	var runs [2]journalRun
	state := journalState{secret: m.secret, next: m.applied + 1}
	for i, name := range journalNames() {
		data, err := readFile(fsys, fsys.PathJoin(dir, name), math.MaxInt64)
		if err != nil && (required || !errors.Is(err, fs.ErrNotExist)) {
			return state, fmt.Errorf("read the journal: %w", err)
		}
		if int64(len(data)) < m.sizes[i] {
			return state, fmt.Errorf("%w: %s has %d bytes, but had at least %d: what it held may be lost",
				store.ErrCorrupt, fsys.PathJoin(dir, name), len(data), m.sizes[i])
		}
		runs[i] = runOf(data, m.secret)
		state.last[i], state.size[i] = runs[i].last, int64(len(data))
	}
	order := [2]int{0, 1}
	if runs[1].first < runs[0].first {
		order = [2]int{1, 0}
	}
	for _, i := range order {
		r := &runs[i]
		if r.last < state.next {
			continue
		}
		if r.first > state.next {
			break // a gap, which verify below reports
		}
		batches, err := r.from(state.next)
		if err != nil {
			return state, fmt.Errorf("%s: %w", fsys.PathJoin(dir, journalNames()[i]), err)
		}
		state.batches = append(state.batches, batches...)
		state.next = r.last + 1
	}
	for i := range runs {
		if err := runs[i].verify(state.next); err != nil {
			return state, fmt.Errorf("%s: %w", fsys.PathJoin(dir, journalNames()[i]), err)
		}
	}
	return state, nil
}

// recordAt returns the number and the content of the whole record that data begins with.
func recordAt(data []byte, secret uint64) (number uint64, content []byte, ok bool) {
	if len(data) < journalHeader {
		return 0, nil, false
	}
	size := int64(binary.LittleEndian.Uint32(data[4:]))
	if size > int64(len(data)-journalHeader) {
		return 0, nil, false
	}
	end := journalHeader + int(size)
	if binary.LittleEndian.Uint32(data) != crc32.Checksum(data[4:end], castagnoli) {
		return 0, nil, false
	}
	number = binary.LittleEndian.Uint64(data[8:]) ^ secret
	return number, data[journalHeader:end:end], number > 0
}

func runOf(data []byte, secret uint64) journalRun {
	r := journalRun{data: data, secret: secret}
	for r.end < len(data) {
		number, content, ok := recordAt(data[r.end:], secret)
		if !ok || r.last != 0 && number != r.last+1 {
			break
		}
		if r.first == 0 {
			r.first = number
		}
		r.last = number
		r.end += alignedSize(len(content))
	}
	return r
}

// from returns the batches of a run from a record on.
func (r *journalRun) from(number uint64) ([]store.Batch, error) {
	var batches []store.Batch
	for at := 0; at < r.end; {
		n, content, _ := recordAt(r.data[at:], r.secret)
		at += alignedSize(len(content))
		if n < number {
			continue
		}
		b, err := store.DecodeBatch(content)
		if err != nil {
			return nil, fmt.Errorf("%w: record %d: %w", store.ErrCorrupt, n, err)
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// verify looks behind the end of a run for what a crash cannot have left: a whole record with the number that should
// come next or a later one, or one that would be whole if one bit of its first sector were another.
func (r *journalRun) verify(next uint64) error {
	if r.first > next {
		return fmt.Errorf("%w: record %d is not in the journal, but %d is", store.ErrCorrupt, next, r.first)
	}
	for at := r.end; at+journalHeader <= len(r.data); at += journalAlign {
		number := binary.LittleEndian.Uint64(r.data[at+8:]) ^ r.secret
		if number < next || number-next > journalAhead {
			continue
		}
		if _, _, ok := recordAt(r.data[at:], r.secret); ok {
			return fmt.Errorf("%w: the record at byte %d does not match its checksum, and a later one does", store.ErrCorrupt, r.end)
		}
	}
	if r.flipped(next) {
		return fmt.Errorf("%w: one bit of the record at byte %d is wrong", store.ErrCorrupt, r.end)
	}
	return nil
}

// journalAhead is how far behind a broken record others are looked for.
const journalAhead = 1 << 24

// flipped reports whether the record behind the run would be the next one with one bit changed. A crash may leave less than
// a record, but whole sectors: only what lies in the first tells the two apart.
func (r *journalRun) flipped(next uint64) bool {
	data := r.data[min(r.end, len(r.data)):]
	if len(data) < journalHeader {
		return false
	}
	header := [journalHeader]byte(data)
	defer copy(data, header[:])
	for bit := range journalHeader * 8 {
		data[bit/8] ^= 1 << (bit % 8)
		number, _, ok := recordAt(data, r.secret)
		data[bit/8] ^= 1 << (bit % 8)
		if ok && number == next {
			return true
		}
	}
	size := int64(binary.LittleEndian.Uint32(data[4:]))
	if binary.LittleEndian.Uint64(data[8:])^r.secret != next || size > int64(len(data)-journalHeader) {
		return false
	}
	end := journalHeader + int(size)
	at := wrongByte(data[4:end], binary.LittleEndian.Uint32(data)) + 4
	return at >= journalHeader && at < logSectorSize-r.end&(logSectorSize-1)
}

// wrongByte returns the index of the byte of data that, with one bit changed, gives it a checksum; negative if there is none.
// A bit makes the same difference to the checksum whatever else there is: one that depends on how many
// bytes come behind it. So all bits are tried by going from the last byte to the first.
func wrongByte(data []byte, sum uint32) int {
	wrong := sum ^ crc32.Checksum(data, castagnoli)
	var differences [8]uint32
	for i := range differences {
		differences[i] = castagnoli[1<<i]
	}
	for at := range slices.Backward(data) {
		for i, d := range differences {
			if d == wrong {
				return at
			}
			differences[i] = castagnoli[d&0xff] ^ d>>8
		}
	}
	return -1
}
