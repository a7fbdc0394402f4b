package filelog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/plant"
	"millrace/internal/store"
	"millrace/internal/timing"
)

const (
	defaultSegmentBytes = 4 << 20
	// keptBytes is how much of what was trimmed stays, in segments, to be used again.
	keptBytes = 64 << 20
)

// Options say where a log is and when its records count as written.
type Options struct {
	FS  vfs.FS
	Dir string
	ID  uint64 // of the log, so that segments of another one are told
	// Mode is when a record counts as written, Every how long it takes with commitlog.Interval until it is synced.
	Mode  commitlog.Mode
	Every time.Duration
	// SegmentBytes is the size of a segment; zero means 4 MiB.
	SegmentBytes int64
}

// Log is a log that is open for writing. Open and Create make one. One goroutine appends; others
// may sync, trim and read beside it. Lock order: fileMu before mu. The first error is final: after
// it nothing is known about what is on the disk, so that nothing more is written.
type Log struct {
	o      Options
	joined uint64 // first record of the segment from which on they follow each other without gaps

	// What follows belongs to whoever appends.
	current *segment
	at      int64  // where its next record goes
	buf     []byte // begins with what the block that the next record begins in has already

	written atomic.Uint64 // the last record
	safe    atomic.Uint64 // the last one that is on stable storage

	file   vfs.File   // of current; changed by whoever appends
	fileMu sync.Mutex // held when file is changed and while another goroutine uses it

	mu     sync.Mutex // guards what follows
	used   []*segment // in the order of their records
	free   []*segment
	slots  int         // the largest number of a segment
	making bool        // a spare one is being made
	err    error       // the first
	timer  *time.Timer // of the sync that will come; nil: none
	closed bool

	ended   sync.WaitGroup // what runs in the background: a sync to come, a segment that is being made
	syncs   timing.Shared
	slowest atomic.Int64
}

var _ commitlog.Log = (*Log)(nil)

