package engine

import (
	"testing"
	"time"
	"unsafe"

	"millrace/internal/job"
)

// jumped returns the start of an engine whose host's clock was set by d since. Of a time.Time only what the clock on
// the wall showed is changed, not what the monotonic clock did: nothing but the setting of the host's clock does that,
// so that a test has to reach for its bits. The seconds on the wall begin at bit 30, the nanoseconds at bit 0.
func jumped(start time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&start))
	*wall -= uint64(d/time.Second) << 30
	*wall -= uint64(d % time.Second)
	return start
}

// A clock that is set while the engine runs does not reach it: leases last as long as they are, and no time comes
// twice.
func TestNowIgnoresWallClock(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{
		10 * time.Millisecond, -10 * time.Millisecond, time.Hour, -time.Hour,
		24 * time.Hour, -24 * time.Hour,
	} {
		start := time.Now()
		for start.Nanosecond() < 20e6 || start.Nanosecond() > 900e6 { // so that no second is carried
			start = time.Now()
		}
		e := &Engine{start: jumped(start, d), base: job.TimeOf(start)}
		if shown := start.Round(0).Sub(e.start.Round(0)); shown != d {
			t.Fatalf("the clock was set by %v, want %v: a time.Time looks different now", shown, d)
		}
		before := e.Now()
		passed := before.Sub(e.base)
		if truly := time.Since(start); passed < 0 || passed > truly+time.Millisecond {
			t.Errorf("set by %v: %v have passed for the engine, %v in truth", d, passed, truly)
		}
		if now := e.Now(); now < before {
			t.Errorf("set by %v: %v comes after %v", d, now, before)
		}
	}
}
