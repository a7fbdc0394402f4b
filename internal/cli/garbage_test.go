package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
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
			t.Errorf("with %d MiB in use the heap grows by %d bytes until it is collected, want %d", tc.live>>20, got, tc.grow)
		}
	}
}

func TestPaceGarbage(t *testing.T) {
	paceGarbage()
	percent := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	small := percent()
	live := make([]byte, 64<<20)
	runtime.GC()
	// The next collection is set by a goroutine of the runtime, soon after this one.
	for end := time.Now().Add(10 * time.Second); percent() > gcPercent+35; {
		if time.Now().After(end) {
			t.Fatalf("the heap may grow by %d %% with 64 MiB in use, as by %d %% before", percent(), small)
		}
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(live)
	if small <= gcPercent+35 {
		t.Errorf("a small heap may grow by %d %% only", small)
	}
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); percent() < small/2; {
		if time.Now().After(end) {
			t.Fatalf("the heap may grow by %d %% when it is small again, by %d %% before", percent(), small)
		}
		time.Sleep(time.Millisecond)
	}
}
