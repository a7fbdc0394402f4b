//go:build linux

package faults

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/test/harness"
	"millrace/test/suite"
)

// mountSmall mounts a file system of its own, where that is allowed.
func mountSmall(t *testing.T, size int) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Logf("nothing can be mounted here: %v", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// fillUp writes a file until the disk is full, and cuts it so that some bytes are free.
func fillUp(t *testing.T, path string, free int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(f, endless{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a disk that is filled up says %v", err)
	}
	if err := errors.Join(f.Truncate(max(0, n-free)), f.Close()); err != nil {
		t.Fatal(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// wantFull checks that a start was refused because the disk is full, with what to do about it.
func wantFull(t *testing.T, what, text string) {
	t.Helper()
	for _, want := range []string{"the disk is full", "free some space"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: the message does not say %q: %s", what, want, text)
		}
	}
	for _, not := range []string{"damaged", "begin empty", "backup"} {
		if strings.Contains(text, not) {
			t.Errorf("%s: the message says %q: %s", what, not, text)
		}
	}
}

// TestStartOnFullDisk starts the server on a disk that has no space, or too little: it starts, or says that the disk is
// full. With space again every job is there.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	disk, ok := mountSmall(t, 112<<20) // each start takes a segment of the log, until they are flushed
	if !ok {
		return // TestOpenOnFullDisk does the same to a file system in memory
	}
	filler, dir := filepath.Join(disk, "filler"), filepath.Join(disk, "data")
	start := func(dir string) (*harness.Server, error) {
		return harness.Start(t.Context(), server(t, "--data-dir", dir, "--store-free-floor", "0"))
	}
	refusals := 0
	refused := func(what string, s *harness.Server, err error) {
		t.Helper()
		var exit *harness.ExitError
		switch {
		case err == nil:
			s.Kill()
		case errors.As(err, &exit):
			refusals++
			if exit.Code != 1 {
				t.Errorf("%s: exit status %d", what, exit.Code)
			}
			wantFull(t, what, exit.Stderr)
		default:
			t.Fatal(err)
		}
	}
	pushed := 0
	for _, free := range []int64{0, 4 << 10, 64 << 10, 1 << 20, 7 << 20} {
		s := suite.Start(t, server(t, "--data-dir", dir, "--store-free-floor", "0"))
		c, err := harness.Dial(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := c.Push("q", strings.Repeat("x", 1000)); err != nil {
				t.Fatal(err)
			}
			pushed++
		}
		_ = c.Close() // nothing is under way
		s.Kill()
		fillUp(t, filler, free)
		again, err := start(dir)
		refused(fmt.Sprintf("%d bytes free", free), again, err)
		fresh, err := start(filepath.Join(disk, "fresh"))
		refused(fmt.Sprintf("%d bytes free, a new directory", free), fresh, err)
		if err := errors.Join(os.Remove(filler), os.RemoveAll(filepath.Join(disk, "fresh"))); err != nil {
			t.Fatal(err)
		}
	}
	if refusals < 5 {
		t.Errorf("only %d starts were refused", refusals)
	}
	s := suite.Start(t, server(t, "--data-dir", dir, "--store-free-floor", "0"))
	c, err := harness.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server closes it first
	for n := range pushed {
		j, ok, err := c.Fetch("q", 10*time.Second)
		if err != nil || !ok {
			t.Fatalf("job %d of %d: %v, %v", n, pushed, ok, err)
		}
		if err := c.Ack(j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// TestOpenOnFullDisk opens a directory, and makes one, on a disk with less and less space.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	refusals := 0
	for free := int64(0); free < 10<<20; free = 2*free + 512 {
		for _, fresh := range []bool{false, true} {
			disk := newQuotaFS(quotaBytes)
			l := newLedger()
			if !fresh {
				n := open(t, disk, memDir)
				load(t.Context(), n.Engine, l, "before", 2, 60)
				n.mustClose(t)
			}
			disk.mu.Lock()
			disk.size -= disk.free() - free
			disk.mu.Unlock()
			n, err := openBroken(disk, memDir)
			if err == nil {
				_ = n.close() // which may find no space
			} else {
				refusals++
				if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%d bytes free: %v", free, err)
				}
				wantFull(t, fmt.Sprintf("%d bytes free", free), err.Error())
			}
			disk.resize(quotaBytes)
			facts := l.now()
			if _, _, err := judge(t, disk.FS.(*vfs.MemFS), memDir, facts, facts); err != nil {
				t.Errorf("%d bytes free before: %v", free, err)
			}
		}
	}
	t.Logf("%d openings were refused", refusals)
	if refusals == 0 {
		t.Error("nothing was refused")
	}
}
