// Package logtest holds the tests that every commitlog.Log passes. It is imported by tests only.
package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/commitlog"
	"millrace/internal/store"
)

// Every is the interval of the logs under test. It is longer than any test, so that nothing is synced unless a test
// says so.
const Every = time.Hour

// SegmentBytes is what a log under test is made of, if it is made of segments. Some records of the suite are larger.
const SegmentBytes = 8 << 10

// New makes an empty log of a mode, whose first record will have number 1. What it returns opens that log, again and
// again.
type New func(tb testing.TB, mode commitlog.Mode) Open

// Open opens a log and visits its records from a number on. Up to the number safe they must be there.
type Open func(from, safe uint64, visit commitlog.Visit) (commitlog.Log, error)

// Modes are all modes, with their names.
var Modes = []struct {
	Name string
	Mode commitlog.Mode
}{{"fsync", commitlog.Fsync}, {"interval", commitlog.Interval}, {"none", commitlog.None}}

// Run checks that a log keeps the contract of package commitlog in every mode.
func Run(t *testing.T, create New) {
	t.Helper()
	for _, m := range Modes {
		for _, test := range []struct {
			name string
			run  func(l *log)
		}{
			{"ReadBack", testReadBack},
			{"Reopen", testReopen},
			{"OpenFrom", testOpenFrom},
			{"OpenSafe", testOpenSafe},
			{"Sizes", testSizes},
			{"ContentIsNotShared", testContentIsNotShared},
			{"VisitFails", testVisitFails},
			{"Trim", testTrim},
			{"TrimAll", testTrimAll},
			{"OpenTrimmed", testOpenTrimmed},
			{"Safe", testSafe},
			{"Done", testDone},
			{"Closed", testClosed},
			{"Stats", testStats},
			{"Beside", testBeside},
		} {
			t.Run(test.name+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				l := &log{T: t, mode: m.Mode, create: create(t, m.Mode), first: 1}
				l.open(1)
				test.run(l)
				if l.Log != nil {
					l.close()
				}
			})
		}
	}
}

// log is a log under test and what it must hold.
type log struct {
	*testing.T
	commitlog.Log
	mode   commitlog.Mode
	create Open
	first  uint64   // of want
	want   [][]byte // contents of the records
}

func (l *log) last() uint64 { return l.first + uint64(len(l.want)) - 1 }

// open opens the log and checks what it reads on the way.
func (l *log) open(from uint64) {
	l.Helper()
	var err error
	l.check(from, func(visit commitlog.Visit) error {
		l.Log, err = l.create(from, 0, visit)
		return err
	})
	if err != nil {
		l.FailNow()
	}
}

func (l *log) close() {
	l.Helper()
	if err := l.Close(); err != nil {
		l.Errorf("Close: %v", err)
	}
	l.Log = nil
}

// check checks that what is read from a number on is what was appended.
func (l *log) check(from uint64, read func(visit commitlog.Visit) error) {
	l.Helper()
	next := from
	err := read(func(number uint64, content []byte) error {
		if number != next || number > l.last() {
			l.Fatalf("from %d: record %d is read, want %d of %d", from, number, next, l.last())
		}
		if want := l.want[number-l.first]; !bytes.Equal(content, want) {
			l.Fatalf("record %d is read as %d bytes %.20q, want %d bytes %.20q",
				number, len(content), content, len(want), want)
		}
		next++
		return nil
	})
	if err != nil || next != max(from, l.last()+1) {
		l.Errorf("from %d: read up to %d of %d: %v", from, next-1, l.last(), err)
	}
}

// checkRead checks what Read visits.
func (l *log) checkRead(from uint64) {
	l.Helper()
	l.check(from, func(visit commitlog.Visit) error { return l.Read(from, visit) })
}

// append appends a record and returns when it counts as written.
func (l *log) append(content []byte) {
	l.Helper()
	l.want = append(l.want, bytes.Clone(content))
	if err := Append(l.Log, l.last(), content); err != nil {
		l.Fatal(err)
	}
}

// fill appends n records of different sizes.
func (l *log) fill(count int) {
	l.Helper()
	for range count {
		l.append(Content(l.last()+1, 0))
	}
}

// Content returns what the suite gives the record of a number. Other lives give it another content.
func Content(number, life uint64) []byte {
	rng := rand.New(rand.NewPCG(number, life)) //nolint:gosec // no secret
	size := []int{0, 1, 7, 8, 9, 40, 300, 700, 1500}[rng.IntN(9)]
	if rng.IntN(15) == 0 {
		size = SegmentBytes + rng.IntN(SegmentBytes)
	}
	text := fmt.Appendf(nil, "record %d of life %d ", number, life)
	return bytes.Repeat(text, size/len(text)+1)[:size]
}

