package job

import "time"

// Past is the life that a pushed job has behind it: one that comes from another server,
// or from an earlier time of this one, begins where it stood. Spec.At means nothing to it.
type Past struct {
	// State is the one that the job begins in: any but Leased. One that is Blocked has blockers; as soon as none of
	// them is left it goes on as if the last had just succeeded.
	State State
	// Created and Since are when the job was made and when it entered State. Zero, or a
	// time that has not come, is the time of the push.
	Created Time
	Since   Time

	// Rank and At are those of its Order: where it comes, or came, among the ready jobs.
	Rank int64
	At   Time
	// OldPlace sends a scheduled job there when it is due, as one that was released for a
	// while.
	OldPlace bool
	// BuriedLast puts a buried job behind those that are buried already.
	BuriedLast bool

	Attempts uint32
	Fails    uint32
	Buries   uint32
	Lapses   uint32
	Releases uint32
	Kicks    uint32
	Delay    time.Duration
	Failures []Failure // as in Job
	Result   []byte    // of a finished job

	// LockedUntil is when the lock of Spec.Lock ends, instead of Spec.LockFor. If that has come the job takes none.
	LockedUntil Time
	// Tried says that the job counts as failed in its batch.
	Tried bool
	// Role says what the job is to Spec.Batch, if it does not count in it: FlagOnComplete or FlagOnSuccess, or with
	// FlagTick the job of a schedule, which Spec.Batch then names.
	Role Flags
}

// BatchPast is the life that a batch has behind it. It is open, whatever it was, until a CommitBatch says that all that
// was left of it has joined again.
type BatchPast struct {
	Created   Time
	Committed Time // the last time; zero: never
	Succeeded Time
	Acked     uint64 // jobs that joined and have succeeded
	Complete  Callback
	Success   Callback
}

// BatchRest ends what a BatchPast has begun. Of the jobs that ever joined those that are not here are gone: they count
// as failed.
type BatchRest struct {
	Total uint64
	Open  bool
}

// SchedulePast is the life that a schedule has behind it. It is paused, whatever it was, until a PauseSchedule says
// that its jobs are here again. Until then its runs do not name their jobs.
type SchedulePast struct {
	Created  Time
	LastTick Time
	LastAt   Time
	Pushed   uint64
	Missed   uint64
	Skipped  uint64
	Runs     []ScheduleRun // Job does not count
}

// Possible reports whether a schedule can have such a past: its ticks came one after the other.
func (p *SchedulePast) Possible() bool {
	last := Time(0)
	for i := range p.Runs {
		r := &p.Runs[i]
		if r.Kind > RunRefused || r.Outcome > Removed || r.Kind == RunPushed && r.Tick <= last {
			return false
		}
		if r.Kind == RunPushed {
			last = r.Tick
		}
	}
	return last <= p.LastTick && len(p.Runs) <= ScheduleRuns
}

// PastRankMax bounds the Rank of a Past, either way: there is room for others ahead and
// behind.
const PastRankMax = 1 << 62
