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

// LogRecord is where a record of a log was written.
type LogRecord struct {
	Path       string
	Begin, End int
	Ends       bool   // it marks the end of its segment
	Before     []byte // the file as it was before; only of what was written last
}

// Name returns the name of its file in its directory.
func (r LogRecord) Name() string { return path.Base(r.Path) }

// LogWatch is a file system in memory that knows where the records of a log lie, also when they are damaged later.
type LogWatch struct {
	*vfs.MemFS

	mu      sync.Mutex // guards what follows
	records []LogRecord
}

// OpenReadWrite is how a segment of a log is opened for writing.
func (w *LogWatch) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := w.MemFS.OpenReadWrite(name, c, opts...)
	if err != nil || !strings.HasPrefix(path.Base(name), "log-") {
		return f, err
	}
	return &watchedFile{f, name, w}, nil
}

// Written returns what was written so far and not written over since, in order.
func (w *LogWatch) Written() []LogRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

type watchedFile struct {
	vfs.File
	path  string
	watch *LogWatch
}

// The form of a segment: see package filelog.
const (
	logBlock  = 4 << 10
	logHeader = 24
	logAlign  = 8
)

// WriteAt notes the record that is written. That is done by whole blocks, of which the first may begin with records
// that are there already. A record begins at a multiple of 8 with a header, some of whose first bytes differ from
// whatever was there. A first block makes the segment another one.
func (f *watchedFile) WriteAt(p []byte, at int64) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	before := make([]byte, max(info.Size(), at+int64(len(p))))
	if _, err := f.ReadAt(before, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	same := 0
	for old := before[at:]; same < len(p) && p[same] == old[same]; same++ {
	}
	begin := same &^ (logAlign - 1)
	f.watch.mu.Lock()
	switch {
	case at < logBlock:
		f.watch.records = slices.DeleteFunc(f.watch.records, func(r LogRecord) bool { return r.Path == f.path })
	case begin+logHeader <= len(p):
		size := logHeader + int(binary.LittleEndian.Uint32(p[begin+4:]))
		if n := len(f.watch.records); n > 0 {
			f.watch.records[n-1].Before = nil
		}
		f.watch.records = append(f.watch.records, LogRecord{
			Path: f.path, Begin: int(at) + begin, End: int(at) + begin + (size+logAlign-1)&^(logAlign-1),
			Ends: binary.LittleEndian.Uint32(p[begin+20:]) == 1, Before: before,
		})
	}
	f.watch.mu.Unlock()
	return f.File.WriteAt(p, at)
}
