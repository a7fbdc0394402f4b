//go:build unix

package pebblestore

import (
	"errors"
	"io/fs"
	"syscall"
)

// refusedBySystem are the errors with which the system refuses to write, which is no damage.
var refusedBySystem = []error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT}

// lockHeld reports whether a file cannot be locked because another process has locked it.
func lockHeld(err error) bool {
	var opening *fs.PathError
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) && !errors.As(err, &opening)
}
