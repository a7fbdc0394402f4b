package storetest

import (
	"encoding/binary"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// JournalRecord is where a record of a journal was written.
type JournalRecord struct {
	Path       string
	Begin, End int
	Before     []byte // the file as it was before, zero where the record has made it longer; only of what was written last
}

// Name returns the name of its file in its directory.
func (r JournalRecord) Name() string { return path.Base(r.Path) }

// Overlaps reports whether two records share some byte.
func (r JournalRecord) Overlaps(other JournalRecord) bool {
	return r.Path == other.Path && r.Begin < other.End && other.Begin < r.End
}

// JournalWatch is a file system in memory that knows where the records of a journal lie, also when they are damaged later.
type JournalWatch struct {
	*vfs.MemFS

	mu      sync.Mutex // guards what follows
	records []JournalRecord
}

// OpenReadWrite is how a file of a journal is opened for writing.
func (w *JournalWatch) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := w.MemFS.OpenReadWrite(name, c, opts...)
	if err != nil || !strings.HasPrefix(path.Base(name), "journal-") {
		return f, err
	}
	return &watchedFile{f, name, w}, nil
}

// Written returns what was written so far.
func (w *JournalWatch) Written() []JournalRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

type watchedFile struct {
	vfs.File
	path  string
	watch *JournalWatch
}

// WriteAt notes the record that is written. That is done by whole blocks, of which the first may begin with records that are there already. A record
// begins at a multiple of 16 bytes with a header of 16, some of which differ from whatever was there, and has the length of the rest at byte 4.
func (f *watchedFile) WriteAt(p []byte, at int64) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	before := make([]byte, max(info.Size(), at+int64(len(p))))
	if _, err := f.ReadAt(before, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	const header = 16
	same := 0
	for old := before[at:]; same < len(p) && p[same] == old[same]; same++ {
	}
	begin := same &^ (header - 1)
	size := header + int(binary.LittleEndian.Uint32(p[begin+4:]))
	r := JournalRecord{Path: f.path, Begin: int(at) + begin, End: int(at) + begin + (size+header-1)&^(header-1), Before: before}
	f.watch.mu.Lock()
	if n := len(f.watch.records); n > 0 {
		f.watch.records[n-1].Before = nil
	}
	f.watch.records = append(f.watch.records, r)
	f.watch.mu.Unlock()
	return f.File.WriteAt(p, at)
}
