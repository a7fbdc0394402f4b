//go:build unix

package pebblestore

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readLock takes a lock for readers on a file, of the kind that Pebble takes for writers.
func readLock(name string) (io.Closer, error) {
	f, err := os.Open(name) //nolint:gosec // in the operator's directory
	if err != nil {
		return nil, err
	}
	lock := &unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, lock); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
