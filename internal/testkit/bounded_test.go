package testkit

import "testing"

// recorder is a test that notes its failure instead of ending.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(string, ...any) { r.failed = true }

// TestBounded is not parallel, because it counts all allocations.
func TestBounded(t *testing.T) {
	var kept []byte
	for _, tt := range []struct {
		size, allocate int
		failed         bool
	}{{0, 1000, false}, {1 << 20, 4 << 20, false}, {1 << 20, 5 << 20, true}, {10, 1 << 20, true}} {
		r := &recorder{TB: t}
		Bounded(r, tt.size, func() { kept = make([]byte, tt.allocate) })
		if r.failed != tt.failed {
			t.Errorf("%d bytes for an input of %d: failed is %v", len(kept), tt.size, r.failed)
		}
	}
}
