package pebblestore

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/timing"
)

// fuse remembers the first error after which nothing more may be acknowledged.
//
// It exists because Pebble's own answer to a write error is to end the process. If
// its Logger.Fatalf returns, DB.Apply reports success for a batch whose sync went
// wrong; an error while the log is rotated panics with a mutex already unlocked,
// which the deferred unlock turns into a crash that no recover can stop; and a
// failing flush is retried at once, for ever, even inside Open. So Pebble is never
// shown a write error: fuseFS below reports success to it and blows the fuse, after
// which no change reaches the disk any more, and Store asks the fuse before it
// acknowledges anything. The disk keeps what it had at the first error, which is a
// state that recovery knows: that of a crash.
type fuse struct {
	first atomic.Pointer[error] // nil while the fuse is whole

	mu      sync.Mutex // guards armed and onFatal, and makes the first error the only one
	armed   bool
	onFatal func(error)

	syncMu  sync.Mutex // guards syncs and slowest: how long the syncs of the log took
	syncs   timing.Histogram
	slowest time.Duration
}

// blown reports whether there was such an error. Pebble must not hear of it, so that
// what asks here does nothing and returns nil.
func (f *fuse) blown() bool { return f.first.Load() != nil }

// err returns the error that blew the fuse, or nil.
func (f *fuse) err() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// cause returns what is behind an error of opening: what blew the fuse, if something did. Pebble was not shown that, and then misses
// what it believes to have written.
func (f *fuse) cause(err error) error {
	if first := f.err(); first != nil {
		return first
	}
	return err
}

// blow makes err final unless there is one already.
func (f *fuse) blow(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blown() {
		return
	}
	f.first.Store(&err)
	if f.armed && f.onFatal != nil {
		f.onFatal(err)
	}
}

// blowUnarmed does that only while Open has not returned. It reports whether it was so.
func (f *fuse) blowUnarmed(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed && !f.blown() {
		f.first.Store(&err)
	}
	return !f.armed
}

// arm lets later errors reach onFatal; what Open itself runs into it returns.
func (f *fuse) arm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
	return f.err()
}

func (f *fuse) countSync(d time.Duration) {
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	f.syncs.Observe(d)
	f.slowest = max(f.slowest, d)
}

// syncTimes returns how long the syncs of the log took, and the slowest of them.
func (f *fuse) syncTimes() (syncs timing.Histogram, slowest time.Duration) {
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	return f.syncs, f.slowest
}

// fuseFS guards the changes below one directory with a fuse. Reads and everything
// outside, such as the files of a checkpoint, pass through.
type fuseFS struct {
	vfs.FS
	fuse  *fuse
	dir   string
	files *fileSet // those of dir
	// beforeLog is called before a log is read; nil: nothing is.
	beforeLog func() error
}

// Open lets whoever reads a log wait until it is not written to.
func (f *fuseFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.beforeLog != nil && strings.HasSuffix(name, ".log") {
		if err := f.beforeLog(); err != nil {
			return nil, err
		}
	}
	return f.FS.Open(name, opts...)
}

// List blows the fuse if it fails while the database is opened, and names no files then. Pebble would otherwise end the process: it
// gives up what the statistics of its tables, which it collects beside the opening, are read with.
func (f *fuseFS) List(name string) ([]string, error) {
	names, err := f.FS.List(name)
	if err != nil && f.guards(name) && f.fuse.blowUnarmed(writeError("list", name, err)) {
		return nil, nil
	}
	return names, err
}

// guards reports whether name is our data. Pebble builds every name from the
// directory that it was given, so a comparison of prefixes is enough.
func (f *fuseFS) guards(name string) bool {
	rest, ok := strings.CutPrefix(name, f.dir)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == os.PathSeparator)
}

// change runs one change of the data directory unless the fuse is blown.
func (f *fuseFS) change(op, name string, do func() error) {
	if f.fuse.blown() {
		return
	}
	if err := do(); err != nil {
		f.fuse.blow(writeError(op, name, err))
	}
}

// create opens a file for writing; on error, the hole that swallows what follows.
func (f *fuseFS) create(op, name string, open func() (vfs.File, error)) vfs.File {
	var file vfs.File
	f.change(op, name, func() (err error) {
		if file, err = open(); err == nil {
			f.files.add(name)
		}
		return err
	})
	if f.fuse.blown() && file == nil {
		return hole()
	}
	return &fuseFile{File: file, fuse: f.fuse, name: name, isLog: strings.HasSuffix(name, ".log") || isJournal(name)}
}

func writeError(op, name string, err error) error {
	if isFull(err) {
		return fmt.Errorf("%s %s: the disk is full: free some space, and start again: %w", op, name, err)
	}
	return fmt.Errorf("%s %s: %w", op, name, err)
}

