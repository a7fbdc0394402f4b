package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/store"
)

// watchEvery is how often is looked whether the files are still there. Until then what is committed goes to files that
// nobody finds again.
const watchEvery = time.Second

// fileSet has the names of the files of the data directory, by what was done to them through a
// guardFS: what is missing on the disk was taken away by somebody else.
type fileSet struct{ names sync.Map }

// begin takes the files that are there before the database is opened, but not those that somebody else has put there.
func (f *fileSet) begin(names []string) {
	for _, name := range names {
		switch {
		// The kinds of files that Pebble and the log make.
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"), filelog.IsSegment(name),
			strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"),
			strings.HasPrefix(name, "marker."), name == lockFile:
			f.add(name)
		}
	}
}

// add and remove follow what is done to files through a guard.
func (f *fileSet) add(path string) { f.names.Store(filepath.Base(path), true) }

func (f *fileSet) remove(path string) { f.names.Delete(filepath.Base(path)) }

func (f *fileSet) has(name string) bool {
	_, ok := f.names.Load(name)
	return ok
}

func (f *fileSet) all() map[string]bool {
	all := map[string]bool{}
	f.names.Range(func(name, _ any) bool {
		if name, ok := name.(string); ok {
			all[name] = true
		}
		return true
	})
	return all
}

// watcher notices that the data directory, or a file of it, was deleted, moved, unmounted or replaced. What is open can
// still be written to then, and every write succeeds.
type watcher struct {
	dir   string
	fs    vfs.FS
	files *fileSet
	// first is what the directory, under an empty name, and the files that are written to were when they were first
	// seen; nil for a file system that is not the system's own, which has no identities.
	first map[string]os.FileInfo

	looking sync.Mutex // one look at a time

	stop  chan struct{}
	ended sync.WaitGroup
}

// watch begins to watch. What is gone blows the fuse, with an error of the kind store.ErrGone.
func (s *Store) watch() error {
	w := &watcher{dir: s.dir, fs: s.fs, files: s.files, stop: make(chan struct{})}
	if vfs.Root(s.fs) == vfs.Default {
		w.first = map[string]os.FileInfo{}
	}
	if err := w.look(); err != nil {
		return err
	}
	s.watcher = w
	w.ended.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-w.stop:
				return
			}
			if err := w.look(); err != nil {
				s.fuse.blow(err)
				return
			}
		}
	})
	return nil
}

// end stops watching. A nil watcher has nothing to stop.
func (w *watcher) end() {
	if w != nil {
		close(w.stop)
		w.ended.Wait()
	}
}

// look returns an error if something is gone. A file may be removed by the database between the
// listing and here: it is asked again whether it should be there.
func (w *watcher) look() error {
	w.looking.Lock()
	defer w.looking.Unlock()
	if err := w.same(""); err != nil {
		return w.gone("", err)
	}
	before := w.files.all()
	names, err := w.fs.List(w.dir)
	if err != nil {
		return w.gone("", err)
	}
	for _, name := range names {
		// Only files that stay open for writing are compared: the writes would go on to the old
		// one.
		if before[name] && isWritten(name) {
			if err := w.same(name); err != nil && w.files.has(name) {
				return w.gone(name, err)
			}
		}
		delete(before, name)
	}
	for name := range before {
		// Unless the database itself has removed it.
		if _, err := w.fs.Stat(w.fs.PathJoin(w.dir, name)); err != nil && w.files.has(name) {
			return w.gone(name, err)
		}
	}
	maps.DeleteFunc(w.first, func(name string, _ os.FileInfo) bool { return name != "" && !w.files.has(name) })
	return nil
}

// isWritten reports whether a file stays open for writing: somebody may put another one in its place, unnoticed.
func isWritten(name string) bool {
	return filelog.IsSegment(name) || name == lockFile || strings.HasPrefix(name, "MANIFEST-")
}

// explain returns what is behind an error that tells of a file which is not there. A nil watcher has no idea.
func (w *watcher) explain(err error) error {
	if w != nil && (errors.Is(err, fs.ErrNotExist) || isErrno(err, syscall.ENOTDIR)) {
		if gone := w.look(); gone != nil {
			return gone
		}
	}
	return err
}

var errReplaced = errors.New("another one is in its place")

// same reports as an error that a path does not lead to what it led to when it was first looked at.
func (w *watcher) same(name string) error {
	if w.first == nil {
		return nil
	}
	info, err := os.Stat(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	first := w.first[name]
	if first == nil {
		_ = os.SameFile(info, info) // some systems ask for the identity only now
		w.first[name] = info
		return nil
	}
	if !os.SameFile(first, info) {
		return errReplaced
	}
	return nil
}

// gone makes the error about a file, or the directory if name is empty. There is none if it could only not be looked
// at.
func (w *watcher) gone(name string, err error) error {
	if isErrno(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR) {
		return nil
	}
	path := filepath.Join(w.dir, name)
	switch {
	case errors.Is(err, errReplaced):
		return fmt.Errorf("%s: %w: another one was put in its place: "+
			"put the first one back, or restore a backup, and start again", path, store.ErrGone)
	case errors.Is(err, fs.ErrNotExist), isErrno(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w: it was deleted, moved or unmounted: "+
			"put it back, or restore a backup, and start again", path, store.ErrGone)
	default:
		return fmt.Errorf("look whether %s is still there: %w: %s", path, err, advice(err))
	}
}
