package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The last range delete that has a key is found among many that overlap.
func TestSpansAgainstList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		key := func() []byte { return fmt.Appendf(nil, "%02d", rnd.IntN(40)) }
		var s spans
		var model []span
		for offset := uint32(1); offset <= 200; offset++ {
			lo, hi := key(), key() // empty and inverted ones too
			s.add(lo, hi, offset)
			model = append(model, span{lo, hi, offset})
			for i := range 40 {
				k := fmt.Appendf(nil, "%02d", i)
				want := uint32(0)
				for _, m := range model {
					if bytes.Compare(m.lo, k) <= 0 && bytes.Compare(k, m.hi) < 0 {
						want = m.offset
					}
				}
				if got := s.last(k); got != want {
					t.Fatalf("seed %d: %s is found at %d after %d, want %d", seed, k, got, offset, want)
				}
			}
		}
	}
}

// However many range deletes there are, a read asks few runs, and they hold each once.
func TestSpansStayFew(t *testing.T) {
	t.Parallel()
	var s spans
	const n = 100_000
	for i := range uint32(n) {
		j := i * 7919 % n // in no order
		s.add(fmt.Appendf(nil, "%06d", j), fmt.Appendf(nil, "%06d", j+1), i+1)
	}
	total := 0
	for i, run := range s.runs {
		total += len(run)
		if i > 0 && len(s.runs[i-1]) <= 2*len(run) {
			t.Errorf("run %d of %d is followed by one of %d", i-1, len(s.runs[i-1]), len(run))
		}
	}
	if total != n || len(s.runs) > 17 {
		t.Errorf("%d range deletes are %d spans in %d runs", n, total, len(s.runs))
	}
}
