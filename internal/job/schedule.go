package job

// Schedule is an entry that pushes a job again and again.
type Schedule struct {
	Namespace string
	Name      string // unique in its namespace
	When      string // as package schedule reads it
	Zone      string // of the tz database; empty is UTC
	Job       Spec   // what it pushes, to its own namespace
	Missed    Missed
	MissedMax uint32 // MissedAll: how many of them
	Overlap   Overlap
	Source    Source
	Paused    bool // whether it begins so

	// Past, if there is one, says how a new entry begins; with one an entry that is there is refused with Exists.
	Past *SchedulePast
}

// Missed says what becomes of the ticks that came while nobody was there to deal with them.
type Missed uint8

// The rules for missed ticks.
const (
	MissedOnce Missed = iota // one job for all of them
	MissedSkip               // nothing
	MissedAll                // a job for each, the oldest first, up to MissedMax
)

// Overlap says what becomes of a tick that comes while the job of the last one is unfinished.
type Overlap uint8

// The rules for ticks that overlap.
const (
	OverlapAllow Overlap = iota // a job like any other
	OverlapSkip                 // nothing
)

// Source says who has set an entry, and so who may change or remove it.
type Source uint8

// The sources.
const (
	SourceAPI  Source = iota // an operator
	SourceFile               // a file that the server follows
)

// The limits of schedules.
const (
	MaxSchedules     = 2000     // in all namespaces together
	MaxScheduleName  = 200      // bytes
	MaxScheduleBytes = 64 << 10 // of one entry, as it is stored
	MaxMissed        = 1000     // of MissedMax
	ScheduleRuns     = 20       // that an entry remembers
)

// ScheduleRun is what became of a tick of a schedule, or of several alike.
type ScheduleRun struct {
	Tick    Time // the first of them
	At      Time // when the last of them was dealt with
	Kind    RunKind
	Count   uint64 // how many ticks it stands for
	Job     ID     // of RunPushed and RunByHand
	Outcome Outcome
	Ended   Time // when the job did; zero: it has not
	Refused Kind // why a job was not pushed
}

// RunKind says what became of a tick.
type RunKind uint8

// The kinds of runs.
const (
	RunPushed     RunKind = iota // a job
	RunByHand                    // a job, without a tick
	RunMissed                    // nothing: nobody was there
	RunOverlapped                // nothing: the job before was unfinished
	RunRefused                   // nothing: the push was refused
)

// ScheduleInfo is what is known about an entry at one moment.
type ScheduleInfo struct {
	Schedule

	ID        BatchID // by which its jobs name it
	Created   Time
	Stopped   bool // it is paused now
	Next      Time // zero: never, as long as it is paused
	LastTick  Time // the last that a job was pushed for
	LastAt    Time // when it was
	Pushed    uint64
	MissedAny uint64        // ticks without a job because nobody was there
	Skipped   uint64        // ticks without a job because of an overlap or a refusal
	Running   ID            // the job of the last tick, as long as it is unfinished; zero: none
	Runs      []ScheduleRun // the newest last
}
