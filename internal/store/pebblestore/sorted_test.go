package pebblestore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/store"
)

// TestInOrder sorts batches of keys that begin with the same bytes, are prefixes of each other, or come twice.
func TestInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var b store.Batch
		type entry struct {
			key    []byte
			offset uint32
		}
		var want []entry
		kinds, common, length := 1+rnd.IntN(3), rnd.IntN(12), 1+rnd.IntN(10)
		for range rnd.IntN(60) {
			key := []byte{byte('j' + rnd.IntN(kinds))}
			for range common {
				key = append(key, 'c')
			}
			for range rnd.IntN(length) {
				key = append(key, byte(rnd.IntN(3)))
			}
			if rnd.IntN(50) == 0 {
				key = nil
			}
			at := b.Offset()
			b.Set(key, []byte("value"))
			if rnd.IntN(10) == 0 {
				b.Void(at)
				continue
			}
			want = append(want, entry{key, at})
		}
		slices.SortStableFunc(want, func(x, y entry) int { return slices.Compare(x.key, y.key) })
		got := inOrder(&b)
		if !slices.EqualFunc(got, want, func(at uint32, e entry) bool { return at == e.offset }) {
			t.Fatalf("batch %x is put in the order %v, want %v", b.Bytes(), got, want)
		}
	}
}
