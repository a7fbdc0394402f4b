package pebblestore

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// bypassCache has whole blocks of a file read and written past the page cache. Where that is refused, by the
// file system or for the size of our blocks, the file stays as it is.
func bypassCache(f vfs.File) {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return
	}
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return
	}
	if _, err = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return
	}
	if _, err = unix.Pread(int(fd), alignedBlocks(journalBlock), 0); err != nil {
		_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags)
	}
}
