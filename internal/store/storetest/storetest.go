// Package storetest holds what the tests of every store.Store share: the
// conformance suite that each implementation must pass, and a wrapper that injects
// faults. It is imported by tests only.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/store"
)

// Harness opens the stores under test.
type Harness struct {
	// Open returns an empty store. The suite closes it.
	Open func(tb testing.TB) store.Store
	// Reopen closes the store and returns it opened again with what it held; nil
	// where nothing outlives Close.
	Reopen func(tb testing.TB, s store.Store) store.Store
	// OpenCheckpoint opens the copy that Checkpoint wrote; nil where there is none.
	OpenCheckpoint func(tb testing.TB, dir string) store.Store
}

type conformanceTest struct {
	name string
	run  func(t *testing.T, h Harness, s store.Store)
}

// Run checks that the store keeps the contract of package store.
func Run(t *testing.T, h Harness) {
	t.Helper()
	tests := []conformanceTest{
		{"GetSetDelete", testGetSetDelete},
		{"GetAppends", testGetAppends},
		{"OrderWithinBatch", testOrderWithinBatch},
		{"DeleteRangeBounds", testDeleteRangeBounds},
		{"ScanBounds", testScanBounds},
		{"ScanStopsAndNests", testScanStopsAndNests},
		{"Snapshot", testSnapshot},
		{"LargeAndOddValues", testLargeAndOddValues},
		{"EmptyBatch", testEmptyBatch},
		{"BatchIsNotRetained", testBatchIsNotRetained},
		{"ConcurrentReaders", testConcurrentReaders},
		{"RandomAgainstModel", testRandomAgainstModel},
		{"Closed", testClosed},
		{"StatsAndFreeBytes", testStatsAndFreeBytes},
	}
	if h.OpenCheckpoint != nil {
		tests = append(tests, conformanceTest{"Checkpoint", testCheckpoint})
	}
	if h.Reopen != nil {
		tests = append(tests, conformanceTest{"Reopen", testReopen})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, h, h.Open(t))
		})
	}
}

// KV is one key with its value.
type KV struct{ Key, Value string }

// Dump returns what a scan of the range visits.
func Dump(tb testing.TB, r store.Reader, rg store.Range) []KV {
	tb.Helper()
	var got []KV
	err := r.Scan(rg, func(key, value []byte) bool {
		got = append(got, KV{string(key), string(value)})
		return true
	})
	if err != nil {
		tb.Fatalf("Scan(%q, %q): %v", rg.Lo, rg.Hi, err)
	}
	return got
}

// Commit commits a batch that fill has filled, and fails the test on error.
func Commit(tb testing.TB, s store.Store, fill func(b *store.Batch)) {
	tb.Helper()
	var b store.Batch
	fill(&b)
	if err := store.CommitNow(s, &b); err != nil {
		tb.Fatalf("Commit: %v", err)
	}
}

func set(tb testing.TB, s store.Store, pairs ...string) {
	tb.Helper()
	Commit(tb, s, func(b *store.Batch) {
		for i := 0; i < len(pairs); i += 2 {
			b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
		}
	})
}

