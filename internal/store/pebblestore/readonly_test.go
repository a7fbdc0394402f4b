package pebblestore_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// readOnlyFS refuses every change, as a file system that is mounted read-only does, and notes what was tried.
type readOnlyFS struct {
	errno syscall.Errno

	mu    sync.Mutex // guards tried
	tried []string
}

func (r *readOnlyFS) String() string { return "read-only" }

func (r *readOnlyFS) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead && op.Kind != errorfs.OpLock || op.Kind == errorfs.OpFileClose {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, op.Path)
	return &fs.PathError{Op: "change", Path: op.Path, Err: r.errno}
}

// TestReadOnlyMedium reads a store, that of a server which was killed, from media that cannot be written to: all is
// there, the checksums are verified, nothing but the lock is tried, and that there is none is told.
func TestReadOnlyMedium(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		mem := damaged(t)
		before := contentOf(t, mem)
		medium := &readOnlyFS{errno: errno}
		o := pebblestore.Options{Dir: memDir, FS: storetest.Hooked(mem, medium), ReadOnly: true}
		s := open(t, o)
		if err := s.Unlocked(); !errors.Is(err, errno) ||
			!strings.Contains(err.Error(), memDir+" could not be locked") {
			t.Errorf("%v: the lock: %v", errno, err)
		}
		checkHistory(t, s, 400, 400)
		if _, err := s.Verify(t.Context(), func(int, int) {}); err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		mustClose(t, s)
		if want := []string{memDir + "/LOCK"}; !slices.Equal(medium.tried, want) {
			t.Errorf("%v: changes were tried of %v", errno, medium.tried)
		}
		if !maps.EqualFunc(before, contentOf(t, mem), slices.Equal[[]byte]) {
			t.Errorf("%v: something has changed", errno)
		}
		// Who wants to write is refused.
		o.ReadOnly = false
		wantRefusal(t, o, store.ErrUnwritable, memDir, "write access")
		// Damage is told, and that it might be the work of a server.
		ofAll(remove)(t, mem, "")
		o.ReadOnly = true
		wantRefusal(t, o, store.ErrCorrupt, "no segment of the log", "could not be locked")
	}
}
