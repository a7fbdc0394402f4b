package storetest_test

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store/storetest"
)

// TestDiskIsClonedWhileFilesAreReused waits for ever if a clone and the reuse of a file wait for each other.
func TestDiskIsClonedWhileFilesAreReused(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	disk := storetest.Disk{FS: mem}
	f, err := disk.Create("a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	names := [2]string{"a", "b"}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				mem.CrashClone(vfs.CrashCloneCfg{})
			}
		}
	})
	for i := range 20_000 {
		_ = f.Close()
		if f, err = disk.ReuseForWrite(names[i%2], names[(i+1)%2], vfs.WriteCategoryUnspecified); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	_ = f.Close()
}
