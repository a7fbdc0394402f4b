package filelog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/store/storetest"
	"millrace/internal/testkit"
)

// injector fails one of some operations, and maybe all that follow.
type injector struct {
	kinds []errorfs.OpKind
	err   error
	ever  bool // fail all later ones too

	mu     sync.Mutex // guards what follows
	left   int        // operations until the first failure; negative while off
	failed int        // how many have
}

func (i *injector) String() string { return "injector" }

func (i *injector) MaybeError(op errorfs.Op) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.left < 0 || !slices.Contains(i.kinds, op.Kind) || i.failed > 0 && !i.ever {
		return nil
	}
	if i.left > 0 {
		i.left--
		return nil
	}
	i.failed++
	return i.err
}

func (i *injector) failures() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed
}

func (i *injector) hasFailed() bool { return i.failures() > 0 }

func (i *injector) start(left int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = left
}

var injections = []struct {
	name  string
	kinds []errorfs.OpKind
	err   error
	// trimmed is what only Trim meets when the log is in use.
	trimmed bool
}{
	{"write", []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}, errors.New("injected"), false},
	{"space", []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpCreate}, syscall.ENOSPC, false},
	{"sync", []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}, errors.New("injected"), false},
	{"create", []errorfs.OpKind{errorfs.OpCreate}, errors.New("injected"), false},
	{"open", []errorfs.OpKind{errorfs.OpOpen, errorfs.OpOpenDir}, errors.New("injected"), false},
	{"remove", []errorfs.OpKind{errorfs.OpRemove}, errors.New("injected"), true},
}

// eachFault runs a test with an error at every operation of a kind, until there are no more of them.
func eachFault(t *testing.T, test func(t *testing.T, mode commitlog.Mode, inj *injector, step int, trimmed bool)) {
	t.Helper()
	for _, mode := range logtest.Modes {
		for _, injection := range injections {
			for _, ever := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/ever=%t", mode.Name, injection.name, ever), func(t *testing.T) {
					t.Parallel()
					for step := 0; ; step++ {
						inj := &injector{kinds: injection.kinds, err: injection.err, ever: ever, left: -1}
						if test(t, mode.Mode, inj, step, injection.trimmed); t.Failed() {
							t.Fatalf("that was with an error at operation %d", step)
						}
						if !inj.hasFailed() {
							if step == 0 {
								t.Error("there is no such operation")
							}
							return
						}
					}
				})
			}
		}
	}
}

// newFaulty makes a log on a file system that refuses to remove files which are still open.
func newFaulty(t *testing.T, mode commitlog.Mode, inj *injector) (*vfs.MemFS, Options) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	mem.UseWindowsSemantics(true)
	o := options(storetest.Hooked(mem, inj), mode)
	create(t, o)
	return mem, o
}

// TestNothingIsAcknowledgedAfterAFailure injects an error, once or from then on, while a log is used.
func TestNothingIsAcknowledgedAfterAFailure(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, mode commitlog.Mode, inj *injector, step int, trimmed bool) {
		t.Helper()
		mem, o := newFaulty(t, mode, inj)
		know, rng := knowledge{contents: map[uint64][]byte{}}, rand.New(rand.NewPCG(uint64(step), 1))
		l, err := know.open(o, rng)
		if err != nil {
			t.Fatal(err)
		}
		inj.start(step)
		done := uint64(0) // the operating system has the records up to this one
		var failure error
		// What fails in the background is met by a later record.
		for n := uint64(1); n <= 40 || inj.hasFailed() && failure == nil && !trimmed; n++ {
			late := failure != nil
			err := know.append(l, 0)
			switch {
			case err == nil && late:
				t.Fatalf("record %d is acknowledged after the failure", n)
			case err == nil:
				done = n
			case !late:
				failure = err
				if !errors.Is(err, inj.err) {
					t.Fatalf("record %d: %v", n, err)
				}
			case err != failure: //nolint:errorlint // it is that one
				t.Fatalf("record %d: %v, and not the first error, which is %v", n, err, failure)
			}
			if late {
				know.newest-- // it was not even tried
			}
			if n%7 != 0 {
				runtime.Gosched()
				continue
			}
			know.trimmed = max(know.trimmed, done-min(done, 5))
			before := inj.failures()
			if err := l.Trim(know.trimmed); (err != nil) != (trimmed && inj.failures() > before) {
				t.Fatalf("Trim: %v", err)
			}
		}
		if (failure != nil) != (inj.hasFailed() && !trimmed) {
			t.Fatalf("the log has failed: %v", failure)
		}
		if failure != nil {
			if err := l.Sync(); err != failure { //nolint:errorlint // it is that one
				t.Fatalf("Sync: %v, and not the first error, which is %v", err, failure)
			}
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		if err := l.Close(); !errors.Is(err, failure) && !errors.Is(err, inj.err) { // which may be the first to meet it
			t.Fatalf("Close: %v after %v", err, failure)
		}
		inj.start(-1)
		killed := know.clone()
		killed.safe = done
		if err := killed.useAgain(mem, mode, rng); err != nil {
			t.Errorf("opened again: %v", err)
		}
		if err := know.useAgain(crashed, mode, rng); err != nil {
			t.Errorf("opened again after a crash: %v", err)
		}
	})
}

// useAgain opens a log, appends to it and opens it once more.
func (k *knowledge) useAgain(disk *vfs.MemFS, mode commitlog.Mode, rng *rand.Rand) error {
	for range 2 {
		l, err := k.open(options(disk, mode), rng)
		if err != nil {
			return err
		}
		for range 3 {
			err = errors.Join(err, k.append(l, 1))
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return err
		}
		k.safe = k.newest
	}
	return nil
}

