package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/store"
	"millrace/internal/testkit"
)

type entry struct {
	Op         store.Op
	Key, Value string
}

func entries(b *store.Batch) []entry {
	var got []entry
	b.Each(func(op store.Op, key, value []byte) bool {
		got = append(got, entry{op, string(key), string(value)})
		return true
	})
	return got
}

func sample() (*store.Batch, []entry) {
	long := string(bytes.Repeat([]byte("x"), 70_000)) // Three bytes of length.
	want := []entry{
		{store.OpSet, "a", "1"},
		{store.OpSet, "", ""},
		{store.OpDelete, "gone", ""},
		{store.OpInsert, "new", "2"},
		{store.OpSet, long, long},
		{store.OpDeleteRange, "lo", "hi"},
		{store.OpSet, string(bytes.Repeat([]byte("y"), 128)), "\x00\xff"},
	}
	var b store.Batch
	for _, e := range want {
		switch e.Op {
		case store.OpSet:
			b.Set([]byte(e.Key), []byte(e.Value))
		case store.OpInsert:
			b.Insert([]byte(e.Key), []byte(e.Value))
		case store.OpDelete:
			b.Delete([]byte(e.Key))
		case store.OpRemove:
			b.Remove([]byte(e.Key))
		case store.OpDeleteRange:
			b.DeleteRange([]byte(e.Key), []byte(e.Value))
		case store.OpVoidSet, store.OpVoidDelete: // Only Void makes them.
		}
	}
	return &b, want
}

func TestBatchRoundTrip(t *testing.T) {
	t.Parallel()
	b, want := sample()
	if b.Len() != len(want) || b.Size() != len(b.Bytes()) {
		t.Errorf("Len %d, Size %d, want %d, %d", b.Len(), b.Size(), len(want), len(b.Bytes()))
	}
	if diff := cmp.Diff(want, entries(b)); diff != "" {
		t.Errorf("Each (-want +got):\n%s", diff)
	}
	decoded, err := store.DecodeBatch(slices.Clone(b.Bytes()))
	if err != nil {
		t.Fatalf("DecodeBatch: %v", err)
	}
	if diff := cmp.Diff(want, entries(&decoded)); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	decoded.Set([]byte("more"), nil)
	if got := entries(&decoded); len(got) != len(want)+1 {
		t.Errorf("a decoded batch cannot grow: %d entries", len(got))
	}
	b.Reset()
	if b.Len() != 0 || len(entries(b)) != 0 {
		t.Errorf("after Reset: %d entries", b.Len())
	}
}

func TestBatchZeroValue(t *testing.T) {
	t.Parallel()
	var b store.Batch
	if b.Len() != 0 || b.Size() != len(b.Bytes()) || b.First() != b.Offset() || len(entries(&b)) != 0 {
		t.Errorf("zero batch: Len %d, Size %d, Offset %d", b.Len(), b.Size(), b.Offset())
	}
	if _, err := store.DecodeBatch(b.Bytes()); err != nil {
		t.Errorf("DecodeBatch of an empty batch: %v", err)
	}
}

func TestBatchCopiesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	var b store.Batch
	key, value := []byte("key"), []byte("value")
	b.Set(key, value)
	key[0], value[0] = 'X', 'X'
	if diff := cmp.Diff([]entry{{store.OpSet, "key", "value"}}, entries(&b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBatchOffsets(t *testing.T) {
	t.Parallel()
	var b store.Batch
	offsets := map[string]uint32{}
	for i := range 100 {
		key := fmt.Sprintf("key-%d", i)
		offsets[key] = b.Offset()
		b.Set([]byte(key), bytes.Repeat([]byte("v"), i*3))
	}
	for key, offset := range offsets {
		op, k, _, _ := b.At(offset)
		if op != store.OpSet || string(k) != key {
			t.Errorf("At(%d) = %d %q, want a set of %q", offset, op, k, key)
		}
	}
	count := 0
	for i := b.First(); i < b.Offset(); count++ {
		_, _, _, i = b.At(i)
	}
	if count != b.Len() {
		t.Errorf("a walk visits %d entries, want %d", count, b.Len())
	}
}

// TestBatchEachDoesNotAllocate is not parallel, because it counts all allocations.
func TestBatchEachDoesNotAllocate(t *testing.T) {
	b, _ := sample()
	total := 0
	allocs := testing.AllocsPerRun(100, func() {
		b.Each(func(_ store.Op, key, value []byte) bool {
			total += len(key) + len(value)
			return true
		})
	})
	if allocs != 0 {
		t.Errorf("Each allocates %v times", allocs)
	}
}

func TestDecodeBatchRefuses(t *testing.T) {
	t.Parallel()
	b, _ := sample()
	whole := b.Bytes()
	for _, cut := range []int{0, 1, 4, 5, 6, len(whole) - 1} {
		if _, err := store.DecodeBatch(slices.Clone(whole[:cut])); err == nil {
			t.Errorf("%d of %d bytes are accepted", cut, len(whole))
		}
	}
	header := func(count uint32, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{1}, count), rest...)
	}
	for name, p := range map[string][]byte{
		"newer version":      {2, 0, 0, 0, 0},
		"count too high":     header(1),
		"count too low":      header(0, 2, 0),
		"unknown op":         header(1, 9, 0),
		"op zero":            header(1, 0, 0),
		"no key":             header(1, 2),
		"key beyond the end": header(1, 2, 5, 'a'),
		"no value":           header(1, 1, 1, 'a'),
		"huge length":        header(1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"overlong length":    header(1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
	} {
		if _, err := store.DecodeBatch(p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzDecodeBatch checks that what is accepted can be walked and survives being
// written again.
func FuzzDecodeBatch(f *testing.F) {
	var b store.Batch
	b.Set([]byte("key"), []byte("value"))
	b.DeleteRange([]byte("a"), []byte("b"))
	f.Add(slices.Clone(b.Bytes()))
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Add([]byte{1, 1, 0, 0, 0, 2, 1, 'k'})
	f.Add([]byte{1, 1, 0, 0, 0, 2, 0x81, 0x00, 'k'})
	f.Fuzz(func(t *testing.T, p []byte) {
		var b store.Batch
		var err error
		testkit.Bounded(t, len(p), func() { b, err = store.DecodeBatch(p) })
		if err != nil {
			return
		}
		var again store.Batch
		count := 0
		b.Each(func(op store.Op, key, value []byte) bool {
			count++
			switch op {
			case store.OpSet:
				again.Set(key, value)
			case store.OpInsert:
				again.Insert(key, value)
			case store.OpDelete:
				again.Delete(key)
			case store.OpRemove:
				again.Remove(key)
			case store.OpDeleteRange:
				again.DeleteRange(key, value)
			case store.OpVoidSet, store.OpVoidDelete:
				t.Fatalf("Each visits op %d, which has no effect", op)
			default:
				t.Fatalf("op %d was accepted", op)
			}
			return true
		})
		all := 0 // those without an effect included
		for i := b.First(); i < b.Offset(); all++ {
			_, _, _, i = b.At(i)
		}
		if all != b.Len() || count > all {
			t.Fatalf("%d entries with an effect, %d in all, Len %d", count, all, b.Len())
		}
		decoded, err := store.DecodeBatch(again.Bytes())
		if err != nil {
			t.Fatalf("written again: %v", err)
		}
		if first, second := entries(&b), entries(&decoded); !slices.Equal(first, second) {
			t.Fatalf("%v, written again: %v", first, second)
		}
	})
}

func TestBatchEffective(t *testing.T) {
	var scratch store.Batch
	scratch.Set([]byte("of an earlier one"), nil)
	b, want := sample()
	if got := b.Effective(&scratch); &got[0] != &b.Bytes()[0] {
		t.Error("a batch whose changes all have an effect was copied")
	}
	for _, voided := range [][]int{{0}, {0, 3}, {0, 3, 2}, {0, 3, 2, 1, 4, 6}} {
		b, _ := sample()
		left := slices.Clone(want)
		at := b.First()
		for i := range want {
			_, _, _, next := b.At(at)
			if slices.Contains(voided, i) {
				b.Void(at)
				b.Void(at)
				left[i].Op = 0
			}
			at = next
		}
		left = slices.DeleteFunc(left, func(e entry) bool { return e.Op == 0 })
		got, err := store.DecodeBatch(bytes.Clone(b.Effective(&scratch)))
		if err != nil {
			t.Fatalf("voided %v: %v", voided, err)
		}
		if diff := cmp.Diff(left, entries(&got)); diff != "" {
			t.Errorf("voided %v: -want +got\n%s", voided, diff)
		}
		if got.Len() != len(left) {
			t.Errorf("voided %v: %d changes, want %d", voided, got.Len(), len(left))
		}
	}
}