// Append appends a record and returns when it counts as written, or has failed. It must have the given number.
func Append(l commitlog.Log, number uint64, content []byte) error {
	done := make(chan error, 2)
	l.Append(content, func(n uint64, err error) {
		if err == nil && n != number {
			err = fmt.Errorf("the record has number %d, want %d", n, number)
		}
		done <- err
	})
	return <-done
}

func testReadBack(l *log) {
	l.checkRead(1)
	for range 60 {
		l.fill(1)
		l.checkRead(l.last())
	}
	for from := uint64(1); from <= l.last()+2; from++ {
		l.checkRead(from)
	}
}

func testReopen(l *log) {
	for life := range 12 {
		l.fill(life * 2 % 7) // none at all now and then
		l.close()
		l.open(1)
		if got := l.Safe(); got != l.last() {
			l.Errorf("what was read when the log was opened, up to %d, is safe up to %d", l.last(), got)
		}
		l.checkRead(1)
	}
	for from := uint64(1); from <= l.last()+1; from++ {
		l.close()
		l.open(from)
		l.checkRead(from)
	}
	l.close()
	l.open(1) // only Trim gives records up
}

// testOpenFrom opens a log for a state that is ahead of it, as it may be where nothing is synced: the log goes on
// behind the state.
func testOpenFrom(l *log) {
	l.fill(5)
	l.close()
	l.first, l.want = 40, nil
	l.open(40)
	for range 3 {
		l.fill(10)
		l.checkRead(40)
		l.close()
		l.open(40)
	}
	for from := uint64(1); from < 40; from += 13 {
		n := uint64(0)
		err := l.Read(from, func(number uint64, _ []byte) error {
			if n++; number != from+n-1 {
				l.Errorf("from %d: record %d is read behind %d others", from, number, n-1)
			}
			return nil
		})
		if !errors.Is(err, commitlog.ErrTrimmed) {
			l.Errorf("records from %d on are read with a gap up to 40: %v", from, err)
		}
	}
}

// testOpenSafe opens a log that must hold more than it does.
func testOpenSafe(l *log) {
	l.fill(20)
	l.close()
	for _, from := range []uint64{1, 10, 21} {
		got, err := l.create(from, 21, func(uint64, []byte) error { return nil })
		if !errors.Is(err, store.ErrCorrupt) {
			l.Errorf("from %d: a log of 20 records that must have 21 is opened: %v", from, err)
		}
		if err == nil {
			_ = got.Close()
		}
	}
	var err error
	if l.Log, err = l.create(1, 20, func(uint64, []byte) error { return nil }); err != nil {
		l.Fatal(err)
	}
	l.fill(1)
	l.checkRead(1)
}

func testSizes(l *log) {
	const block = 4 << 10
	for _, size := range []int{
		0, 0, 1, 23, 24, 25, 0, block - 24, 0, block - 25, block - 23, block, 2 * block, 0,
		SegmentBytes - block - 48, SegmentBytes - block - 47,
		SegmentBytes - block - 24, SegmentBytes, 10 * SegmentBytes, 0, 10*SegmentBytes + 1, 3, 0,
	} {
		l.append(bytes.Repeat([]byte("x"), size))
	}
	l.checkRead(1)
	l.close()
	l.open(1)
	l.checkRead(1)
}

// testContentIsNotShared changes what was appended, and what was read.
func testContentIsNotShared(l *log) {
	p := []byte("what is appended")
	l.append(p)
	clear(p)
	var kept [][]byte
	keep := func(_ uint64, content []byte) error {
		kept = append(kept, content)
		return nil
	}
	if err := l.Read(1, keep); err != nil {
		l.Fatal(err)
	}
	l.fill(30)
	if string(kept[0]) != "what is appended" {
		l.Errorf("what was read is now %q", kept[0])
	}
	clear(kept[0])
	l.checkRead(1)
}

func testVisitFails(l *log) {
	l.fill(30)
	failure := errors.New("no more")
	visits := 0
	stop := func(number uint64, _ []byte) error {
		if visits++; number == 20 {
			return failure
		}
		return nil
	}
	if err := l.Read(15, stop); !errors.Is(err, failure) || visits != 6 {
		l.Errorf("Read visits %d records and says %v", visits, err)
	}
	l.close()
	visits = 0
	if _, err := l.create(15, 0, stop); !errors.Is(err, failure) || visits != 6 {
		l.Errorf("Open visits %d records and says %v", visits, err)
	}
	l.open(1)
	l.fill(1)
	l.checkRead(1)
}

