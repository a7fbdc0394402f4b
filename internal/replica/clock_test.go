package replica

import (
	"testing"
	"time"

	"millrace/internal/job"
)

// The time of a term approaches the clock of the machine, one second in twenty, and stays with it then.
func TestClock(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	for _, off := range []time.Duration{-10 * time.Second, 0, 10 * time.Second} {
		now := began
		base := job.TimeOf(began.Add(-off))
		c := newClock(func() time.Time { return now }, began, base)
		for _, passed := range []time.Duration{0, 100 * time.Second, 200 * time.Second, time.Hour} {
			now = began.Add(passed)
			slew := min(max(off, -passed/20), passed/20)
			if got := c.Now(); got != base.Add(passed+slew) {
				t.Errorf("%v after a clock that is %v ahead: %v too late", passed, off, got.Sub(base.Add(passed+slew)))
			}
		}
	}
}

func TestEstimate(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	value := func(seconds int) job.Time { return job.TimeOf(at(seconds)) }
	var e estimate
	if got := e.base(at(0), value(-5)); got != value(0) {
		t.Errorf("a node that knows nothing begins %v after its clock", got.Sub(value(0)))
	}
	e.raise(at(0), value(-100))
	if got := e.base(at(0), value(-100)); got != value(0) {
		t.Errorf("a node that knows entries only begins %v after its clock", got.Sub(value(0)))
	}
	e.hear(at(0), 3, value(1000))
	if got := e.base(at(20), value(-100)); got != value(1019) {
		t.Errorf("20 s after it heard the time it is %v further", got.Sub(value(1000)))
	}
	if got := e.base(at(20), value(1050)); got != value(1050) {
		t.Errorf("it is %v after the last batch", got.Sub(value(1050)))
	}
	e.raise(at(20), value(1010))
	e.hear(at(20), 3, value(1010))
	e.hear(at(20), 2, value(5000))
	if got := e.now(at(20)); got != value(1019) {
		t.Errorf("what came late, or from a leader of before, moves it by %v", got.Sub(value(1019)))
	}
	e.raise(at(20), value(1020))
	if got := e.now(at(20)); got != value(1020) {
		t.Errorf("what is later moves it by %v", got.Sub(value(1019)))
	}
	e.hear(at(20), 4, value(900))
	if got := e.now(at(20)); got != value(900) {
		t.Errorf("in the next term it is %v further", got.Sub(value(900)))
	}
}
