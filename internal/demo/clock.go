package demo

import (
	"sync/atomic"
	"time"
)

// Clock lags behind that of the machine, less and less.
type Clock struct{ behind atomic.Int64 }

// NewClock returns a clock that lags behind by some time.
func NewClock(behind time.Duration) *Clock {
	c := new(Clock)
	c.behind.Store(int64(max(behind, 0)))
	return c
}

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// catchUp sets the clock forward by a step. It returns how far it still lags behind.
func (c *Clock) catchUp(step time.Duration) time.Duration {
	left := max(time.Duration(c.behind.Load())-step, 0)
	c.behind.Store(int64(left))
	return left
}
