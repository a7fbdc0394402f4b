//go:build linux

package faults

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/offline"
	"millrace/test/tier"
)

// TestBackups makes backups while callers are at work at full speed. Each has everything that was acknowledged before
// its call, nothing that was asked for after it, and is sound; so is what is restored of it, file for file.
func TestBackups(t *testing.T) {
	t.Parallel()
	count := cmp.Or(*backupsFlag, tier.Pick(3, 1))
	base := t.TempDir()
	n := open(t, vfs.Default, filepath.Join(base, "data"))
	l := newLedger()
	const apart = 250 // jobs between two backups
	loaded := make(chan struct{})
	go func() {
		load(t.Context(), n.Engine, l, "load", 8, apart/4*(count+1))
		close(loaded)
	}()
	type backup struct {
		dir         string
		told, asked map[string]fate
	}
	backups := make([]backup, 0, count)
	for i := range count {
		for len(l.now()) < apart*(i+1) {
			select {
			case <-loaded:
				t.Fatal("the load ends too early")
			default:
				runtime.Gosched()
			}
		}
		b := backup{dir: filepath.Join(base, fmt.Sprint("backup", i)), told: l.now()}
		if err := n.Backup(b.dir); err != nil {
			t.Fatal(err)
		}
		b.asked = l.now()
		backups = append(backups, b)
	}
	<-loaded
	n.mustClose(t)
	for i, b := range backups {
		restored := filepath.Join(base, fmt.Sprint("restored", i))
		if _, err := offline.Restore(t.Context(), b.dir, restored, func(offline.Phase, uint64, uint64) {}); err != nil {
			t.Fatalf("backup %d: %v", i, err)
		}
		if _, err := offline.Check(t.Context(), restored, func(offline.Phase, uint64, uint64) {}); err != nil {
			t.Errorf("backup %d, restored: %v", i, err)
		}
		jobs, ambiguous, err := judge(t, vfs.Default, restored, b.told, b.asked)
		if err != nil {
			t.Errorf("backup %d: %v", i, err)
		}
		t.Logf("backup %d: %d jobs known to callers, %d in it, %d ambiguous", i, len(b.told), jobs, ambiguous)
	}
}
