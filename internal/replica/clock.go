package replica

import (
	"time"

	"millrace/internal/job"
)

// slewShare is how quickly the time of a term approaches the clock of the machine: one second in this many.
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

// estimate is what a node that does not lead knows of the time. All it hears is late by as long as it was on its way,
// so it takes what is latest. Between two of them it counts as slowly as the clock of a leader may go, so that it is
// never ahead of that.
type estimate struct {
	// 0: nobody has told this node the time since it was started; it knows entries only, which may be of long ago.
	term  uint64
	at    time.Time
	value job.Time
}

// now returns the time, at a time of the machine; 0: nothing is known.
func (e estimate) now(at time.Time) job.Time {
	if e.at.IsZero() {
		return 0
	}
	passed := at.Sub(e.at)
	return e.value.Add(passed - passed/slewShare)
}

// raise notes that the time has come to a value.
func (e *estimate) raise(at time.Time, value job.Time) {
	if value > e.now(at) {
		e.at, e.value = at, value
	}
}

// hear notes what time it is in a term. That of a later term counts alone, whatever the one before has come to.
func (e *estimate) hear(at time.Time, term uint64, value job.Time) {
	if term > e.term {
		*e = estimate{term, at, value}
	} else if term == e.term {
		e.raise(at, value)
	}
}

// base returns the time that a term begins with which begins after a batch of a time.
func (e estimate) base(at time.Time, last job.Time) job.Time {
	last = max(last, e.now(at))
	if e.term == 0 {
		last = max(last, job.TimeOf(at))
	}
	return last
}
