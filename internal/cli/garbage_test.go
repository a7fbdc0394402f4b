package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		live uint64
		grow uint64 // how much the heap grows until the next collection
	}{
		{live: 0, grow: 0},
		{live: 1 << 20, grow: 20<<20 + 3<<17},
		{live: 20 << 20, grow: 26 << 20},
		{live: 200 << 20, grow: 80 << 20},
		{live: 20 << 30, grow: 6 << 30},
	} {
		got := tc.live * uint64(percentFor(tc.live)) / 100
		if slack := max(tc.live/100, 1<<17); got > tc.grow+slack || got+slack < tc.grow {
			t.Errorf("with %d MiB in use the heap grows by %d bytes until it is collected, want %d",
				tc.live>>20, got, tc.grow)
		}
	}
}

// The heap may grow by less of what is in use when that has become much, and by more when it is little again.
func TestPaceGarbage(t *testing.T) {
	paceGarbage()
	percent := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	// The pace is set by a goroutine of the runtime, soon after a collection.
	collectUntil := func(what string, reached func(percent int) bool) {
		for range 10_000 {
			runtime.GC()
			if reached(percent()) {
				return
			}
		}
		t.Fatalf("with %s in use the heap may grow by %d %%", what, percent())
	}
	with64 := percentFor(64 << 20)
	live := make([]byte, 64<<20)
	collectUntil("64 MiB", func(p int) bool { return p <= with64 })
	runtime.KeepAlive(live)
	collectUntil("little", func(p int) bool { return p > 2*with64 })
}