func closeStore(tb testing.TB, s store.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

func wantKeys(tb testing.TB, r store.Reader, rg store.Range, want ...string) {
	tb.Helper()
	var got []string
	for _, kv := range Dump(tb, r, rg) {
		got = append(got, kv.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("Scan(%q, %q, reverse %t) visits other keys (-want +got):\n%s", rg.Lo, rg.Hi, rg.Reverse, diff)
	}
}

func wantGet(tb testing.TB, r store.Reader, key, want string, wantOK bool) {
	tb.Helper()
	got, ok, err := r.Get(nil, []byte(key))
	if err != nil || ok != wantOK || string(got) != want {
		tb.Errorf("Get(%q) = %.40q, %t, %v; want %.40q, %t", key, got, ok, err, want, wantOK)
	}
}

func wantIs(tb testing.TB, want error, got map[string]error) {
	tb.Helper()
	for name, err := range got {
		if !errors.Is(err, want) {
			tb.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

func testGetSetDelete(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	wantGet(t, s, "a", "", false)
	set(t, s, "a", "1", "b", "2")
	wantGet(t, s, "a", "1", true)
	set(t, s, "a", "3")
	wantGet(t, s, "a", "3", true)
	Commit(t, s, func(b *store.Batch) {
		b.Delete([]byte("a"))
		b.Delete([]byte("absent"))
	})
	wantGet(t, s, "a", "", false)
	wantGet(t, s, "b", "2", true)
}

func testGetAppends(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "k", "value")
	got, ok, err := s.Get([]byte("prefix-"), []byte("k"))
	if err != nil || !ok || string(got) != "prefix-value" {
		t.Errorf("Get = %q, %t, %v; want the value appended", got, ok, err)
	}
	got[len(got)-1] = 'X' // The caller owns it.
	wantGet(t, s, "k", "value", true)
	got, ok, err = s.Get([]byte("prefix-"), []byte("absent"))
	if err != nil || ok || string(got) != "prefix-" {
		t.Errorf("Get of an absent key = %q, %t, %v; want dst as it was", got, ok, err)
	}
}

func testOrderWithinBatch(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "old", "b", "old", "c", "old")
	Commit(t, s, func(b *store.Batch) {
		b.Set([]byte("a"), []byte("1"))
		b.Set([]byte("a"), []byte("2")) // The later wins.
		b.Set([]byte("b"), []byte("1"))
		b.Delete([]byte("b"))
		b.Delete([]byte("c"))
		b.Set([]byte("c"), []byte("2"))
		b.Set([]byte("r1"), []byte("gone"))
		b.Set([]byte("r2"), []byte("gone"))
		b.DeleteRange([]byte("r"), []byte("s"))
		b.Set([]byte("r2"), []byte("kept"))
	})
	want := []KV{{"a", "2"}, {"c", "2"}, {"r2", "kept"}}
	if diff := cmp.Diff(want, Dump(t, s, store.Range{})); diff != "" {
		t.Errorf("after one batch (-want +got):\n%s", diff)
	}
}

func testDeleteRangeBounds(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "", "b", "", "c", "", "d", "", "e", "")
	Commit(t, s, func(b *store.Batch) {
		b.DeleteRange([]byte("d"), []byte("b"))     // Upside down: nothing.
		b.DeleteRange([]byte("c"), []byte("c"))     // Empty: nothing.
		b.DeleteRange([]byte("a"), nil)             // An empty upper bound is below every key.
		b.DeleteRange([]byte("b"), []byte("c\x00")) // b and c.
		b.DeleteRange([]byte("x"), []byte("y"))     // No keys there.
	})
	wantKeys(t, s, store.Range{}, "a", "d", "e")
	Commit(t, s, func(b *store.Batch) { b.DeleteRange(nil, []byte("e")) })
	wantKeys(t, s, store.Range{}, "e")
}

func testScanBounds(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "1", "b", "2", "b\x00", "3", "c", "4", "d\xff", "5", "\xff\xff", "6")
	tests := []struct {
		lo, hi string
		want   []string
	}{
		{"", "", []string{"a", "b", "b\x00", "c", "d\xff", "\xff\xff"}},
		{"b", "", []string{"b", "b\x00", "c", "d\xff", "\xff\xff"}},
		{"", "c", []string{"a", "b", "b\x00"}},
		{"b", "c", []string{"b", "b\x00"}},
		{"b\x00", "c\x00", []string{"b\x00", "c"}},
		{"bb", "bc", nil},
		{"c", "b", nil},
		{"c", "c", nil},
		{"d\xff", "e", []string{"d\xff"}},
	}
	for _, test := range tests {
		rg := store.Range{Lo: []byte(test.lo), Hi: []byte(test.hi)}
		wantKeys(t, s, rg, test.want...)
		slices.Reverse(test.want)
		rg.Reverse = true
		wantKeys(t, s, rg, test.want...)
	}
}

func testScanStopsAndNests(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "1", "b", "2", "c", "3")
	for _, reverse := range []bool{false, true} {
		visits := 0
		err := s.Scan(store.Range{Reverse: reverse}, func(_, _ []byte) bool {
			visits++
			// A visitor may read and commit; this scan does not see it.
			wantGet(t, s, "b", "2", true)
			set(t, s, fmt.Sprintf("d%d", visits), "", fmt.Sprintf("A%d", visits), "")
			return visits < 2
		})
		if err != nil || visits != 2 {
			t.Errorf("Scan reverse %t: %d visits, %v; want 2", reverse, visits, err)
		}
	}
	wantKeys(t, s, store.Range{}, "A1", "A2", "a", "b", "c", "d1", "d2")
}