func (f *fuseFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !f.guards(name) {
		return f.FS.Create(name, c)
	}
	return f.create("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) }), nil
}

func (f *fuseFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if !f.guards(name) {
		return f.FS.OpenReadWrite(name, c, opts...)
	}
	return f.create("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) }), nil
}

func (f *fuseFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !f.guards(newname) {
		return f.FS.ReuseForWrite(oldname, newname, c)
	}
	return f.create("reuse", newname, func() (vfs.File, error) {
		f.files.remove(oldname)
		return f.FS.ReuseForWrite(oldname, newname, c)
	}), nil
}

func (f *fuseFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || !f.guards(name) {
		return file, err
	}
	return &fuseFile{File: file, fuse: f.fuse, name: name}, nil
}

func (f *fuseFS) Link(oldname, newname string) error {
	if !f.guards(newname) {
		return f.FS.Link(oldname, newname)
	}
	f.change("link", newname, func() error {
		err := f.FS.Link(oldname, newname)
		if err == nil {
			f.files.add(newname)
		}
		return err
	})
	return nil
}

func (f *fuseFS) Rename(oldname, newname string) error {
	if !f.guards(newname) {
		return f.FS.Rename(oldname, newname)
	}
	f.change("rename", newname, func() error {
		f.files.remove(oldname)
		err := f.FS.Rename(oldname, newname)
		if err == nil {
			f.files.add(newname)
		}
		return err
	})
	return nil
}

// Remove reports its errors, because a file that stays costs only space; but after
// the fuse is blown nothing is removed, since recovery may need it.
func (f *fuseFS) Remove(name string) error {
	if f.guards(name) {
		if f.fuse.blown() {
			return nil
		}
		f.files.remove(name)
	}
	return f.FS.Remove(name)
}

func (f *fuseFS) RemoveAll(name string) error {
	if f.guards(name) {
		if f.fuse.blown() {
			return nil
		}
		f.files.remove(name)
	}
	return f.FS.RemoveAll(name)
}

func (f *fuseFS) Unwrap() vfs.FS { return f.FS }

// fuseFile is a file that was opened for writing, or a directory opened for syncing.
type fuseFile struct {
	vfs.File
	fuse  *fuse
	name  string
	isLog bool
}

func (f *fuseFile) Write(p []byte) (int, error) {
	n := len(p)
	if !f.fuse.blown() {
		if _, err := f.File.Write(p); err != nil {
			f.fuse.blow(writeError("write", f.name, err))
		}
	}
	return n, nil
}

func (f *fuseFile) WriteAt(p []byte, offset int64) (int, error) {
	n := len(p)
	if !f.fuse.blown() {
		if _, err := f.File.WriteAt(p, offset); err != nil {
			f.fuse.blow(writeError("write", f.name, err))
		}
	}
	return n, nil
}

// WriteSynced implements syncedWriter.
func (f *fuseFile) WriteSynced(p []byte, offset int64) error {
	f.sync("write", func() error { return writeSynced(f.File, p, offset) })
	return nil
}

func (f *fuseFile) Sync() error {
	f.sync("sync", f.File.Sync)
	return nil
}

func (f *fuseFile) SyncData() error {
	f.sync("sync", f.File.SyncData)
	return nil
}

func (f *fuseFile) sync(op string, do func() error) {
	if f.fuse.blown() {
		return
	}
	start := time.Now()
	if err := do(); err != nil {
		f.fuse.blow(writeError(op, f.name, err))
		return
	}
	if f.isLog {
		f.fuse.countSync(time.Since(start))
	}
}

func (f *fuseFile) SyncTo(length int64) (fullSync bool, err error) {
	if f.fuse.blown() {
		return false, nil
	}
	fullSync, err = f.File.SyncTo(length)
	if err != nil {
		f.fuse.blow(writeError("sync", f.name, err))
	}
	return fullSync, nil
}

// Stat must not fail either, because Pebble asks for the size of a log that it
// reuses in the middle of the rotation.
func (f *fuseFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fuse.blow(writeError("stat", f.name, err))
		return hole().Stat()
	}
	return info, nil
}

func (f *fuseFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.fuse.blow(writeError("close", f.name, err))
	}
	return nil
}

// hole stands in for a file that could not be created: a file of memory takes what
// is written, and whoever asks about it finds it empty.
func hole() vfs.File { return holeFile{vfs.NewMemFile(nil)} }

type holeFile struct{ vfs.File }

func (holeFile) Write(p []byte) (int, error)            { return len(p), nil }
func (holeFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (holeFile) Sync() error                            { return nil }
func (holeFile) SyncData() error                        { return nil }
func (holeFile) SyncTo(int64) (bool, error)             { return false, nil }
