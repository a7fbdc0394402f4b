package lmstfy

import (
	"math"
	"sync"
	"time"
)

// side is what a limit bounds: reads are calls that consume, writes calls that
// publish. Other calls are never limited.
type side uint8

const (
	sideNone side = iota
	sideRead
	sideWrite

	sideCount = int(sideWrite) + 1
)

// sideNames are the names in answers and metrics.
var sideNames = [sideCount]string{sideRead: "consume", sideWrite: "produce"}

// limits are how many calls a token may make within an interval in seconds; zero is
// no limit.
type limits struct {
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Interval int64 `json:"interval"`
}

func (l *limits) of(s side) int64 {
	if s == sideRead {
		return l.Read
	}
	return l.Write
}

// length is the interval as a duration.
func (l *limits) length() time.Duration {
	return time.Duration(min(l.Interval, math.MaxInt64/int64(time.Second))) * time.Second
}

// limiter counts the calls of one token in fixed windows, which begin with the
// first call that counts.
type limiter struct {
	mu      sync.Mutex // guards what follows
	limits  limits
	windows [sideCount]window
	refused [sideCount]uint64
}

type window struct {
	begun time.Time
	used  int64
	num   uint64 // tells this window from later ones
}

// ticket is a call that has been counted and may be given back.
type ticket struct {
	limiter *limiter
	side    side
	window  uint64
}

// take counts a call, or reports that there were too many.
func (l *limiter) take(s side, now time.Time) (ticket, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.windows[s]
	if w.used <= 0 || now.Sub(w.begun) >= l.limits.length() {
		*w = window{begun: now, num: w.num + 1}
	}
	if most := l.limits.of(s); most > 0 && w.used >= most {
		l.refused[s]++
		return ticket{}, false
	}
	w.used++
	return ticket{limiter: l, side: s, window: w.num}, true
}

// giveBack takes a call back that has not succeeded.
func (t ticket) giveBack() {
	if t.limiter == nil {
		return
	}
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	if w := &t.limiter.windows[t.side]; w.num == t.window {
		w.used--
	}
}

// set changes the limits; what has been counted stays counted.
func (l *limiter) set(to limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = to
}

func (l *limiter) get() limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

func (l *limiter) refusals(s side) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[s]
}
