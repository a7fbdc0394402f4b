package replica

import (
	"time"

	"millrace/internal/job"
)

// slewShare is how quickly the time of a term approaches the clock of the machine: one second in so many.
const slewShare = 20

// Clock is the time of a term. It goes on where the term before has stopped: it never goes back and does not jump, and
// approaches the clock of this machine slowly.
type Clock struct {
	now   func() time.Time // the machine's
	began time.Time        // with its monotonic reading
	base  job.Time
	off   time.Duration // how far the machine's clock was ahead of base then
}

func newClock(now func() time.Time, began time.Time, base job.Time) Clock {
	return Clock{now: now, began: began, base: base, off: job.TimeOf(began).Sub(base)}
}

// Now returns the time of the term.
func (c Clock) Now() job.Time {
	passed := c.now().Sub(c.began)
	slew := passed / slewShare
	return c.base.Add(passed + min(max(c.off, -slew), slew))
}

// timeHeard is a time of the leader, and when this node heard of it.
type timeHeard struct {
	at    time.Time
	value job.Time
}

// base returns the time that a term which begins now begins with.
func (h timeHeard) base(now time.Time, last job.Time) job.Time {
	if h.at.IsZero() { // this node has just been started
		return max(job.TimeOf(now), last)
	}
	return max(h.value.Add(now.Sub(h.at)), last)
}
