package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
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

// fileSet has the files of the data directory, by what was done to them through a guardFS: what is missing on the disk
// was taken away by somebody else. Of a file that stays open for writing it has the identity, because the writes go on
// to that file if somebody puts another one in its place.
type fileSet struct {
	identities bool     // whether files have any, which those of a file system in memory have not
	names      sync.Map // of os.FileInfo, nil without an identity
}

// begin takes the files that are there before the database is opened, but not those that somebody else has put there.
func (f *fileSet) begin(dir string, names []string) {
	for _, name := range names {
		switch {
		// The kinds of files that Pebble and the log make.
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"), filelog.IsSegment(name),
			strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"),
			strings.HasPrefix(name, "marker."), name == lockFile:
			f.add(filepath.Join(dir, name))
		}
	}
}

// add and remove follow what is done to files through a guard. The identity is taken when the file is opened: at the
// next look it may have been replaced already.
func (f *fileSet) add(path string) {
	name := filepath.Base(path)
	var first os.FileInfo
	if f.identities && isWritten(name) {
		first, _ = identity(path) // the next look says that it is not there
	}
	f.names.Store(name, first)
}

// identity returns what a path leads to now, to be compared by os.SameFile.
func identity(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		_ = os.SameFile(info, info) // some systems ask for the identity only now
	}
	return info, err
}

func (f *fileSet) remove(path string) { f.names.Delete(filepath.Base(path)) }

// has reports whether a file, the same one as before, should still be there.
func (f *fileSet) has(name string, first os.FileInfo) bool {
	now, ok := f.names.Load(name)
	return ok && now == any(first)
}

func (f *fileSet) all() map[string]os.FileInfo {
	all := map[string]os.FileInfo{}
	f.names.Range(func(name, first any) bool {
		info, _ := first.(os.FileInfo)
		all[name.(string)] = info //nolint:forcetypeassert // add stores nothing else
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
	first os.FileInfo // the directory's identity; nil on a file system without any

	looking sync.Mutex // one look at a time

	stop  chan struct{}
	ended sync.WaitGroup
}

// watch begins to watch. What is gone blows the fuse, with an error of the kind store.ErrGone.
func (s *Store) watch() error {
	w := &watcher{dir: s.dir, fs: s.fs, files: s.files, stop: make(chan struct{})}
	if s.files.identities {
		var err error
		if w.first, err = identity(s.dir); err != nil {
			return w.gone("", err)
		}
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
	if err := w.same("", w.first); err != nil {
		return w.gone("", err)
	}
	before := w.files.all()
	names, err := w.fs.List(w.dir)
	if err != nil {
		return w.gone("", err)
	}
	for _, name := range names {
		first := before[name]
		if err := w.same(name, first); err != nil && w.files.has(name, first) {
			return w.gone(name, err)
		}
		delete(before, name)
	}
	for name, first := range before {
		// Unless the database itself has removed it.
		if _, err := w.fs.Stat(w.fs.PathJoin(w.dir, name)); err != nil && w.files.has(name, first) {
			return w.gone(name, err)
		}
	}
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

// same reports as an error that a path does not lead to what it led to at first. Without an identity there is nothing
// to compare.
func (w *watcher) same(name string, first os.FileInfo) error {
	if first == nil {
		return nil
	}
	info, err := os.Stat(filepath.Join(w.dir, name))
	if err == nil && !os.SameFile(first, info) {
		err = errReplaced
	}
	return err
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
