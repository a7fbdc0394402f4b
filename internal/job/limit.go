package job

import (
	"math"
	"time"
)

// Limits say how many jobs of a queue may be in the hands of workers at a time, and how fast they are given out. Zero
// is no limit.
type Limits struct {
	Concurrency uint32 // most jobs that are leased at a time
	Worker      uint32 // most of them that one holder has
	// SlotFor, if positive, frees the slot of a lease that long after it began, although the lease goes on.
	SlotFor time.Duration
	// Rate is how many jobs are given out in each Per at most. Burst is how many may be given out at once after a quiet
	// time; zero stands for one.
	Rate  uint32
	Per   time.Duration
	Burst uint32
	// The same for the jobs of each group. Without GroupConcurrency the jobs of a group are leased one at a time, or
	// in a fair queue without a limit.
	GroupConcurrency uint32
	GroupRate        uint32
	GroupPer         time.Duration
	GroupBurst       uint32
}

// The bounds of what limits may say.
const (
	RateMax    = 1_000_000
	BurstMax   = 1_000_000
	RatePerMax = 24 * time.Hour
)

// IsZero reports whether nothing is limited.
func (l Limits) IsZero() bool {
	return l.Concurrency == 0 && l.Worker == 0 && l.Rate == 0 && l.GroupConcurrency == 0 && l.GroupRate == 0
}

// OfGroup returns what limits the rate of each group, as a limit of a queue does.
func (l *Limits) OfGroup() Limits {
	return Limits{Rate: l.GroupRate, Per: l.GroupPer, Burst: l.GroupBurst}
}

// Tidy returns the limits without what has no effect, or says why they cannot be.
func (l Limits) Tidy() (Limits, *Error) {
	if l.Concurrency == 0 && l.Worker == 0 {
		l.SlotFor = 0
	}
	if l.SlotFor < 0 {
		return Limits{}, &Error{Kind: Invalid, Text: "the time after which a slot is free must not be negative"}
	}
	for _, rate := range []struct {
		jobs  *uint32
		per   *time.Duration
		burst *uint32
	}{{&l.Rate, &l.Per, &l.Burst}, {&l.GroupRate, &l.GroupPer, &l.GroupBurst}} {
		if *rate.jobs == 0 {
			*rate.per, *rate.burst = 0, 0
			continue
		}
		if err := checkRate(*rate.jobs, *rate.per, *rate.burst); err != nil {
			return Limits{}, err
		}
		*rate.burst = max(*rate.burst, 1)
	}
	return l, nil
}

func checkRate(jobs uint32, per time.Duration, burst uint32) *Error {
	switch {
	case jobs > RateMax:
		return &Error{Kind: Invalid, Text: "a rate is at most 1000000 jobs"}
	case per < time.Millisecond || per > RatePerMax || per%time.Microsecond != 0:
		return &Error{Kind: Invalid, Text: "a rate counts jobs in one millisecond at least and in one day at most"}
	case burst > BurstMax:
		return &Error{Kind: Invalid, Text: "a burst is at most 1000000 jobs"}
	}
	return nil
}

// Bucket is what is left of a rate: Level is in parts of a job, of which a whole one has as many as Per has
// microseconds. So the arithmetic is exact.
type Bucket struct {
	Level int64
	At    Time // when it had that level
}

func (l *Limits) whole() int64 { return l.Per.Microseconds() }

// Full returns the bucket of a rate after a quiet time.
func (l *Limits) Full(now Time) Bucket { return Bucket{Level: int64(l.Burst) * l.whole(), At: now} }

// Fill returns the bucket as it is now.
func (l *Limits) Fill(b Bucket, now Time) Bucket {
	full := l.Full(now)
	if l.Rate == 0 || now < b.At {
		return b
	}
	missing, passed := full.Level-b.Level, int64(now-b.At)
	if passed >= (missing+int64(l.Rate)-1)/int64(l.Rate) { // else what has passed, times the rate, fits
		return full
	}
	return Bucket{Level: b.Level + passed*int64(l.Rate), At: now}
}

// Take returns the bucket after a job has been given out, which Fill has been asked for.
func (l *Limits) Take(b Bucket) Bucket {
	b.Level -= l.whole()
	return b
}

// Jobs returns how many jobs a bucket lets out at once.
func (l *Limits) Jobs(b Bucket) uint64 {
	if l.Rate == 0 {
		return math.MaxUint64
	}
	return uint64(max(b.Level, 0) / l.whole()) //nolint:gosec // not negative
}

// NextJob returns when a bucket lets the next job out; its time if it does already.
func (l *Limits) NextJob(b Bucket) Time {
	missing := l.whole() - b.Level
	if missing <= 0 {
		return b.At
	}
	return b.At + Time((missing+int64(l.Rate)-1)/int64(l.Rate))
}

// FullAt returns when a bucket is full if nothing is given out; its time if it is.
func (l *Limits) FullAt(b Bucket) Time {
	missing := int64(l.Burst)*l.whole() - b.Level
	return b.At + Time((max(missing, 0)+int64(l.Rate)-1)/int64(l.Rate))
}

// Refit returns the bucket for other limits than those it was made for: the whole jobs in it stay, as far as the new
// burst goes. A rate where there was none begins with a full one.
func (l *Limits) Refit(old *Limits, b Bucket, now Time) Bucket {
	switch {
	case l.Rate == 0:
		return Bucket{}
	case old.Rate == 0:
		return l.Full(now)
	case l.Rate == old.Rate && l.Per == old.Per && l.Burst == old.Burst:
		return b
	}
	n := min(old.Jobs(old.Fill(b, now)), uint64(l.Burst))
	return Bucket{Level: int64(n) * l.whole(), At: now} //nolint:gosec // at most BurstMax
}
