package filelog

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// direct returns a file whose whole blocks are written past the page cache, which halves what a
// sync takes. If the file system refuses that, or blocks of our size, the file stays as it is: a
// read of one block tries it out, because some file systems accept the flag and refuse the use.
func direct(f vfs.File) vfs.File {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return f
	}
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return f
	}
	if _, err = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return f
	}
	if _, err = unix.Pread(int(fd), alignedBlocks(blockSize), 0); err != nil {
		_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags)
		return f
	}
	return directFile{f}
}

// directFile is a file that is written past the page cache.
type directFile struct{ vfs.File }

// WriteSynced implements syncedWriter with one system call instead of two. Where the kernel does
// not have it, and after a short write, the two calls do it.
func (d directFile) WriteSynced(p []byte, offset int64) error {
	n, err := unix.Pwritev2(int(d.Fd()), [][]byte{p}, offset, unix.RWF_DSYNC)
	if err == nil && n == len(p) {
		return nil
	}
	if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// Of what was not taken, or not written as a whole, this finds out why, or does it.
	if _, err := d.WriteAt(p, offset); err != nil {
		return err
	}
	return d.SyncData()
}