func testSnapshot(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "1", "b", "2", "c", "3")
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	Commit(t, s, func(b *store.Batch) {
		b.Set([]byte("a"), []byte("new"))
		b.Set([]byte("ab"), []byte("new"))
		b.DeleteRange([]byte("b"), []byte("z"))
	})
	wantGet(t, snap, "a", "1", true)
	wantGet(t, snap, "ab", "", false)
	wantGet(t, snap, "c", "3", true)
	wantKeys(t, snap, store.Range{}, "a", "b", "c")
	wantKeys(t, snap, store.Range{Reverse: true}, "c", "b", "a")
	wantKeys(t, s, store.Range{}, "a", "ab")
	for range 2 { // Closing twice is harmless.
		if err := snap.Close(); err != nil {
			t.Errorf("Close of a snapshot: %v", err)
		}
	}
	if _, _, err := snap.Get(nil, []byte("a")); err == nil {
		t.Error("Get on a closed snapshot succeeds")
	}
}

func testLargeAndOddValues(t *testing.T, h Harness, s store.Store) {
	t.Helper()
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16)) // 1 MiB
	allBytes := make([]byte, 256)
	for i := range allBytes {
		allBytes[i] = byte(i)
	}
	longKey := string(bytes.Repeat([]byte{0xfe}, 3000))
	Commit(t, s, func(b *store.Batch) {
		b.Set([]byte("large"), []byte(large))
		b.Set([]byte("empty"), nil)
		b.Set(allBytes, allBytes)
		b.Set([]byte(longKey), []byte("v"))
		b.Set([]byte{0}, []byte{0})
	})
	// More than a memtable in one batch takes another path in some stores.
	Commit(t, s, func(b *store.Batch) {
		for i := range 24 {
			b.Set(fmt.Appendf(nil, "many-%02d", i), []byte(large))
		}
		b.DeleteRange([]byte("many-10"), []byte("many-20"))
	})
	check := func() {
		t.Helper()
		wantGet(t, s, "large", large, true)
		wantGet(t, s, "empty", "", true)
		wantGet(t, s, string(allBytes), string(allBytes), true)
		wantGet(t, s, longKey, "v", true)
		wantGet(t, s, "\x00", "\x00", true)
		wantGet(t, s, "many-09", large, true)
		wantGet(t, s, "many-10", "", false)
		wantGet(t, s, "many-20", large, true)
		if got := len(Dump(t, s, store.Range{Lo: []byte("many"), Hi: []byte("many~")})); got != 14 {
			t.Errorf("%d large values are left, want 14", got)
		}
	}
	check()
	if h.Reopen != nil {
		s = h.Reopen(t, s)
		check()
	}
	closeStore(t, s)
}

func testEmptyBatch(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	Commit(t, s, func(*store.Batch) {})
	Commit(t, s, func(*store.Batch) {})
	Commit(t, s, func(b *store.Batch) { b.DeleteRange([]byte("b"), []byte("a")) })
	wantKeys(t, s, store.Range{})
}

func testBatchIsNotRetained(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	var b store.Batch
	for i := range 3 {
		b.Reset()
		b.Set(fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "v%d", i))
		decoded, err := store.DecodeBatch(slices.Clone(b.Bytes()))
		if err != nil {
			t.Fatalf("DecodeBatch: %v", err)
		}
		if err := store.CommitNow(s, &decoded); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		clear(decoded.Bytes())
	}
	want := []KV{{"k0", "v0"}, {"k1", "v1"}, {"k2", "v2"}}
	if diff := cmp.Diff(want, Dump(t, s, store.Range{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// testConcurrentReaders commits batches that give 20 keys the same value. A reader
// that sees two values in one scan has seen a part of a batch.
func testConcurrentReaders(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	const keys, rounds = 20, 200
	write := func(round int) error {
		var b store.Batch
		b.DeleteRange([]byte("k"), []byte("l"))
		for k := range keys {
			b.Set(fmt.Appendf(nil, "k%02d", k), fmt.Appendf(nil, "%d", round))
		}
		return store.CommitNow(s, &b)
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				values := map[string]int{}
				scan := func(r store.Reader) error {
					return r.Scan(store.Range{Reverse: reader == 1}, func(_, value []byte) bool {
						values[string(value)]++
						return true
					})
				}
				var err error
				if reader < 2 {
					err = scan(s)
				} else if snap, snapErr := s.Snapshot(); snapErr == nil {
					err = errors.Join(scan(snap), snap.Close())
				} else {
					err = snapErr
				}
				if err != nil || len(values) != 1 {
					t.Errorf("a scan sees a part of a batch: %v, %v", values, err)
					return
				}
			}
		})
	}
	for round := range rounds {
		if err := write(round + 1); err != nil {
			t.Errorf("Commit: %v", err)
		}
		wantGet(t, s, "k00", fmt.Sprint(round+1), true)
	}
	close(done)
	wg.Wait()
}