// checkTrimmed checks what is read of a log that was trimmed up to a number: all from a number on, or what is not there
// any more is told.
func (l *log) checkTrimmed(number uint64) {
	l.Helper()
	for from := uint64(1); from <= number; from++ {
		next := from
		err := l.Read(from, func(n uint64, content []byte) error {
			if n != next || !bytes.Equal(content, l.want[n-1]) {
				l.Errorf("trimmed up to %d, read from %d: record %d is read as %.20q, want record %d",
					number, from, n, content, next)
			}
			next++
			return nil
		})
		isTrimmed := errors.Is(err, commitlog.ErrTrimmed) && !errors.Is(err, store.ErrCorrupt)
		if err == nil && next != l.last()+1 || err != nil && !isTrimmed {
			l.Errorf("trimmed up to %d, read from %d: up to %d of %d: %v", number, from, next-1, l.last(), err)
		}
	}
	for from := number + 1; from <= l.last()+1; from++ {
		l.checkRead(from)
	}
}

func testTrim(l *log) {
	for number := uint64(0); number < 150; number += 1 + number%9 {
		l.fill(int(number) % 7)
		number = min(number, l.last())
		if err := l.Trim(number); err != nil {
			l.Fatal(err)
		}
		if number%4 == 0 {
			l.close()
			l.open(number + 1)
		}
		l.checkTrimmed(number)
		if number == l.last() {
			l.fill(3)
		}
	}
	if err := l.Trim(3); err != nil { // long ago
		l.Fatal(err)
	}
	if err := l.Read(1, func(uint64, []byte) error { return nil }); !errors.Is(err, commitlog.ErrTrimmed) {
		l.Errorf("after many trims the first record is still there: %v", err)
	}
}

// testTrimAll trims more than there is.
func testTrimAll(l *log) {
	for _, number := range []uint64{0, 1, 1000, 1<<64 - 1} {
		if err := l.Trim(number); err != nil {
			l.Fatal(err)
		}
		l.checkRead(l.last() + 1)
		l.fill(20)
		l.checkRead(l.last() - 19)
	}
	next := l.last() + 1
	if err := l.Trim(1<<64 - 1); err != nil {
		l.Fatal(err)
	}
	if st := l.Stats(); st.Untrimmed > 3*SegmentBytes { // which is what the largest record needs
		l.Errorf("when everything was trimmed %d bytes are not", st.Untrimmed)
	}
	l.close()
	l.open(next)
	l.fill(20)
	l.checkRead(next)
}

// testOpenTrimmed opens a log for a state that needs what was trimmed.
func testOpenTrimmed(l *log) {
	l.fill(120)
	if err := l.Trim(100); err != nil {
		l.Fatal(err)
	}
	l.fill(120) // where that was
	l.close()
	var got []uint64
	opened, err := l.create(1, 0, func(number uint64, _ []byte) error {
		got = append(got, number)
		return nil
	})
	if !errors.Is(err, store.ErrCorrupt) {
		l.Errorf("a log that was trimmed up to 100 is opened from 1 on: %v", err)
	}
	if err == nil {
		_ = opened.Close()
	}
	l.open(101)
}

func testSafe(l *log) {
	if got := l.Safe(); got != 0 {
		l.Errorf("of an empty log %d records are safe", got)
	}
	for range 5 {
		before := l.last()
		for range 4 {
			l.append([]byte("small"))
			want := before
			if l.mode == commitlog.Fsync {
				want = l.last()
			}
			// Another goroutine may look at it first, so that this is what done may rely on.
			if got := l.Safe(); got != want {
				l.Errorf("of %d records %d are safe, want %d", l.last(), got, want)
			}
		}
		if err := l.Sync(); err != nil {
			l.Fatal(err)
		}
		if got := l.Safe(); got != l.last() {
			l.Errorf("of %d records %d are safe after a sync", l.last(), got)
		}
	}
	l.append([]byte("small"))
	l.close() // which syncs
	l.open(1)
}

// testDone has as many records on their way as the log takes.
func testDone(l *log) {
	depth := l.Depth()
	if depth < 1 {
		l.Fatalf("the log takes %d records at once", depth)
	}
	var mu sync.Mutex
	var numbers []uint64
	for range 20 {
		var wg sync.WaitGroup
		for range depth {
			wg.Add(1)
			content := Content(l.last()+1, 0)
			l.want = append(l.want, content)
			l.Append(bytes.Clone(content), func(number uint64, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					l.Errorf("record %d: %v", number, err)
				}
				if l.mode == commitlog.Fsync && l.Safe() < number {
					l.Errorf("record %d is done, but %d is the last that is safe", number, l.Safe())
				}
				numbers = append(numbers, number)
				wg.Done()
			})
		}
		wg.Wait() // panics if one is done twice
	}
	l.checkRead(1)
	l.close()
	mu.Lock()
	defer mu.Unlock()
	want := make([]uint64, len(l.want))
	for i := range want {
		want[i] = uint64(i + 1)
	}
	if !slices.Equal(numbers, want) {
		l.Errorf("done is called for %v, want %v", numbers, want)
	}
}

