package pebblestore

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refusedBySystem are the errors with which the system refuses to write, which is no damage.
var refusedBySystem = []error{
	windows.ERROR_ACCESS_DENIED, windows.ERROR_WRITE_PROTECT, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL,
	windows.ERROR_DISK_QUOTA_EXCEEDED,
}

// lockHeld reports whether a file cannot be locked because another process has locked it: a lock is a file that is open
// for one process alone.
func lockHeld(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }
