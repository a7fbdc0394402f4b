package proc

import (
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]time.Duration{
		0: 0, 1.5: 1500 * time.Millisecond, -2: -2 * time.Second, 1e-9: 1, 1e300: Century, -1e300: -Century,
		math.Inf(1): Century, math.Inf(-1): -Century, 100 * 365 * 86400: Century, 3e9: 3e9 * time.Second,
	} {
		if got := Seconds(in); got != want {
			t.Errorf("%g seconds: %s, want %s", in, got, want)
		}
	}
}
