package job

// BatchID is the number of a batch. Zero is none. Numbers come from the same sequence
// as those of jobs.
type BatchID uint64

// BatchInfo is what is known about a batch at one moment.
type BatchInfo struct {
	ID        BatchID
	Namespace string
	Parent    BatchID
	Text      string
	Created   Time
	Open      bool   // not committed, or opened again since
	Total     uint64 // jobs that ever joined
	Pending   uint64 // of those, not yet succeeded
	Failed    uint64 // of those pending, that have failed, or that are dead or gone
	Children  uint64 // child batches that have not succeeded
	Complete  Callback
	Success   Callback
	ForgetAt  Time
}

// Callback is how far a callback of a batch is.
type Callback uint8

// The callbacks' stages. A batch that has no such callback goes straight to the last.
const (
	CallbackWaiting Callback = iota
	CallbackPushed
	CallbackAcked
)

// Outcome is how a tracked job that is gone has ended.
type Outcome uint8

// The outcomes.
const (
	Alive     Outcome = iota // it has not ended
	Succeeded                // acked
	Died                     // exhausted, and not kept
	Removed                  // gone in another way; only of the jobs of schedules
)

// Progress is what is known about a tracked job, alive or ended lately.
type Progress struct {
	Outcome    Outcome
	State      State // of a job that is alive
	Percent    int64
	HasPercent bool
	Text       string
	Updated    Time // the last report or change of state
}