// Create makes a log whose first record will have the given number, in a directory that has none, and leaves it closed.
func Create(o Options, first uint64) error {
	_, f, err := newLog(o).begin(first, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open opens a log for writing and visits its records from a number on. Up to the number safe they
// were on stable storage, or are not needed any more: without them the log is damaged. What is
// appended goes into a new segment, because what a crash has left behind the last record must not
// come back.
func Open(o Options, from, safe uint64, visit commitlog.Visit) (*Log, error) {
	c, err := readChain(o.FS, o.Dir, o.ID, from, safe, visit)
	if err != nil {
		return nil, err
	}
	// What was read may be with the operating system alone, and the header of the segment behind it says that it is
	// not.
	if err := syncFile(o.FS, o.FS.PathJoin(o.Dir, c.current.name)); err != nil {
		return nil, err
	}
	l, err := start(o, c.used, c.free, max(c.tail.last+1, from))
	if err != nil {
		return nil, err
	}
	if err := l.endEarlier(c); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	// The state is ahead of the log: without fsync a power loss may take records from the log whose
	// changes Pebble has flushed. The records in between are nowhere, and are not needed.
	if l.joined = c.first; c.tail.last+1 < from {
		l.joined = from
	}
	return l, nil
}

// newLog returns a log with the defaults of its options, and nothing open.
func newLog(o Options) *Log {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	o.SegmentBytes = wholeBlocks(max(o.SegmentBytes, 2*blockSize))
	return &Log{o: o}
}

// start begins a segment behind those that were found, and takes over the free ones that have the
// right size.
func start(o Options, used, free []*segment, next uint64) (*Log, error) {
	l := newLog(o)
	l.used = slices.Clone(used)
	for _, s := range slices.Concat(used, free) {
		slot, _ := slotOf(s.name)
		l.slots = max(l.slots, slot)
	}
	// A free segment is as good as a new one only if it has the right size and is on stable
	// storage.
	for _, s := range free {
		path := o.FS.PathJoin(o.Dir, s.name)
		if s.size == l.o.SegmentBytes {
			// Who made it may have been killed before it was on stable storage.
			if err := syncFile(o.FS, path); err != nil {
				return nil, err
			}
			l.free = append(l.free, s)
			continue
		}
		// It was never whole, or made when another size was wanted.
		if err := o.FS.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := SyncDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	l.written.Store(next - 1)
	s, f, err := l.begin(next, 0)
	if err != nil {
		return nil, err
	}
	if err := l.switchTo(s, f); err != nil {
		return nil, err
	}
	l.safe.Store(next - 1)
	return l, nil
}

// endEarlier marks the ends of the segments that were there when the log was read. A crash may have
// left several without one: the last that has records, and those that were begun behind it and have
// none. Without the mark nobody would miss the segment that is written to now, and what begins like
// that one could be taken for it. It goes backward and stops at the first that is marked: all
// before that are.
func (l *Log) endEarlier(c chain) error {
	for _, s := range slices.Backward(c.used) {
		// It was begun by an earlier start and never got a record: two segments must not begin with
		// the same number.
		if s.first == l.current.first {
			if err := l.discard(s); err != nil {
				return err
			}
			continue
		}
		t := c.tail
		if s != c.current {
			var err error
			t, err = s.scan(l.o.FS, l.o.Dir, math.MaxUint64, nil)
			if errors.Is(err, store.ErrCorrupt) {
				return nil // nobody needs it, and who would go on behind it is told
			}
			if err != nil {
				return err
			}
		}
		if t.ended {
			// Who marked it may have been killed before the mark was on stable storage.
			return syncFile(l.o.FS, l.o.FS.PathJoin(l.o.Dir, s.name))
		}
		if err := l.end(s, t); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a segment. Its header is overwritten and synced before: the removal alone may be
// undone by a crash, and nobody may take the segment for one that is used.
func (l *Log) discard(s *segment) error {
	path := l.o.FS.PathJoin(l.o.Dir, s.name)
	f, err := l.o.FS.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(l.writeSynced(f, alignedBlocks(blockSize), 0), f.Close()); err != nil {
		return err
	}
	l.mu.Lock()
	l.used = slices.DeleteFunc(l.used, func(u *segment) bool { return u == s })
	l.mu.Unlock()
	return l.o.FS.Remove(path)
}

// end marks the end of a segment of which all records are on stable storage. It writes the block in
// which the last record ends again, because files are written in whole blocks.
func (l *Log) end(s *segment, t tail) error {
	f, err := l.o.FS.OpenReadWrite(l.o.FS.PathJoin(l.o.Dir, s.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	start := t.at &^ (blockSize - 1)
	blocks := alignedBlocks(2 * blockSize)
	n := copy(blocks, t.data[start:t.at])
	record{number: t.last + 1, unsynced: 1, kind: kindEnd}.put(blocks[n:n+recordHeader], s.salt)
	err = l.writeSynced(f, blocks[:min(int64(len(blocks)), s.size-start)], start)
	return errors.Join(err, f.Close())
}

// Depth implements commitlog.Log: a record is written when the one before is.
func (l *Log) Depth() int { return 1 }

// Read implements commitlog.Log. It reads beside the goroutine that appends, without a lock:
// segments may be trimmed and used again meanwhile. Each record has a checksum with the salt of its
// segment, so that what was overwritten is noticed, and the list of segments tells then whether
// that is damage or trimming.
func (l *Log) Read(from uint64, visit commitlog.Visit) error {
	last := l.written.Load()
	if from > last {
		return nil
	}
	l.mu.Lock()
	used := slices.Clone(l.used)
	l.mu.Unlock()
	at := lastIndex(used, func(s *segment) bool { return s.first <= from })
	if at < 0 {
		return trimmed(used[0].first, from)
	}
	for i, s := range used[at:] {
		var visited error
		t, err := s.scan(l.o.FS, l.o.Dir, from, func(number uint64, content []byte) error {
			if number <= last {
				visited = visit(number, content)
			}
			return visited
		})
		if visited != nil || err == nil && t.last >= last {
			return err
		}
		next := last + 1
		if at+i+1 < len(used) {
			next = used[at+i+1].first
		}
		if err == nil && t.last+1 == next {
			continue
		}
		l.mu.Lock()
		first, gone := l.used[0].first, !slices.Contains(l.used, s)
		l.mu.Unlock()
		switch {
		// The order of the cases matters: what looks like damage is none if the segment is not ours
		// any more.
		case gone: // it was trimmed meanwhile, and perhaps used again
			return trimmed(first, from)
		case next <= l.joined: // it was trimmed in an earlier life
			return trimmed(next, from)
		case err == nil:
			path := l.o.FS.PathJoin(l.o.Dir, s.name)
			err = fmt.Errorf("%w: record %d at byte %d of %s is not whole", store.ErrCorrupt, t.last+1, t.at, path)
		}
		return err
	}
	return nil
}

// trimmed is the error of a read that asks for records which were trimmed.
func trimmed(first, from uint64) error {
	return fmt.Errorf("%w: it begins with record %d, and %d is needed", commitlog.ErrTrimmed, first, from)
}

// Safe implements commitlog.Log.
func (l *Log) Safe() uint64 { return l.safe.Load() }

// Append implements commitlog.Log.
func (l *Log) Append(content []byte, done func(number uint64, err error)) {
	number := l.written.Load() + 1
	err := l.append(number, content)
	if err != nil {
		err = l.fail(fmt.Errorf("append to the log: %w", err))
	}
	done(number, err)
}

// append writes one record, in a new segment if the current one has no room for it and for the mark
// of its end. Written is raised when the file has it, safe when it is on stable storage.
func (l *Log) append(number uint64, content []byte) error {
	if err := l.failed(); err != nil {
		return err
	}
	if len(content) > math.MaxUint32 {
		return fmt.Errorf("a record of %d bytes is too long", len(content))
	}
	if size := recordSize(len(content)); l.at+size+recordHeader > l.current.size {
		if err := l.roll(size); err != nil {
			return err
		}
	}
	if err := l.write(record{number: number, kind: kindRecord, content: content}); err != nil {
		return err
	}
	l.written.Store(number)
	switch l.o.Mode {
	case commitlog.Fsync:
		l.raiseSafe(number)
	case commitlog.Interval:
		l.syncLater()
	case commitlog.None:
	}
	return nil
}

// write writes a record, and syncs it if the mode says so. Whole blocks are written, so that the
// block in which the record begins is written again with what it has already; buf keeps its
// content. A crash may tear the write: the records before are the same bytes as before, and the
// checksum of the new one tells.
func (l *Log) write(r record) error {
	// It promises that all before are on stable storage, apart from this many: a reader that finds
	// the record and misses one of those knows that it is damage and no crash.
	r.unsynced = uint32(min(r.number-l.safe.Load(), math.MaxUint32))
	start := l.at &^ (blockSize - 1)
	from, to := int(l.at-start), int(l.at-start+recordSize(len(r.content)))
	blocks := l.blocks(from, to)
	r.put(blocks[from:to], l.current.salt)
	clear(blocks[to:])
	var err error
	if l.o.Mode == commitlog.Fsync && !plant.RecordUnsynced.On() {
		err = l.writeSynced(l.file, blocks, start)
	} else {
		_, err = l.file.WriteAt(blocks, start)
	}
	if err != nil {
		return err
	}
	copy(l.buf, blocks[to&^(blockSize-1):to])
	l.at = start + int64(to)
	return nil
}

// roll leaves the current segment for another one that has room for a record. The order is the one
// that doc.go promises: all of the old one is synced, the new one is begun, the end of the old one
// is marked and synced. A crash in between leaves an unused segment behind the last record, or a
// marked end with its successor, and nothing that could be taken for damage.
func (l *Log) roll(size int64) error {
	if err := plant.Or(l.Sync, plant.SegmentUnsynced, l.failed)(); err != nil {
		return err
	}
	s, f, err := l.begin(l.written.Load()+1, size)
	if err != nil {
		return err
	}
	if !plant.EndUnmarked.On() {
		err = l.write(record{number: l.written.Load() + 1, kind: kindEnd})
	}
	if err == nil && l.o.Mode != commitlog.Fsync {
		err = l.sync(l.file.SyncData)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return l.switchTo(s, f)
}

// begin makes a segment ready that begins with a number and has room for a record. It is not used
// yet. A record may be longer than a segment: then it gets one of its own size.
func (l *Log) begin(first uint64, size int64) (*segment, vfs.File, error) {
	s, err := l.take(wholeBlocks(max(l.o.SegmentBytes, blockSize+size+recordHeader)))
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	var begun uint64
	for _, u := range l.used {
		// Of segments that begin with the same record the one that was begun last counts.
		begun = max(begun, u.begun+1)
	}
	l.mu.Unlock()
	// Somebody may still read what it was.
	s = &segment{name: s.name, size: s.size, id: l.o.ID, first: first, begun: begun}
	s.salt = plant.Or(NewID(), plant.SameSalt, l.o.ID)
	f, err := l.o.FS.OpenReadWrite(l.o.FS.PathJoin(l.o.Dir, s.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, nil, err
	}
	if l.o.Mode == commitlog.Fsync {
		f = direct(f)
	}
	if err := l.writeSynced(f, s.header(), 0); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return s, f, nil
}

// switchTo makes a segment the current one, and has a spare one made if there is none left. fileMu
// is held, because Sync may be using the file on another goroutine.
func (l *Log) switchTo(s *segment, f vfs.File) error {
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.current, l.at = f, s, blockSize
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = append(l.used, s)
	if len(l.free) == 0 && !l.making {
		l.making = true
		l.ended.Go(l.makeSpare)
	}
	return err
}

// take returns a segment of at least a size that may be used: a free one, or a new one, for which
// the caller has to wait.
func (l *Log) take(size int64) (*segment, error) {
	l.mu.Lock()
	if n := len(l.free); n > 0 && size <= l.free[n-1].size {
		s := l.free[n-1]
		l.free = l.free[:n-1]
		l.mu.Unlock()
		return s, nil
	}
	l.mu.Unlock()
	return l.makeSegment(size)
}

// makeSegment makes a file of full size, on stable storage. It is written with zeros, because a
// file with holes would have to allocate blocks when it is written to, and each sync would write
// metadata as well.
func (l *Log) makeSegment(size int64) (*segment, error) {
	l.mu.Lock()
	l.slots++
	s := &segment{name: fmt.Sprintf("%s%d", namePrefix, l.slots), size: size}
	l.mu.Unlock()
	f, err := l.o.FS.Create(l.o.FS.PathJoin(l.o.Dir, s.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if l.o.Mode == commitlog.Fsync {
		f = direct(f) // else what is written later would have to take it out of the page cache
	}
	for zero := alignedBlocks(int(min(size, 1<<20))); size > 0 && err == nil; size -= int64(len(zero)) {
		_, err = f.Write(zero[:min(size, int64(len(zero)))])
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return s, SyncDir(l.o.FS, l.o.Dir)
}

// makeSpare makes a segment when there is none to go on with, so that nobody who appends has to wait for that. An
// error, such as a full disk, is final, and whoever appends next is told.
func (l *Log) makeSpare() {
	s, err := l.makeSegment(l.o.SegmentBytes)
	if err != nil {
		_ = l.fail(fmt.Errorf("make a segment of the log: %w", err))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free, l.making = append(l.free, s), false
}

// SyncDir has the entries of a directory on stable storage: without it a crash may take back the
// creation or the renaming of a file.
func SyncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncOSDir is SyncDir in the file system of the machine. It does nothing on Windows, where os.File.Sync fails for
// a directory.
func SyncOSDir(dir string) error { return SyncDir(vfs.Default, dir) }

// syncFile has the content of a file on stable storage that an earlier process may have written.
func syncFile(fsys vfs.FS, path string) error {
	f, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncLater has the log synced after the interval. One timer serves all records that come before it
// ends.
func (l *Log) syncLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil || plant.IntervalUnsynced.On() {
		return
	}
	l.ended.Add(1)
	l.timer = time.AfterFunc(l.o.Every, func() {
		defer l.ended.Done()
		l.mu.Lock()
		l.timer = nil
		l.mu.Unlock()
		_ = l.Sync() // which is remembered, and told to who appends next
	})
}

// Sync implements commitlog.Log. Written is read before the sync begins: a record that is appended
// meanwhile may not be in it.
func (l *Log) Sync() error {
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	written := l.written.Load()
	if written == l.safe.Load() {
		return nil
	}
	if err := l.sync(l.file.SyncData); err != nil {
		return l.fail(fmt.Errorf("sync the log: %w", err))
	}
	l.raiseSafe(written)
	return nil
}

// raiseSafe notes that the records up to a number are on stable storage. Another goroutine may know more.
func (l *Log) raiseSafe(number uint64) {
	for {
		known := l.safe.Load()
		if number <= known || l.safe.CompareAndSwap(known, number) {
			return
		}
	}
}

// syncedWriter is a file that can write and sync at once.
type syncedWriter interface {
	WriteSynced(p []byte, offset int64) error
}

// writeSynced writes to stable storage, as far as the file system says: in one system call where
// the file can do it.
func (l *Log) writeSynced(f vfs.File, p []byte, offset int64) error {
	return l.sync(func() error {
		if w, ok := f.(syncedWriter); ok {
			return w.WriteSynced(p, offset)
		}
		if _, err := f.WriteAt(p, offset); err != nil {
			return err
		}
		return f.SyncData()
	})
}

// sync counts how long a sync takes.
func (l *Log) sync(do func() error) error {
	began := time.Now()
	err := do()
	took := time.Since(began)
	l.syncs.Observe(took)
	l.slowest.Store(max(l.slowest.Load(), int64(took)))
	return err
}

// Trim implements commitlog.Log. Only whole segments go, and never the current one. Their files
// stay to be used again, as far as keptBytes says: their content stays as it is, and the new salt
// of a segment that is used again makes it worthless.
func (l *Log) Trim(number uint64) error {
	var gone []*segment
	l.mu.Lock()
	room := keptBytes / l.o.SegmentBytes
	// A segment may go when the next one begins at or before what is needed.
	for len(l.used) > 1 && l.used[plant.Or(1, plant.TrimmedTooFar, 0)].first-1 <= number {
		s := l.used[0]
		l.used = slices.Delete(l.used, 0, 1)
		// One that was made for a single long record is of no use to others.
		if s.size == l.o.SegmentBytes && int64(len(l.free)) < room {
			l.free = append(l.free, s)
		} else {
			gone = append(gone, s)
		}
	}
	l.mu.Unlock()
	for _, s := range gone {
		if err := l.o.FS.Remove(l.o.FS.PathJoin(l.o.Dir, s.name)); err != nil {
			return fmt.Errorf("trim the log: %w", err)
		}
	}
	return nil
}

// Stats implements commitlog.Log.
func (l *Log) Stats() commitlog.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := commitlog.Stats{Syncs: l.syncs.Load(), SyncMax: time.Duration(l.slowest.Load())}
	for _, s := range l.used {
		st.Untrimmed += uint64(s.size) //nolint:gosec // sizes are not negative
	}
	st.Bytes = st.Untrimmed
	for _, s := range l.free {
		st.Bytes += uint64(s.size) //nolint:gosec // as above
	}
	return st
}

// failed returns the first error, or nil.
// Every operation asks it first.
func (l *Log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fail makes an error final, unless there is one already, and returns the first.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return l.err
}

var errClosed = fmt.Errorf("log: %w", store.ErrClosed)

// Close implements commitlog.Log. It syncs what the interval has not, ends the timer, waits for a segment that is being
// made, and makes every later call fail.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	l.closed = true
	// A timer that has fired counts itself down.
	if l.timer != nil && l.timer.Stop() {
		l.ended.Done()
	}
	l.mu.Unlock()
	err := l.Sync()
	l.ended.Wait()
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	_ = l.fail(errClosed)
	return errors.Join(err, l.file.Close())
}

// NewID returns a number that nobody can guess: the identity of a log, or the salt of a segment.
func NewID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// wholeBlocks rounds a size up to whole blocks.
func wholeBlocks(size int64) int64 { return (size + blockSize - 1) &^ (blockSize - 1) }

// blocks returns buf, grown to at least size bytes and a whole number of blocks. If it has to grow,
// its first keep bytes are kept.
func (l *Log) blocks(keep, size int) []byte {
	size = int(wholeBlocks(int64(size)))
	if size > len(l.buf) {
		grown := alignedBlocks(size)
		copy(grown, l.buf[:keep])
		l.buf = grown
	}
	return l.buf[:size]
}

// alignedBlocks makes a buffer that begins at a multiple of the size of a block, which direct
// writes ask for.
func alignedBlocks(size int) []byte {
	b := make([]byte, size+blockSize)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (blockSize - 1)) //nolint:gosec // looked at only
	return b[at : at+size : at+size]
}
