package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// isHeld reports whether a lock was refused because another process, or this one, has it.
func isHeld(err error) bool {
	return lockHeld(err) || strings.Contains(err.Error(), "lock held by current process")
}

// cannotWrite reports whether a file could not be made or opened for writing, although it may well be read.
func cannotWrite(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || isFull(err)
}

// lockToRead locks a directory that this process cannot write to, as well as it can: a lock for readers keeps a
// server from opening it, and is refused while a server has it open, perhaps by another path to the same disk. It needs
// the file of the lock, and leaves it as it is. Refused is why there is no lock for a writer, unlocked why there is
// none at all, if so.
func lockToRead(fsys vfs.FS, name string, refused error) (lock io.Closer, unlocked, err error) {
	if vfs.Root(fsys) == vfs.Default {
		lock, err = readLock(name)
		if err == nil || isHeld(err) {
			return lock, nil, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			refused = err
		}
	}
	unlocked = fmt.Errorf("%s could not be locked: %w: if a server has it open, stop that first and try again",
		fsys.PathDir(name), refused)
	return noLock{}, unlocked, nil
}

// noLock stands in for a lock.
type noLock struct{}

func (noLock) Close() error { return nil }
