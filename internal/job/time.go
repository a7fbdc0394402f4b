package job

import (
	"math"
	"time"
)

// Time is an instant in microseconds since 1970-01-01 UTC. Unlike time.Time it
// saturates instead of overflowing, takes eight bytes and sorts as a number.
// Zero means "not set".
type Time int64

// Never is later than every instant.
const Never Time = math.MaxInt64

// TimeOf converts t, rounding up to the next microsecond: something that is due
// at a Time made from t is never early.
func TimeOf(t time.Time) Time {
	if t.Year() > 200000 {
		return Never
	}
	us := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		us++
	}
	return Time(us)
}

// Add returns t+d, saturating at Never; a fraction of a microsecond counts as a
// whole one.
func (t Time) Add(d time.Duration) Time {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	if us > 0 && int64(t) > math.MaxInt64-us {
		return Never
	}
	return t + Time(us)
}

// Sub returns t-u, saturating at the limits of a Duration.
func (t Time) Sub(u Time) time.Duration {
	us := int64(t) - int64(u)
	switch {
	case us > math.MaxInt64/1000:
		return math.MaxInt64
	case us < math.MinInt64/1000:
		return math.MinInt64
	default:
		return time.Duration(us) * time.Microsecond
	}
}

// FloorSecond returns t rounded down to the whole second.
func (t Time) FloorSecond() Time { return t - ((t%1e6)+1e6)%1e6 }

// Std converts to a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Earlier returns the earlier of two instants, where zero counts as not set.
func Earlier(a, b Time) Time {
	switch {
	case a == 0:
		return b
	case b == 0 || a < b:
		return a
	default:
		return b
	}
}
