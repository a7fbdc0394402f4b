package pebblestore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/test/tier"
)

// nthError fails the n-th operation of some kinds below the data directory with an error of the operating system.
type nthError struct {
	kinds []errorfs.OpKind
	errno syscall.Errno

	mu   sync.Mutex // guards what follows
	left int
	met  bool
}

func (e *nthError) String() string { return "n-th error" }

func (e *nthError) MaybeError(op errorfs.Op) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.kinds, op.Kind) || op.Path != "" && !strings.HasPrefix(op.Path, memDir) {
		return nil
	}
	if e.left--; e.left != 0 {
		return nil
	}
	e.met = true
	return fmt.Errorf("%s: %w", op.Path, e.errno)
}

func (e *nthError) wasMet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.met
}

// openKinds are the operations that an opening consists of.
var openKinds = map[string][]errorfs.OpKind{
	"open":   {errorfs.OpOpen, errorfs.OpOpenDir},
	"read":   {errorfs.OpFileRead, errorfs.OpFileReadAt},
	"list":   {errorfs.OpList},
	"stat":   {errorfs.OpStat, errorfs.OpFileStat},
	"lock":   {errorfs.OpLock},
	"create": {errorfs.OpCreate, errorfs.OpReuseForWrite},
	"write":  {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
	"sync":   {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
	"rename": {errorfs.OpRename, errorfs.OpLink},
}

// TestErrorsOfOpening lets every operation of an opening fail once, with each of the errors that a disk, a full one, a
// user without rights and a process with too many files meet. None of them passes for damage, and the next opening
// works.
func TestErrorsOfOpening(t *testing.T) {
	t.Parallel()
	stride := tier.Pick(1, 7)
	errnos := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.EACCES}
	whole := damaged(t)
	for name, kinds := range openKinds {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read only %t", name, readOnly), func(t *testing.T) {
				t.Parallel()
				refused := 0
				for n := 1; ; n += stride {
					if n > 2000 {
						t.Fatal("an opening does not end")
					}
					mem := rewritten(t, whole, nil)
					inj := &nthError{kinds: kinds, errno: errnos[n%len(errnos)], left: n}
					o := pebblestore.Options{
						Dir: memDir, FS: storetest.Hooked(mem, inj), ReadOnly: readOnly,
						MemTableBytes: roomyMemTable,
					}
					s, err := pebblestore.Open(o)
					if err == nil {
						_ = s.Close() // which may have met it
					}
					if !inj.wasMet() {
						break
					}
					if err == nil {
						continue
					}
					refused++
					if errors.Is(err, store.ErrCorrupt) || !errors.Is(err, inj.errno) ||
						strings.Contains(err.Error(), "begin empty") {
						t.Errorf("operation %d fails with %v, and Open says: %v", n, inj.errno, err)
					}
					o.FS = mem
					s = open(t, o)
					checkHistory(t, s, 400, 400)
					mustClose(t, s)
				}
				t.Logf("%d refused", refused)
			})
		}
	}
}

// TestErrorsOfCreation does the same to the opening of an empty directory.
func TestErrorsOfCreation(t *testing.T) {
	t.Parallel()
	for name, kinds := range openKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; n < 2000; n++ {
				mem := vfs.NewCrashableMem()
				inj := &nthError{kinds: kinds, errno: syscall.ENOSPC, left: n}
				s, err := pebblestore.Open(pebblestore.Options{
					Dir: memDir, FS: storetest.Hooked(mem, inj),
					MemTableBytes: roomyMemTable, SegmentBytes: 4 << 10,
				})
				if err == nil {
					_ = s.Close() // which may have met it
				}
				if !inj.wasMet() {
					return
				}
				if err != nil && (errors.Is(err, store.ErrCorrupt) || !errors.Is(err, inj.errno) ||
					!strings.Contains(err.Error(), "the disk is full")) {
					t.Errorf("operation %d fails with %v, and Open says: %v", n, inj.errno, err)
				}
			}
			t.Error("an opening does not end")
		})
	}
}
