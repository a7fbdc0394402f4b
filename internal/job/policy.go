package job

import (
	"math"
	"time"
)

// Policy is what the push fixed about a job's life. It travels with the job
// whichever door it leaves through.
type Policy struct {
	// Priority orders ready jobs of a queue, higher first.
	Priority int64

	// Lease is how long a fetch holds the job if the fetch itself does not say.
	// Zero means until it is settled or its holder ends.
	Lease time.Duration

	// ExpireAt is when the job ends unserved; zero or Never means it does not expire.
	ExpireAt Time
	Expiry   Expiry

	// MaxAttempts bounds the deliveries, MaxFails the failures; zero is no bound.
	MaxAttempts uint32
	MaxFails    uint32

	// Backoff is the delay before a failed job is ready again.
	Backoff Backoff

	Lapse   Lapse // what a lapsed lease counts as
	Requeue Place // where a job returns to that goes straight back to ready
	Due     Place // where a job goes whose schedule or back-off has ended

	Exhaust   Exhaust // what happens when attempts or failures are used up
	DeadQueue string  // ExhaustMove: the queue to move to; empty drops the job

	DeadFor   time.Duration // ExhaustDead: how long the dead job is kept; zero is for ever
	DeadMax   uint32        // ExhaustDead: dead jobs kept in the queue, oldest dropped first; zero is no bound
	DeadSlots bool          // deleting a dead job leaves its slot in the dead list, counted but empty

	// Keep leaves a successful job as Done, with its result, until it expires.
	Keep bool
}

// Expiry says in which states an expired job ends.
type Expiry uint8

// The expiries.
const (
	ExpireAlways  Expiry = iota // in any state but Dead
	ExpireWaiting               // only while it waits: scheduled, blocked, retrying or ready
)

// Lapse says what the end of a lease without an answer is.
type Lapse uint8

// The lapses.
const (
	LapseRequeue Lapse = iota // back to ready, or exhausted when no attempt is left
	LapseFail                 // a failure like any other
)

// Exhaust says what becomes of a job that has used up its tries.
type Exhaust uint8

// The exhaustions.
const (
	ExhaustDrop Exhaust = iota // gone
	ExhaustDead                // into the queue's dead list, without its expiry
	ExhaustKeep                // Failed, with its result, until it expires
	ExhaustMove                // into DeadQueue with its counters reset, or gone without one
)

// Place says where in the order of a queue a job becomes ready.
type Place uint8

// The places. Order within a queue is by rank, priority, time and sequence.
const (
	PlaceTail  Place = iota // behind its equals in priority
	PlaceOld                // where it was before, by priority, then its first arrival
	PlaceHead               // ahead of everything that is ready, whatever its priority
	PlaceBack               // behind everything that is ready, whatever its priority
	PlaceDue                // ahead of jobs that never waited, earliest due time first
	PlaceSched              // by priority, then the time it was scheduled for, then its first arrival
)

// Backoff is a delay that grows with the failures. With n = failures - Skip it
// is n^Power units + Base + a random 0..Jitter-1 times (n+1) units.
type Backoff struct {
	Unit   time.Duration // zero: no delay at all
	Power  uint8
	Skip   uint8
	Base   time.Duration
	Jitter uint32
	Floor  bool // round the due time down to the whole second
}

// After returns when a job that failed now for the fails-th time is due. The
// random number decides the jitter.
func (b Backoff) After(now Time, fails uint32, rnd uint64) Time {
	if b.Unit <= 0 {
		return now
	}
	n := int64(fails) - int64(b.Skip)
	n = max(n, 0)
	units := int64(1)
	for range b.Power {
		units = mulSat(units, n)
	}
	if b.Jitter > 0 {
		units = addSat(units, mulSat(int64(rnd%uint64(b.Jitter)), n+1)) //nolint:gosec // the remainder fits: Jitter has 32 bits
	}
	t := now.Add(time.Duration(mulSat(units, int64(b.Unit)))).Add(b.Base)
	if b.Floor && t != Never {
		t = t.FloorSecond()
	}
	return t
}

func mulSat(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

func addSat(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
