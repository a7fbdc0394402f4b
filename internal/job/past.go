package job

import "time"

// Past is the life that a pushed job has behind it: one that comes from another server,
// or from an earlier time of this one, begins where it stood. Spec.At means nothing to it.
type Past struct {
	// State is the one that the job begins in: any but Leased and Blocked.
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
}

// PastRankMax bounds the Rank of a Past, either way: there is room for others ahead and
// behind.
const PastRankMax = 1 << 62
