//go:build amd64 || arm64

package pebblestore

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// direct returns a file whose whole blocks are read and written past the page cache, and that waits for the disk
// without a thread. As far as that is refused, by the file system or for the size of our blocks, the file stays as it is.
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
	block := alignedBlocks(journalBlock)
	if _, err = unix.Pread(int(fd), block, 0); err != nil {
		_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags)
		return f
	}
	a, err := newAsyncFile(f)
	if err != nil {
		return f
	}
	if _, taken, err := a.request(aioRead, block, 0); !taken || err != nil {
		_ = a.release()
		return f
	}
	return a
}

// asyncFile is a file that the kernel writes to while a goroutine waits for it as it would for the network (io_submit and an
// eventfd). A thread that sleeps in a system call keeps its place among those that run Go code until the runtime takes it away,
// and has to find another one afterwards.
type asyncFile struct {
	vfs.File
	queue   uintptr // of requests, in the kernel
	done    *os.File
	eventFD int // of done, whose own Fd would make reads of it block
	conn    syscall.RawConn
	poll    func(uintptr) bool
	late    bool // the last request was
	pause   int  // so many writes do without

	// What follows belongs to the one request that is under way. The kernel reads and writes some of it.
	cb      aioRequest
	cbs     *aioRequest // a list of one
	event   aioEvent
	count   uint64
	asked   bool
	refused syscall.Errno
}

// aioRequest is the struct iocb of the kernel, on a machine whose numbers begin with their lowest byte.
type aioRequest struct {
	_       uint64
	_       uint32
	rwFlags uint32
	op      uint16
	_       int16
	fd      uint32
	buf     uint64
	size    uint64
	offset  int64
	_       uint64
	flags   uint32
	eventFD uint32
}

// aioEvent is the struct io_event of the kernel.
type aioEvent struct {
	_, _   uint64
	result int64
	_      int64
}

const (
	aioRead     = 0 // IOCB_CMD_PREAD
	aioWrite    = 1 // IOCB_CMD_PWRITE
	aioTellDone = 1 // IOCB_FLAG_RESFD
)

func newAsyncFile(f vfs.File) (*asyncFile, error) {
	a := &asyncFile{File: f}
	a.cbs, a.poll = &a.cb, a.ask
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&a.queue)), 0); errno != 0 { //nolint:gosec // the kernel sets it
		return nil, errno
	}
	var err error
	if a.eventFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err == nil {
		a.done = os.NewFile(uintptr(a.eventFD), "eventfd")
		a.conn, err = a.done.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, a.release())
	}
	return a, nil
}

// Workers of the kernel finish a request, on the processor that the disk interrupts. Beside somebody who computes there they may have to wait for
// their turn, which a thread that waits for the disk has at once: one busy neighbour made commits take ten times as long. So after two requests in a row
// that took this long, so many writes do without, and then again if the next request takes as long.
const (
	asyncTime  = time.Millisecond
	asyncPause = 256
)

// WriteSynced implements syncedWriter.
func (a *asyncFile) WriteSynced(p []byte, offset int64) error {
	if a.pause > 0 {
		a.pause--
	} else {
		start := time.Now()
		n, taken, err := a.request(aioWrite, p, offset)
		a.note(time.Since(start))
		if taken && (err != nil || n == len(p)) {
			return err
		}
	}
	// Of what was not taken, or not written as a whole, this finds out why, or does it. An error is never tried again: a second sync may not
	// know of it.
	return writeSynced(a.File, p, offset)
}

// note takes down how long a request took.
func (a *asyncFile) note(took time.Duration) {
	late := took > asyncTime
	if late && a.late {
		a.pause = asyncPause
	}
	a.late = late
}

// request has the kernel read, or write and sync, and waits for it. Taken reports whether the kernel has begun.
func (a *asyncFile) request(op uint16, p []byte, offset int64) (n int, taken bool, err error) {
	defer runtime.KeepAlive(p)
	a.cb = aioRequest{
		rwFlags: unix.RWF_DSYNC,
		op:      op,
		fd:      uint32(a.Fd()),                                       //nolint:gosec // a descriptor
		buf:     uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), //nolint:gosec // kept alive above
		size:    uint64(len(p)),
		offset:  offset,
		flags:   aioTellDone,
		eventFD: uint32(a.eventFD), //nolint:gosec // a descriptor
	}
	a.asked, a.refused = false, 0
	if err := a.conn.Read(a.poll); err != nil {
		return 0, a.asked && a.refused == 0, err
	}
	if a.refused != 0 {
		return 0, false, a.refused
	}
	got, _, errno := unix.RawSyscall6(unix.SYS_IO_GETEVENTS, a.queue, 1, 1, uintptr(unsafe.Pointer(&a.event)), 0, 0) //nolint:gosec // the kernel sets it
	switch {
	case errno != 0:
		return 0, true, errno
	case got != 1:
		return 0, true, unix.EIO
	case a.event.result < 0:
		return 0, true, syscall.Errno(-a.event.result)
	}
	return int(a.event.result), true, nil
}

// ask hands the request over when it is first called, which is when the runtime has begun to listen, and reports whether there is
// nothing to wait for any more.
func (a *asyncFile) ask(uintptr) bool {
	if !a.asked {
		a.asked = true
		_, _, a.refused = unix.Syscall(unix.SYS_IO_SUBMIT, a.queue, 1, uintptr(unsafe.Pointer(&a.cbs))) //nolint:gosec // read before it returns
		return a.refused != 0
	}
	n, _, _ := unix.RawSyscall(unix.SYS_READ, uintptr(a.eventFD), uintptr(unsafe.Pointer(&a.count)), unsafe.Sizeof(a.count)) //nolint:gosec // the kernel sets it
	return n == unsafe.Sizeof(a.count)
}

// release gives back what is not the file itself.
func (a *asyncFile) release() error {
	_, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, a.queue, 0, 0)
	var err error
	if errno != 0 {
		err = errno
	}
	if a.done != nil {
		err = errors.Join(err, a.done.Close())
	}
	return err
}

// Close closes the file. No request may be under way.
func (a *asyncFile) Close() error { return errors.Join(a.release(), a.File.Close()) }