// testRandomAgainstModel compares the store with a map after random batches.
func testRandomAgainstModel(t *testing.T, h Harness, s store.Store) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the seed makes every run the same
	model := map[string]string{}
	key := func() string { return fmt.Sprintf("%03d", rng.IntN(300)) }
	for round := range 300 {
		var b store.Batch
		for range rng.IntN(40) {
			switch k := key(); rng.IntN(10) {
			case 0:
				hi := key()
				b.DeleteRange([]byte(k), []byte(hi))
				for m := range model {
					if m >= k && m < hi {
						delete(model, m)
					}
				}
			case 1, 2, 3:
				b.Delete([]byte(k))
				delete(model, k)
			default:
				v := fmt.Sprint(round)
				b.Set([]byte(k), []byte(v))
				model[k] = v
			}
		}
		if err := store.CommitNow(s, &b); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		if round == 150 && h.Reopen != nil {
			s = h.Reopen(t, s)
		}
		if round%10 != 0 {
			continue
		}
		var want []KV
		for k, v := range model {
			want = append(want, KV{k, v})
		}
		slices.SortFunc(want, func(a, b KV) int { return strings.Compare(a.Key, b.Key) })
		if diff := cmp.Diff(want, Dump(t, s, store.Range{})); diff != "" {
			t.Fatalf("round %d (-model +store):\n%s", round, diff)
		}
		slices.Reverse(want)
		if diff := cmp.Diff(want, Dump(t, s, store.Range{Reverse: true})); diff != "" {
			t.Fatalf("round %d, in reverse (-model +store):\n%s", round, diff)
		}
	}
	closeStore(t, s)
}

func testCheckpoint(t *testing.T, h Harness, s store.Store) {
	t.Helper()
	set(t, s, "a", "1", "b", "2")
	dir := filepath.Join(t.TempDir(), "backups", "first")
	if err := s.Checkpoint(dir); err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	set(t, s, "a", "later")
	if err := s.Checkpoint(dir); err == nil {
		t.Error("Checkpoint onto an existing one succeeds")
	}
	closeStore(t, s)
	c := h.OpenCheckpoint(t, dir)
	want := []KV{{"a", "1"}, {"b", "2"}}
	if diff := cmp.Diff(want, Dump(t, c, store.Range{})); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	set(t, c, "c", "3") // It is a store of its own.
	wantKeys(t, c, store.Range{}, "a", "b", "c")
	closeStore(t, c)
}

func testReopen(t *testing.T, h Harness, s store.Store) {
	t.Helper()
	for i := range 3 {
		set(t, s, fmt.Sprintf("k%d", i), "v", "last", fmt.Sprint(i))
		Commit(t, s, func(b *store.Batch) { b.DeleteRange([]byte("x"), []byte("y")) })
		set(t, s, "x1", fmt.Sprint(i))
		s = h.Reopen(t, s)
	}
	wantKeys(t, s, store.Range{}, "k0", "k1", "k2", "last", "x1")
	wantGet(t, s, "last", "2", true)
	wantGet(t, s, "x1", "2", true)
	closeStore(t, s)
}

func testClosed(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	set(t, s, "a", "1")
	closeStore(t, s)
	var b store.Batch
	b.Set([]byte("a"), nil)
	_, _, getErr := s.Get(nil, []byte("a"))
	_, snapErr := s.Snapshot()
	wantIs(t, store.ErrClosed, map[string]error{
		"Get": getErr, "Snapshot": snapErr, "Commit": store.CommitNow(s, &b),
		"Scan":       s.Scan(store.Range{}, func(_, _ []byte) bool { return true }),
		"Checkpoint": s.Checkpoint(filepath.Join(t.TempDir(), "c")),
		"Close":      s.Close(),
	})
}

func testStatsAndFreeBytes(t *testing.T, _ Harness, s store.Store) {
	t.Helper()
	defer closeStore(t, s)
	set(t, s, "a", "1")
	if st := s.Stats(); st.Commits != 1 || st.CommittedBytes == 0 || st.MemTableBytes == 0 {
		t.Errorf("Stats after one commit = %+v", st)
	}
	if free, err := s.FreeBytes(); err != nil || free == 0 {
		t.Errorf("FreeBytes = %d, %v", free, err)
	}
}
