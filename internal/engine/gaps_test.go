package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGaps sets and deletes keys at random, and looks whether scans that leave gaps out find what is there.
func TestGaps(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var g gaps
	var keys [][]byte // in order
	key := func() []byte { return fmt.Appendf(nil, "%03d", rnd.IntN(1000)) }
	at := func(k []byte) (int, bool) { return slices.BinarySearchFunc(keys, k, bytes.Compare) }
	most := 0
	for range 100_000 {
		most = max(most, len(g.list))
		switch k := key(); rnd.IntN(8) {
		case 0:
			if i, there := at(k); !there {
				g.fill(k)
				keys = slices.Insert(keys, i, k)
			}
		case 1, 2, 3:
			if i, there := at(k); there {
				keys = slices.Delete(keys, i, i+1)
			}
		default:
			hi := key()
			if bytes.Compare(k, hi) > 0 {
				k, hi = hi, k
			}
			first, _ := at(k)
			last, _ := at(hi)
			var got [][]byte
			for lo, end := k, []byte(nil); !bytes.Equal(end, hi); lo = end {
				if lo, end = g.firstOutside(lo, hi); bytes.Compare(lo, hi) >= 0 {
					break
				}
				w := g.watch(lo)
				i, _ := at(lo)
				k, _ := at(end)
				for _, key := range keys[i:k] {
					w.passed += rnd.IntN(2 * gapKeysMin)
					w.reached(key)
					got = append(got, key)
				}
				w.passed += rnd.IntN(2 * gapKeysMin)
				w.reached(end)
			}
			if want := keys[first:last]; !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("from %s to %s: %s, want %s; gaps %s", k, hi, got, want, g.list)
			}
		}
		for i := 1; i < len(g.list); i++ {
			if bytes.Compare(g.list[i-1].hi, g.list[i].lo) >= 0 {
				t.Fatalf("gaps overlap or touch: %s", g.list)
			}
		}
	}
	if most != gapsMax {
		t.Errorf("at most %d gaps, want %d", most, gapsMax)
	}
}

// A key that is set while a scan goes on is not taken for missing.
func TestGapsWhileScanning(t *testing.T) {
	t.Parallel()
	var g gaps
	w := g.watch([]byte("a"))
	g.fill([]byte("b"))
	w.passed = gapKeysMin
	w.reached([]byte("c"))
	if len(g.list) != 0 {
		t.Errorf("gaps %s", g.list)
	}
}
