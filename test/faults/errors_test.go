//go:build linux

package faults

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/store/storetest"
)

// breaker lets the n-th operation of some kinds fail, and maybe all that follow.
type breaker struct {
	kinds []errorfs.OpKind
	ever  bool

	mu     sync.Mutex // guards what follows
	left   int        // operations until the failure
	broken string     // the first file that it happened to
}

func (b *breaker) String() string { return "breaker" }

// MaybeError is called before each operation.
func (b *breaker) MaybeError(op errorfs.Op) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.kinds, op.Kind) || op.Path != "" && !strings.HasPrefix(op.Path, memDir) {
		return nil
	}
	if isRead := op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt; isRead &&
		strings.HasSuffix(op.Path, ".sst") {
		return nil // a compaction that cannot read a table ends the process, as a crash does: Pebble panics
	}
	if b.left--; b.left == 0 || b.left < 0 && b.ever {
		if b.broken == "" {
			b.broken = op.Path
		}
		return syscall.EIO
	}
	return nil
}

// hasBroken returns the file that it happened to first, if it did.
func (b *breaker) hasBroken() (path string, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken, b.broken != ""
}

var breakages = []struct {
	name  string
	kinds []errorfs.OpKind
	// fatal errors stop the engine; others may be of no consequence.
	fatal bool
}{
	{"write", []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}, true},
	{"sync", []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}, true},
	{"create", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, true},
	{"rename", []errorfs.OpKind{errorfs.OpRename, errorfs.OpLink}, true},
	{"open", []errorfs.OpKind{errorfs.OpOpen, errorfs.OpOpenDir}, false},
	{"read", []errorfs.OpKind{errorfs.OpFileRead, errorfs.OpFileReadAt}, false},
	{"remove", []errorfs.OpKind{errorfs.OpRemove}, false},
}

// TestIOErrors lets the n-th operation on the disk fail, once or from then on, while callers are at work or the
// directory is opened: nothing is acknowledged any more, and what was is there afterwards.
func TestIOErrors(t *testing.T) {
	t.Parallel()
	type run struct {
		breakage int
		n        int
		ever     bool
	}
	var runs []run
	for n := 1; n <= *errsFlag; n++ {
		for b := range breakages {
			// The more there are of a kind, the further they are spread.
			at := n
			switch breakages[b].name {
			case "write", "sync", "read":
				at = 1 + (n-1)*(n+5)/2
			case "open":
				at = 2*n - 1
			}
			runs = append(runs, run{b, at, false}, run{b, at, true})
		}
	}
	var mu sync.Mutex
	broken := map[string]int{}
	log := map[string]int{} // those of segments of the log
	stopped := map[string]int{}
	deal(t, len(runs), func(t *testing.T, i int) { //nolint:thelper // a part of the test
		r := runs[i]
		kind := breakages[r.breakage]
		b := &breaker{kinds: kind.kinds, ever: r.ever, left: r.n}
		name := fmt.Sprintf("%s %d, ever %t", kind.name, r.n, r.ever)
		failed := breakDown(t, name, b, kind.fatal)
		mu.Lock()
		defer mu.Unlock()
		if path, ok := b.hasBroken(); ok {
			broken[kind.name]++
			if filelog.IsSegment(filepath.Base(path)) {
				log[kind.name]++
			}
		}
		if failed {
			stopped[kind.name]++
		}
	})
	for _, k := range breakages {
		t.Logf("%s: %d errors, %d of them of the log, of which %d stopped the engine or its opening",
			k.name, broken[k.name], log[k.name], stopped[k.name])
		if broken[k.name] == 0 {
			t.Errorf("no %s has failed", k.name)
		}
		if log[k.name] == 0 && k.name != "rename" && k.name != "remove" {
			t.Errorf("no %s of the log has failed", k.name)
		}
	}
}

// breakDown runs an engine on a disk that breaks. It reports whether the engine has stopped, or could not be opened.
func breakDown(t *testing.T, name string, b *breaker, fatal bool) (failed bool) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	l := newLedger()
	n := open(t, mem, memDir)
	load(t.Context(), n.Engine, l, "before", 2, 60)
	n.mustClose(t)

	n, err := openBroken(storetest.Hooked(mem, b), memDir)
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err == nil {
		load(t.Context(), n.Engine, l, "after", 3, 250)
		crashed = mem.CrashClone(vfs.CrashCloneCfg{})
		failed = n.Err() != nil
		if late := l.late; late > 0 {
			t.Errorf("%s: %d commands were acknowledged that came after the failure", name, late)
		}
		err := n.close()
		if _, broken := b.hasBroken(); (failed || fatal && broken) && !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: closed with %v, want what has failed", name, err)
		}
	} else {
		failed = true
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: opened with %v, want what has failed", name, err)
		}
	}
	facts := l.now()
	for what, disk := range map[string]*vfs.MemFS{"closed": mem, "without power": crashed} {
		if _, _, err := judge(t, disk, memDir, facts, facts); err != nil {
			t.Errorf("%s, %s: %v", name, what, err)
		}
	}
	return failed
}
