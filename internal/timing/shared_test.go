package timing_test

import (
	"sync"
	"testing"
	"time"

	"millrace/internal/timing"
)

// What many count at once is what one would have counted.
func TestShared(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{-1, 0, time.Microsecond, 3 * time.Millisecond, time.Second, time.Hour, 1 << 62}
	var shared timing.Shared
	var want timing.Histogram
	var wg sync.WaitGroup
	for range 4 {
		for _, d := range durations[:len(durations)-1] {
			want.Observe(d)
		}
		wg.Go(func() {
			for _, d := range durations[:len(durations)-1] {
				shared.Observe(d)
			}
		})
	}
	wg.Wait()
	if got := shared.Load(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	shared.Observe(durations[len(durations)-1])
	if got := shared.Load(); got.Buckets[timing.Buckets-1] != 1 {
		t.Error("the longest is not in the last bucket")
	}
}
