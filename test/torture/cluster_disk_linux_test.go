package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// diskBytes is how large the disks are that can be spoilt.
const diskBytes = 1 << 30

// furnish gives nodes disks that can be spoilt.
func (c *nodes) furnish() {
	c.t.Helper()
	if err := c.smallDisks(); err != nil {
		c.t.Logf("nothing can be mounted here (%v): only the writes of nodes can fail", err)
	}
}

// smallDisks puts the data of two nodes on file systems of their own: of one the space can be taken away, and the other
// can be lost from one moment to the next. That needs the rights of root.
func (c *nodes) smallDisks() error {
	const lost, full = 1, 2
	below := filepath.Join(c.dir, "below")
	image := filepath.Join(below, "image")
	dir := c.data(lost)
	// Twice the size: an image and its copy.
	if err := errors.Join(c.mount(c.data(full), diskBytes), c.mount(below, 2*diskBytes), os.Mkdir(dir, 0o750),
		os.WriteFile(image, nil, 0o600), os.Truncate(image, diskBytes), run("mkfs.ext4", "-q", image)); err != nil {
		return err
	}
	if err := run("mount", "-o", "loop", image, dir); err != nil {
		return err
	}
	c.t.Cleanup(func() { c.unmount(dir) })
	c.disks = []*disk{
		{
			node: full, what: "disk full", spoil: func() { c.resize(c.data(full), 0) },
			mend: func() { c.resize(c.data(full), diskBytes) },
		},
		{
			node: lost, what: "disk lost", spoil: func() { c.shutDown(dir) },
			// What reached the disk is mounted again. It is a copy, because the loop device has the image for as long
			// as any mount namespace does, and a mount of the same file would find what was shut down.
			mend: func() {
				c.unmount(dir)
				old := image
				image += "+"
				if err := errors.Join(run("cp", "--sparse=always", old, image), os.Remove(old),
					run("mount", "-o", "loop", image, dir)); err != nil {
					c.t.Error(err)
				}
			},
		},
	}
	return nil
}

// shutDown has a file system write nothing any more, not even what it has taken, and fail whoever writes or syncs.
func (c *nodes) shutDown(dir string) {
	c.t.Helper()
	const shutDown, withoutLog = 0x8004587d, 2 // FS_IOC_SHUTDOWN, FS_SHUTDOWN_FLAGS_NOLOGFLUSH
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), shutDown, withoutLog), f.Close())
	}
	if err != nil {
		c.t.Fatalf("shut down %s: %v", dir, err)
	}
}

// mount makes a directory with a file system in memory.
func (c *nodes) mount(dir string, size uint64) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	c.t.Cleanup(func() { c.unmount(dir) })
	return nil
}

func (c *nodes) unmount(dir string) {
	c.t.Helper()
	// Who has been killed may not have closed its files yet.
	for until := time.Now().Add(patience); ; {
		err := syscall.Unmount(dir, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(until) {
			c.t.Errorf("unmount %s: %v", dir, err)
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// resize sets the size of a file system in memory; zero: what is used of it, so that there is no space left.
func (c *nodes) resize(dir string, size uint64) {
	c.t.Helper()
	for until := time.Now().Add(patience); ; {
		to := size
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if to == 0 {
			to = (st.Blocks - st.Bfree) * uint64(st.Bsize)
		}
		if err == nil {
			err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", to))
		}
		if err == nil {
			return
		}
		// More may have been written meanwhile.
		if size > 0 || !errors.Is(err, syscall.EINVAL) || time.Now().After(until) {
			c.t.Errorf("resize %s to %d: %v", dir, to, err)
			return
		}
	}
}

// unwritable lets every write of a node to a file fail.
func unwritable(i int) func(*nodes, int, *rand.Rand) func() {
	return func(c *nodes, leader int, _ *rand.Rand) func() {
		i := (leader + i) % 3
		if err := unix.Prlimit(c.up[i].Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil); err != nil {
			c.t.Error(err)
		}
		c.ends(i)
		return nil
	}
}

// writeFaults need no rights.
var writeFaults = []nodeFault{
	{"writes of the leader fail", 0, 3 * time.Second, true, unwritable(0)},
	{"writes of a standby fail", 0, 3 * time.Second, true, unwritable(1)},
}