// TestOpenFailsCleanly injects errors while a log is opened: whatever Open says, everything is there later.
func TestOpenFailsCleanly(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, mode commitlog.Mode, inj *injector, step int, _ bool) {
		t.Helper()
		mem, o := newFaulty(t, mode, inj)
		know, rng := knowledge{contents: map[uint64][]byte{}}, rand.New(rand.NewPCG(uint64(step), 1))
		for _, count := range []int{9, 4, 0} { // of which the last segment is empty
			l, err := know.open(o, rng)
			if err != nil {
				t.Fatal(err)
			}
			for range count {
				if err := know.append(l, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			know.safe = know.newest
		}
		o.SegmentBytes *= 2 // so that no segment is there to be used
		inj.start(step)
		l, err := Open(o, 1, 0, func(uint64, []byte) error { return nil })
		if err == nil {
			err = l.Close() // which says nothing about a spare segment that could not be made
		}
		if err != nil && !errors.Is(err, inj.err) {
			t.Fatalf("Open and Close: %v", err)
		}
		inj.start(-1)
		crashed, killed := mem.CrashClone(vfs.CrashCloneCfg{}), know.clone()
		if err := know.useAgain(mem, mode, rng); err != nil {
			t.Errorf("opened again: %v", err)
		}
		if err := killed.useAgain(crashed, mode, rng); err != nil {
			t.Errorf("opened again after a crash: %v", err)
		}
	})
}

// TestInterval lets time pass: a record is safe an interval after it was appended, and not before. A sync that fails is
// told to who appends next.
func TestInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inj := &injector{kinds: injections[2].kinds, err: injections[2].err, ever: true, left: -1}
		_, o := newFaulty(t, commitlog.Interval, inj)
		o.Every = time.Second
		l, err := Open(o, 1, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		number := uint64(1)
		if err := logtest.Append(l, number, nil); err != nil {
			t.Fatal(err)
		}
		closed(t, l, nil) // which does not wait for the sync that is to come
		if l, err = Open(o, 1, number, func(uint64, []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for range 3 {
				number++
				if err := logtest.Append(l, number, nil); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Advance(t, o.Every-1)
			if got := l.Safe(); got != number-3 {
				t.Errorf("of %d records %d are safe before the interval has passed", number, got)
			}
			testkit.Advance(t, 1)
			if got := l.Safe(); got != number {
				t.Errorf("of %d records %d are safe when the interval has passed", number, got)
			}
		}
		if err := logtest.Append(l, number+1, nil); err != nil {
			t.Fatal(err)
		}
		inj.start(0)
		testkit.Advance(t, o.Every)
		if err := logtest.Append(l, number+2, nil); !errors.Is(err, inj.err) {
			t.Errorf("the sync has failed, and the next record says %v", err)
		}
		if got := l.Safe(); got != number {
			t.Errorf("of %d records %d are safe after a sync that failed", number+1, got)
		}
		closed(t, l, inj.err)
	})
}

// closed closes a log in a bubble, which takes no time.
func closed(t *testing.T, l *Log, want error) {
	t.Helper()
	began := time.Now()
	if err := l.Close(); !errors.Is(err, want) {
		t.Errorf("Close: %v, want %v", err, want)
	}
	if took := time.Since(began); took != 0 {
		t.Errorf("Close waits for %v", took)
	}
}

// TestSafeIsNotTakenBack lets an Append tell that a record is safe while a Sync is under way that has begun before.
func TestSafeIsNotTakenBack(t *testing.T) {
	t.Parallel()
	var l *Log
	var armed atomic.Bool
	o := options(storetest.Hooked(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && armed.Swap(false) {
			l.raiseSafe(9)
		}
		return nil
	})), commitlog.None)
	create(t, o)
	var err error
	if l, err = Open(o, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Append(l, 1, nil); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if err := l.Sync(); err != nil || armed.Load() || l.Safe() != 9 {
		t.Errorf("record 9 was safe, and now %d is: %v", l.Safe(), err)
	}
	mustClose(t, l)
}

// TestSyncs counts the operations of a mode: what syncs too often is slow, what syncs too seldom is not safe.
func TestSyncs(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		var mu sync.Mutex
		writes, syncs := 0, 0
		mem := vfs.NewMem()
		o := options(storetest.Hooked(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case op.Kind == errorfs.OpFileWriteAt:
				writes++
			case slices.Contains(injections[2].kinds, op.Kind):
				syncs++
			}
			return nil
		})), mode.Mode)
		create(t, o)
		l, err := Open(o, 1, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustSettle(t, l)
		mu.Lock()
		writes, syncs = 0, 0
		mu.Unlock()
		before := l.Stats().Syncs.Count
		for n := uint64(1); n <= 20; n++ {
			if err := logtest.Append(l, n, nil); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		want := 0
		if mode.Mode == commitlog.Fsync {
			want = 20
		}
		if counted := int(l.Stats().Syncs.Count - before); writes != 20 || syncs != want || counted != want {
			t.Errorf("%s: 20 records make %d writes and %d syncs, of which %d are counted, want 20 and %d", mode.Name,
				writes, syncs, counted, want)
		}
		mu.Unlock()
		mustClose(t, l)
	}
}

// mustSettle waits until the spare segment is there.
func mustSettle(tb testing.TB, l *Log) {
	tb.Helper()
	for {
		l.mu.Lock()
		n := len(l.free)
		l.mu.Unlock()
		if n > 0 {
			return
		}
		if err := l.failed(); err != nil {
			tb.Fatal(err)
		}
		runtime.Gosched()
	}
}
