package pebblestore

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fuse remembers the first error after which nothing more may be acknowledged. The disk keeps what it had then, which
// is a state that opening knows: that of a crash. The process says why and ends.
type fuse struct {
	first atomic.Pointer[error] // nil while the fuse is whole

	// ended is closed when Pebble itself has met an error. Nobody waits for it any more then, not even to close it.
	ended     chan struct{}
	endedOnce sync.Once

	mu      sync.Mutex // guards what follows, and makes the first error the only one
	armed   bool
	onFatal func(error)
	explain func(error) error // returns what is behind an error
}

// newFuse returns a whole fuse. It calls neither function before it is armed.
func newFuse(onFatal func(error), explain func(error) error) *fuse {
	return &fuse{ended: make(chan struct{}), onFatal: onFatal, explain: explain}
}

// end blows the fuse with an error that Pebble has met, and never returns: Pebble would go on with
// what it knows to be wrong, try again without end, or panic. Whoever may wait for Pebble watches
// ended as well. It holds no lock of its own that others need while it writes.
func (f *fuse) end(err error) {
	f.blow(err)
	f.endedOnce.Do(func() { close(f.ended) })
	select {}
}

// opening reports whether Open has not returned.
func (f *fuse) opening() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.armed
}

// err returns the error that blew the fuse, or nil.
func (f *fuse) err() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// cause returns what is behind an error of opening: what blew the fuse, if something did, because other errors only
// follow from that.
func (f *fuse) cause(err error) error {
	if first := f.err(); first != nil {
		return first
	}
	return err
}

// blow makes err final unless there is one already. OnFatal runs under the lock, so that there is
// one call, and must return soon.
func (f *fuse) blow(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err() != nil {
		return
	}
	if f.armed {
		err = f.explain(err)
	}
	f.first.Store(&err)
	if f.armed {
		f.onFatal(err)
	}
}

// arm lets later errors reach onFatal; what Open itself runs into it returns. An error that came
// before arm is returned by it.
func (f *fuse) arm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
	return f.err()
}

// guardFS blows a fuse with the first error of a change below one directory, and makes no change after that. Reads and
// everything outside, such as the files of a checkpoint, pass through. So do changes of kinds that Pebble, without a
// log of its own and without tables from elsewhere, makes only there: links, files that are used again, the removal of
// directories.
type guardFS struct {
	vfs.FS
	guard
	dir   string
	files *fileSet // those of dir
}

// guard is what is done about an error. Where ends is set, for Pebble's own files, Pebble is not
// shown the error, because it would panic or try again without end: the goroutine that meets it
// stays where it is. The log is shown its errors.
type guard struct {
	fuse *fuse
	ends bool
}

// Lock locks nothing. The store has the lock of the directory, and gives it up also if Pebble has met an error.
func (*guardFS) Lock(string) (io.Closer, error) { return noLock{}, nil }

// List must not be seen to fail while Pebble is being opened, as a change must not: Pebble would give up what the
// statistics of its tables, which it collects beside the opening, are read with, and end the process.
func (g *guardFS) List(name string) ([]string, error) {
	names, err := g.FS.List(name)
	if err != nil && g.ends && g.guards(name) && g.fuse.opening() {
		g.fuse.end(writeError("list", name, err))
	}
	return names, err
}

// guards reports whether name is our data. Pebble builds every name from the
// directory that it was given, so a comparison of prefixes is enough.
func (g *guardFS) guards(name string) bool {
	rest, ok := strings.CutPrefix(name, g.dir)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == os.PathSeparator)
}

// do makes one change unless the fuse is blown: after the first error nothing changes on the disk
// any more, so that a start finds what a crash would have left.
func (g guard) do(op, name string, change func() error) error {
	err := g.fuse.err()
	if err == nil {
		if err = change(); err != nil {
			err = writeError(op, name, err)
			g.fuse.blow(err)
		}
	}
	if err != nil && g.ends {
		g.fuse.end(err)
	}
	return err
}

// result makes one change as guard.do does, and returns what it returns.
func result[T any](g guard, op, name string, change func() (T, error)) (v T, err error) {
	err = g.do(op, name, func() error {
		v, err = change()
		return err
	})
	return v, err
}

// writeError names the file, and says what to do about a full disk.
func writeError(op, name string, err error) error {
	if isFull(err) {
		return fmt.Errorf("%s %s: the disk is full: free some space, and start again: %w", op, name, err)
	}
	return fmt.Errorf("%s %s: %w", op, name, err)
}

// open opens a file for writing. Its name is known to the watcher from then on.
func (g *guardFS) open(op, name string, do func() (vfs.File, error)) (vfs.File, error) {
	if !g.guards(name) {
		return do()
	}
	file, err := result(g.guard, op, name, do)
	if err != nil {
		return nil, err
	}
	g.files.add(name)
	// Pebble makes a log of its own all the same, and only marks its end when it is closed. What goes wrong with that
	// it can be told.
	ends := g.ends && !strings.HasSuffix(name, ".log")
	return &guardFile{File: file, guard: guard{fuse: g.fuse, ends: ends}, name: name}, nil
}

// Create and OpenReadWrite are how Pebble and the log open files for writing.
func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open("create", name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *guardFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir guards the sync of a directory, on which the names of files depend.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	file, err := g.FS.OpenDir(name)
	if err != nil || !g.guards(name) {
		return file, err
	}
	return &guardFile{File: file, guard: g.guard, name: name}, nil
}

// Rename takes the old name out of what the watcher expects before the change, and adds the new one
// after it, so that the watcher never misses a file.
func (g *guardFS) Rename(oldname, newname string) error {
	if !g.guards(newname) {
		return g.FS.Rename(oldname, newname)
	}
	g.files.remove(oldname)
	err := g.do("rename", newname, func() error { return g.FS.Rename(oldname, newname) })
	if err == nil {
		g.files.add(newname)
	}
	return err
}

// Remove does not blow the fuse, because a file that stays costs only space; but after
// the fuse is blown nothing is removed, since opening may need it.
func (g *guardFS) Remove(name string) error {
	if g.guards(name) {
		if err := g.fuse.err(); err != nil {
			return err
		}
		g.files.remove(name)
	}
	return g.FS.Remove(name)
}

func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// guardFile is a file that was opened for writing, or a directory opened for syncing.
type guardFile struct {
	vfs.File
	guard
	name string
}

// Every way to change a file goes through do.
func (f *guardFile) Write(p []byte) (int, error) {
	return result(f.guard, "write", f.name, func() (int, error) { return f.File.Write(p) })
}

func (f *guardFile) WriteAt(p []byte, offset int64) (int, error) {
	return result(f.guard, "write", f.name, func() (int, error) { return f.File.WriteAt(p, offset) })
}

func (f *guardFile) Sync() error { return f.do("sync", f.name, f.File.Sync) }

func (f *guardFile) SyncData() error { return f.do("sync", f.name, f.File.SyncData) }

func (f *guardFile) SyncTo(length int64) (fullSync bool, err error) {
	return result(f.guard, "sync", f.name, func() (bool, error) { return f.File.SyncTo(length) })
}

// Close reports an error that the system has kept until now. It does not end Pebble's goroutine:
// the file is closed all the same.
func (f *guardFile) Close() error {
	err := f.File.Close()
	if err != nil {
		f.fuse.blow(writeError("close", f.name, err))
	}
	return err
}