func testClosed(l *log) {
	l.fill(10)
	closed := l.Log
	l.close()
	for range 2 {
		called := 0
		closed.Append([]byte("too late"), func(_ uint64, err error) {
			if called++; !errors.Is(err, store.ErrClosed) {
				l.Errorf("a closed log takes a record: %v", err)
			}
		})
		if called != 1 {
			l.Errorf("done is called %d times by a closed log", called)
		}
		if err := closed.Sync(); !errors.Is(err, store.ErrClosed) {
			l.Errorf("a closed log is synced: %v", err)
		}
		if err := closed.Close(); !errors.Is(err, store.ErrClosed) {
			l.Errorf("a closed log is closed: %v", err)
		}
	}
	l.open(1)
}

func testStats(l *log) {
	content := make([]byte, 1000)
	for range 100 {
		l.append(content)
	}
	full := l.Stats()
	if full.Untrimmed < 100*1000 || full.Bytes < full.Untrimmed {
		l.Errorf("with 100 records of 1000 bytes: %d bytes, %d of them not trimmed", full.Bytes, full.Untrimmed)
	}
	if err := l.Trim(90); err != nil {
		l.Fatal(err)
	}
	trimmed := l.Stats()
	if trimmed.Untrimmed < 10*1000 || trimmed.Untrimmed > full.Untrimmed/2 || trimmed.Bytes < trimmed.Untrimmed {
		l.Errorf("after all but 10 were trimmed: %d bytes, %d of them not trimmed", trimmed.Bytes, trimmed.Untrimmed)
	}
	if trimmed.SyncMax > trimmed.Syncs.Sum {
		l.Errorf("the slowest sync took %v, all together %v", trimmed.SyncMax, trimmed.Syncs.Sum)
	}
}

// testBeside calls everything beside Append.
func testBeside(l *log) {
	const count = 1200
	contents := make([][]byte, count+1)
	for n := range contents {
		contents[n] = Content(uint64(n), 0)
	}
	var trimmed, written atomic.Uint64
	var wg sync.WaitGroup
	ended := make(chan struct{})
	repeat := func(do func(rng *rand.Rand)) {
		rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					do(rng)
					runtime.Gosched() // who appends must not wait for its turn
				}
			}
		})
	}
	var safe uint64
	repeat(func(*rand.Rand) {
		got := l.Safe()
		if got < safe {
			l.Errorf("record %d was safe, and now only %d is", safe, got)
		}
		safe = got
		if st := l.Stats(); st.Bytes < st.Untrimmed {
			l.Errorf("%d bytes, and %d of them are not trimmed", st.Bytes, st.Untrimmed)
		}
	})
	repeat(func(*rand.Rand) {
		before := written.Load()
		if err := l.Sync(); err != nil || l.Safe() < before {
			l.Errorf("after a sync %d of %d records are safe: %v", l.Safe(), before, err)
		}
	})
	repeat(func(rng *rand.Rand) {
		number := written.Load() - min(written.Load(), 5+rng.Uint64N(40))
		if number > trimmed.Load() {
			trimmed.Store(number)
			if err := l.Trim(number); err != nil {
				l.Errorf("Trim: %v", err)
			}
		}
	})
	for range 2 {
		repeat(func(rng *rand.Rand) {
			from, least := trimmed.Load()+1+rng.Uint64N(30), written.Load()
			next := from
			err := l.Read(from, func(number uint64, content []byte) error {
				if number != next || number > count || !bytes.Equal(content, contents[number]) {
					return fmt.Errorf("record %d is read as %.40q, want record %d", number, content, next)
				}
				next++
				return nil
			})
			switch {
			case errors.Is(err, commitlog.ErrTrimmed):
				if trimmed.Load() < from {
					l.Errorf("trimmed up to %d, and read from %d: %v", trimmed.Load(), from, err)
				}
			case err != nil, next <= least && from <= least:
				l.Errorf("read from %d on up to %d, of at least %d: %v", from, next-1, least, err)
			}
		})
	}
	for n := uint64(1); n <= count; n++ {
		if err := Append(l.Log, n, contents[n]); err != nil {
			l.Errorf("record %d: %v", n, err)
			break
		}
		written.Store(n)
	}
	close(ended)
	wg.Wait()
}
