//go:build amd64 || arm64

package pebblestore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// TestDirect writes blocks to a file on a real file system and looks at them through another one. What cannot be written is an error, and
// the next request is not the worse for it.
func TestDirect(t *testing.T) {
	t.Parallel()
	const size = 64 * journalBlock
	path := filepath.Join(t.TempDir(), "file")
	if err := makeJournalFile(vfs.Default, path, size); err != nil {
		t.Fatal(err)
	}
	f, err := (directFS{vfs.Default}).OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	want, rng := make([]byte, size), rand.New(rand.NewPCG(1, 2))
	write := func() {
		t.Helper()
		at := rng.IntN(60) * journalBlock
		blocks := alignedBlocks((1 + rng.IntN(4)) * journalBlock)
		for i := range blocks {
			blocks[i] = byte(rng.Uint32())
		}
		copy(want[at:], blocks)
		if err := writeSynced(f, blocks, int64(at)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d, %d bytes: the file is another one (error %v)", at, len(blocks), err)
		}
	}
	for range 50 {
		write()
		runtime.GC() // what the kernel reads and writes stays where it is
	}
	if err := writeSynced(f, alignedBlocks(journalBlock), 1<<62); err == nil {
		t.Error("written far behind the largest file")
	}
	write()
	if a, ok := f.(*asyncFile); ok {
		if a.cb.rwFlags&unix.RWF_DSYNC == 0 {
			t.Error("the kernel is not asked for a sync, which this test could not see")
		}
		a.late, a.pause = false, 0 // whatever a busy machine has made of it
		for _, took := range []time.Duration{2 * asyncTime, asyncTime, 2 * asyncTime, asyncTime} {
			a.note(took)
		}
		if a.pause != 0 {
			t.Error("single late requests make it do without")
		}
		a.note(2 * asyncTime)
		a.note(2 * asyncTime)
		if a.pause != asyncPause {
			t.Error("two late requests in a row do not")
		}
		for range asyncPause {
			write()
		}
		if a.pause != 0 {
			t.Errorf("%d more writes are to do without", a.pause)
		}
		write()
		// A queue that takes nothing any more: the other way does it.
		if _, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, a.queue, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		write()
		if err := a.File.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.WriteSynced(alignedBlocks(journalBlock), 0); err == nil {
			t.Error("written to a closed file")
		}
		_ = a.done.Close()
		return
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
