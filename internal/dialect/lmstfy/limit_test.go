package lmstfy

import (
	"testing"
	"time"
)

// A call that has not succeeded is given back to its own window, and not to the next.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	l := &limiter{limits: limits{Read: 1, Interval: 1}}
	at := time.Unix(1_800_000_000, 0)
	take := func(after time.Duration, want bool) ticket {
		t.Helper()
		got, ok := l.take(sideRead, at.Add(after))
		if ok != want {
			t.Errorf("%v later a call is taken: %v", after, ok)
		}
		return got
	}
	first := take(0, true)
	take(0, false)
	first.giveBack()
	first = take(0, true)
	take(time.Second, true)
	first.giveBack()
	take(time.Second, false)
	if n := l.refusals(sideRead); n != 2 {
		t.Errorf("%d were refused", n)
	}
}
