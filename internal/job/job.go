package job

import "time"

// Job is the canonical job, a superset of what every protocol knows.
type Job struct {
	// What the push fixed for good.
	ID          ID
	Namespace   string
	Queue       string // changes only when the job is moved
	QueueNum    uint32 // the queue's number: one that is removed and made again has another
	Key         string // client-given
	Type        string
	Group       string // jobs of a group are leased one at a time, or take turns with other groups in a fair queue
	Serial      uint64 // number within its queue, if the queue counts (HasSerial)
	Body        []byte
	BodyKind    BodyKind
	Extra       []byte // what the pushing dialect wants back, opaque
	Trace       string // the W3C traceparent of who pushed it
	Origin      Door
	Fingerprint Digest // what it is about
	Created     Time

	// Where it stands.
	State    State
	Since    Time   // when it entered State
	Entered  uint64 // in which order it entered State, over all jobs of the shard
	Order    Order
	RunAt    Time // when a scheduled or retrying job is due; kept afterwards
	Policy   Policy
	Attempts uint32 // deliveries that counted
	Fails    uint32
	Buries   uint32
	Lapses   uint32        // leases that lapsed
	Releases uint32        // times that it was given back
	Kicks    uint32        // times that it was kicked
	Delay    time.Duration // how long its push, or the last release, had it wait
	Lease    Lease
	Blockers []ID // the live jobs it waits for, ascending

	// ReadyAt is when a fetched job had become ready. Only the answer of the fetch has it.
	ReadyAt Time

	Lock      string // the lock it took with its push, if it may still hold it
	LockUntil LockEnd
	Batch     BatchID // the batch it counts in, or whose callback it is; with FlagTick the schedule that pushed it

	// Timer is when the machine must look at the job next; zero is never.
	Timer Time

	Flags    Flags
	Result   []byte
	Failures []Failure // the first, then the newest, the last one last; at most FailuresKept
}

// Ref names the job where it is now; see ByPlace.
func (j *Job) Ref() Ref { return ByPlace(j.Namespace, j.QueueNum, j.ID) }

// FailuresKept is how many failures a job remembers.
const FailuresKept = 10

// Flags are the yes-or-no facts about a job.
type Flags uint32

// The flags.
const (
	FlagNumbered   Flags = 1 << iota // listed under its 32-bit number
	FlagSerial                       // has a serial number
	FlagDependants                   // other jobs wait for this one
	FlagEphemeral                    // lives only as long as the server and its caller
	FlagTombstone                    // the empty slot of a deleted dead job
	FlagResult                       // has a result record
	FlagFailures                     // has a failures record
	FlagInline                       // its body is in its first record
	FlagRewritten                    // its first record or its body was written again
	FlagState                        // has a state record
	FlagStateAgain                   // which was written again
	FlagOldPlace                     // was released for a while: back to its old place when due
	FlagTracked                      // takes progress reports
	FlagTried                        // counts as failed in its batch
	FlagOnComplete                   // is the callback of its batch for completion
	FlagOnSuccess                    // is the callback of its batch for success
	FlagBuriedLast                   // is behind those that were buried before it
	FlagTick                         // was pushed by a schedule
	FlagHook                         // was pushed by a hook
	FlagTraced                       // has a Trace
)

// Has reports whether all of f is set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Order is a job's place among the ready jobs of its queue: rank ascending,
// then priority descending, then time, then sequence ascending.
type Order struct {
	Rank     int64
	Priority int64
	At       Time
	Seq      uint64
	First    uint64 // the sequence of its first arrival, for PlaceOld and PlaceSched
}

// Before reports whether o comes before p.
func (o Order) Before(p Order) bool {
	switch {
	case o.Rank != p.Rank:
		return o.Rank < p.Rank
	case o.Priority != p.Priority:
		return o.Priority > p.Priority
	case o.At != p.At:
		return o.At < p.At
	default:
		return o.Seq < p.Seq
	}
}

// Lease is a job's being held. What belongs to the holding was fixed by the fetch.
type Lease struct {
	Holder    Holder
	Until     Time // zero: no limit
	Length    time.Duration
	Exclusive bool // only the holder may settle
	OnEnd     OnEnd
	Door      Door
}

// OnEnd says what the end of a holder does to a job it holds.
type OnEnd uint8

// The ends.
const (
	EndKeep    OnEnd = iota // nothing: the lease runs on
	EndRelease              // ready again at its old place, not counted as a failure
	EndFail                 // a failure
)

// Failure is one failed execution.
type Failure struct {
	At        Time
	Kind      FailureKind
	Type      string
	Message   string
	Backtrace []string
}

// FailureKind says how a job failed.
type FailureKind uint8

// The kinds of failure.
const (
	FailedByWorker  FailureKind = iota // the worker said so
	FailedByLapse                      // its lease lapsed
	FailedByEnd                        // its holder ended
	FailedByBlocker                    // a job it waited for failed for good
)
