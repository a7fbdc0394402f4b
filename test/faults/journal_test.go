package faults

import (
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// extent is where something was written to a file of the journal, and what was there before.
type extent struct {
	name       string
	begin, end int
	before     []byte // the whole file; only of what was written last
}

// journalWatch is a file system in memory that knows where the records of the journal lie, however they look.
type journalWatch struct {
	*vfs.MemFS

	mu     sync.Mutex // guards what follows
	writes []extent
}

func newJournalWatch() *journalWatch { return &journalWatch{MemFS: vfs.NewCrashableMem()} }

// OpenReadWrite is how a file of the journal is opened for writing.
func (w *journalWatch) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := w.MemFS.OpenReadWrite(name, c, opts...)
	if err != nil || !strings.HasPrefix(path.Base(name), "journal-") {
		return f, err
	}
	return &watchedFile{f, path.Base(name), w}, nil
}

// written returns what was written so far.
func (w *journalWatch) written() []extent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

type watchedFile struct {
	vfs.File
	name  string
	watch *journalWatch
}

func (f *watchedFile) WriteAt(p []byte, at int64) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	before := make([]byte, info.Size())
	if _, err := f.ReadAt(before, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	f.watch.mu.Lock()
	if n := len(f.watch.writes); n > 0 {
		f.watch.writes[n-1].before = nil
	}
	f.watch.writes = append(f.watch.writes, extent{f.name, int(at), int(at) + len(p), before})
	f.watch.mu.Unlock()
	return f.File.WriteAt(p, at)
}
