package job

import (
	"encoding/binary"
	"math"
	"time"
)

// Command is one verb of the engine with its parameters: the whole instruction
// set is in this file. A command is applied by the machine in one step.
//
//sumtype:decl
type Command interface{ command() }

// Spec describes a job to push.
type Spec struct {
	Namespace string
	Queue     string
	Key       string
	Unique    bool // refuse the push if a live or kept job has the same key
	Numbered  bool // the job can be named by its 32-bit number
	Type      string
	Group     string
	Body      []byte
	BodyKind  BodyKind
	Extra     []byte
	Trace     string // a W3C traceparent as ParseTrace takes it, or nothing
	Origin    Door
	Policy    Policy

	// RunAt schedules the job; a time that has come means now. Delay does the
	// same relative to the time of the push, and wins if it is positive.
	RunAt Time
	Delay time.Duration
	// TTL sets Policy.ExpireAt relative to the push, or to RunAt with TTLFromRun.
	TTL        time.Duration
	TTLFromRun bool
	// At is where a job that is ready at once goes: PlaceTail or PlaceHead.
	At Place

	// Fingerprint tells what the job is about: jobs of a queue may share it.
	Fingerprint Digest

	// BlockedBy lists the jobs that must succeed first. Jobs that do not exist
	// or are finished do not block.
	BlockedBy []Blocker

	// Lock, if set, is a name that at most one job of the namespace holds: the push
	// is refused with Locked while another holds it. The lock lasts LockFor from the
	// push, or from the time the job is scheduled for, or until LockUntil.
	Lock      string
	LockFor   time.Duration
	LockUntil LockEnd
	// Tracked jobs take progress reports, and how they ended is known for a while.
	Tracked bool
	// Batch is the batch that the job joins; one that is unknown is no batch.
	Batch BatchID
}

// LockEnd says what ends a lock before its time.
type LockEnd uint8

// The ends of a lock.
const (
	LockUntilAck   LockEnd = iota // the success of the job
	LockUntilFetch                // its first delivery
)

// Blocker names a job that another one waits for: by the number of its queue and its
// id, by 32-bit number, or within an Atomic by how many pushes before this one (1 is
// the previous).
type Blocker struct {
	QueueNum uint32
	ID       ID
	Number   uint32
	Back     int
}

// AppendMade appends the value of a SetValue with Of. A batch has no queue.
func AppendMade(dst []byte, queueNum uint32, id ID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(queueNum)), uint64(id))
}

// ParseMade is the inverse of AppendMade: a blocker by place, whose id may be that of a batch.
func ParseMade(value []byte) (b Blocker, ok bool) {
	queue, n := binary.Uvarint(value)
	if n <= 0 || queue > math.MaxUint32 {
		return b, false
	}
	id, m := binary.Uvarint(value[n:])
	return Blocker{QueueNum: uint32(queue), ID: ID(id)}, m > 0 && n+m == len(value)
}

// Push adds a job. It answers the id, serial and state.
type Push struct {
	Spec Spec
	// Past, if there is one, says how the job begins.
	Past *Past
	// Unless, if it names any, says when nothing is pushed: the queue has a job of the
	// same Fingerprint in one of these states. Then the oldest such job is answered instead, in
	// Jobs. It is not allowed in an Atomic.
	Unless States
	// RoomWait is how long to wait for room in a queue with a capacity.
	RoomWait time.Duration
}

// Run adds a job that nobody keeps and waits for its result. Until it is leased
// the wait ends after Wait; once leased it ends with that lease. The job is
// withdrawn when the wait ends or the caller goes, and gone once answered.
type Run struct {
	Spec Spec
	Wait time.Duration
}

// Atomic applies pushes, acks, deletes and values (*Push, *Ack, *Delete, *SetValue) whole or not at
// all, and what brings batches and schedules back (*NewBatch, *CommitBatch, *SetSchedules, *PauseSchedule).
// It answers the ids of the pushes in order; an error carries the index of the refused one.
type Atomic struct{ Ops []Command }

// Pick says how a fetch chooses among several queues.
type Pick uint8

// The picks.
const (
	PickInOrder Pick = iota // the first queue listed that has a job
	PickRandom              // a queue at random among those that have one
	PickBest                // the job of the highest priority over all, the oldest among equals
)

// Fetch leases up to Max ready jobs. If there is none it waits for one.
type Fetch struct {
	Namespace string
	Queues    []string
	Pick      Pick
	Max       int           // at least 1
	Wait      time.Duration // zero: do not wait; WaitForever: no limit

	// One leases the job of Ref instead, and never waits: one that is ready, scheduled,
	// retrying or buried, whether its queue is paused or not.
	One bool
	Ref Ref
	In  States // of One: refuse with BadState in any other state

	Holder    Holder
	Exclusive bool // only the holder may settle
	OnEnd     OnEnd
	Door      Door
	// Lease overrides the jobs' own lease length if LeaseSet. DefaultLease is for
	// jobs that have none: a lease that its holder's end does not end must end.
	Lease        time.Duration
	LeaseSet     bool
	DefaultLease time.Duration
	// Margin, if positive, ends the wait with Lapsing that long before the first of the
	// holder's leases does that end with it: a holder that waits cannot settle in time.
	Margin time.Duration
	// Firm has the answer wait until the lease is durable. Otherwise a crash right after
	// it may take the lease back, and the job is delivered again.
	Firm bool
	// Delivery, if there is one, follows the answer: the leases do not end by time before it has been handed over.
	Delivery *Delivery
}

// WaitForever is a wait without a limit.
const WaitForever = time.Duration(1<<63 - 1)

// Need says what a settling verb asks of the job.
type Need uint8

// The needs. Whatever is asked, an exclusive lease is settled by its holder only.
const (
	NeedHeld       Need = iota // leased by the caller
	NeedLeased                 // leased by anybody
	NeedUnfinished             // in any state but Done and Failed
	NeedAny                    // in any state; not bound by an exclusive lease
	NeedFree                   // in any state, but not leased by anybody else
)

// Ack ends a job with success: it is removed, or kept as Done.
type Ack struct {
	Ref    Ref
	By     Holder
	Need   Need
	Result []byte
	// Keep keeps the job as Done whatever its policy says; NewBody then also
	// replaces its body.
	Keep     bool
	NewBody  bool
	Body     []byte
	BodyKind BodyKind
	Want     bool // answer the job with its body
}

// Fail ends an execution without success: the job's policy decides what follows.
// Result is kept if the job ends as Failed.
type Fail struct {
	Ref     Ref
	By      Holder
	Need    Need
	Failure Failure
	Result  []byte
	Want    bool
}

// Release gives a leased job back without counting a failure.
type Release struct {
	Ref   Ref
	By    Holder
	Need  Need
	Place Place
	Delay time.Duration
	// TTL, if positive, lets the job live TTL+Delay from now on. StretchTTL
	// instead adds Delay to the old expiry.
	TTL         time.Duration
	StretchTTL  bool
	SetPriority bool
	Priority    int64
	Want        bool
}

// Return takes back a delivery that never reached its caller: the job is ready
// at its old place as if it had not been fetched.
type Return struct {
	Refs []Ref
	By   Holder
}

// Bury sets a job aside.
type Bury struct {
	Ref  Ref
	In   States // refuse with BadState in any other state
	By   Holder
	Need Need
	// Last puts it behind the jobs that are buried already, instead of where it was
	// among the ready ones.
	Last        bool
	SetPriority bool
	Priority    int64
	Want        bool
}

// Kick makes jobs ready that were set aside, at their old places: the one of Ref, or up
// to Count of a queue, first in order first. It answers the count.
type Kick struct {
	Ref       Ref
	One       bool // only Ref, which must be in one of the states that From means
	From      KickFrom
	Namespace string
	Queue     string
	Count     int
	Want      bool
}

// KickFrom says which jobs a Kick means.
type KickFrom uint8

// The sources of a kick.
const (
	KickBuried  KickFrom = iota // those that are buried
	KickWaiting                 // those that are scheduled or retrying, the first to be due first
	KickEither                  // those that are buried; if the queue has none, those that wait
)

// Delete removes a job, whatever its state.
type Delete struct {
	Ref  Ref
	In   States // refuse with BadState in any other state
	By   Holder
	Need Need
	// AckHeld ends a job that By holds as an Ack does: it has succeeded.
	AckHeld bool
	Want    bool
}

// Touch moves the end of a lease.
type Touch struct {
	Ref  Ref
	By   Holder
	Need Need
	// Until, if set, is the new end, Restart starts the lease again with its own
	// length, Add adds to the end, the length and the expiry.
	Until   Time
	Restart bool
	Add     time.Duration
	// NoEarlier leaves an end that is later than the new one.
	NoEarlier bool
	Want      bool
}

// Promote makes a waiting, buried, failed or dead job ready now.
type Promote struct {
	Ref   Ref
	In    States // refuse with BadState in any other state
	Place Place
	Want  bool
}

// Kill moves an unfinished job to its queue's dead list.
type Kill struct {
	Ref  Ref
	In   States        // refuse with BadState in any other state
	For  time.Duration // how long it is kept; zero: by its policy
	Want bool
}

// Each does to the jobs that have a client-given key what Do does to one: it is a Delete, a Promote or a Kill, whose
// Ref and Want do not count. Jobs that are refused are passed over. It looks at no more than Limit jobs, those with the
// lowest ids behind After, and answers to how many it was done, and the last id as long as there are others behind it.
type Each struct {
	Namespace string
	Key       string
	After     ID  // the ID of the answer before; zero is the beginning
	Limit     int // at most EachMax, which zero stands for
	Do        Command
}

// EachMax is how many jobs an Each looks at in one step.
const EachMax = 256

// Respawn makes dead jobs ready again as if they were new: the one of Ref, which may
// also have failed, or up to Limit of a queue, the first to have died first. They have
// Attempts tries from now on. It answers the count.
type Respawn struct {
	Ref       Ref
	One       bool   // only Ref, which must be dead or failed
	In        States // of One: refuse with BadState in any other state
	Namespace string
	Queue     string
	Limit     int
	Attempts  uint32
	TTL       time.Duration // zero: no expiry
	// OwnAttempts and OwnExpiry leave what a job has instead of Attempts and TTL.
	OwnAttempts bool
	OwnExpiry   bool
	Want        bool // of One
}

// Move puts a job into another queue, in the state it has. A leased job cannot be moved.
type Move struct {
	Ref   Ref
	In    States // refuse with BadState in any other state
	Queue string
}

// Await waits until a job is Done or Failed and answers it with its result.
type Await struct {
	Ref  Ref
	Wait time.Duration
}

// Cancel ends the wait of the caller with this token: a Fetch, Run, Await or
// Push that has not been answered yet. It answers a count of one if there was
// such a wait.
type Cancel struct{ Token uint64 }

// EndHolder ends a holder after Grace: its waits are cancelled at once, its jobs
// go by the OnEnd of their leases.
type EndHolder struct {
	Holder Holder
	Grace  time.Duration
}

// ResumeHolder calls off the end of a holder that is in its grace. It answers a
// count of one if there was one.
type ResumeHolder struct{ Holder Holder }

// KeepHolder has a holder outlive restarts until it ends. A restart, or another leader, begins a grace of this length
// instead of releasing what it holds. Name is how its owner finds it then (Query.KeptHolder). With a Grace of zero the
// holder is kept no longer.
type KeepHolder struct{ KeptHolder }

// KeptHolder is a holder that outlives restarts.
type KeptHolder struct {
	Name   string // 1 to MaxHolderName bytes, which no other holder has
	Holder Holder
	Grace  time.Duration
}

// MaxHolderName bounds the name of a holder that is kept, in bytes.
const MaxHolderName = 64

// ReleaseAll makes the leased jobs of a queue ready again and answers the count.
type ReleaseAll struct {
	Namespace string
	Queue     string
	Limit     int // those leased longest; zero: all
}

// Settings are the durable settings of a queue.
type Settings struct {
	Capacity uint64 // most jobs, in all states together; zero is no limit
	Serials  bool   // number the jobs from 0
	Attrs    []byte // the creating dialect's own, opaque
	// OnePerGroup promises that one job of a group is leased at a time, also if the queue is fair. Only a limit of the
	// operator says another number.
	OnePerGroup bool
}

// Configure creates a queue or, with Replace, changes its settings. Without
// Replace a queue that has been configured before is an error of kind Exists.
type Configure struct {
	Namespace string
	Queue     string
	Settings  Settings
	Replace   bool
}

// SetLimits sets the limits of a queue, all of them, at once. It makes the queue if there is anything to limit.
type SetLimits struct {
	Namespace string
	Queue     string
	Limits    Limits
}

// SetFair sets whether the groups of a queue take turns, and their weights. It makes the queue if they do.
type SetFair struct {
	Namespace string
	Queue     string
	Fairness  Fairness
}

// Pause stops fetches from a queue, until a time or until Resume. Pausing a queue
// that does not exist or is hidden does nothing, unless it is to be made.
type Pause struct {
	Namespace string
	Queue     string
	For       time.Duration // zero: until resumed
	Make      bool
}

// Resume lets fetches from a queue go on.
type Resume struct {
	Namespace string
	Queue     string
}

// Purge removes the jobs of one state of a queue, or with a Limit the first so
// many of its list. It answers the count.
type Purge struct {
	Namespace string
	Queue     string
	State     State
	Limit     int
}

// Remove removes a queue with all its jobs; with ReadyOnly only its ready jobs,
// its pause and its name in the list of queues until the next push.
type Remove struct {
	Namespace string
	Queue     string
	ReadyOnly bool
	// IfIdle refuses with Waiting or Busy if callers wait or jobs are leased.
	IfIdle bool
	// KeepQueue empties the queue but keeps it and its settings.
	KeepQueue bool
}

// Flush removes all queues of a namespace, its locks, progress and batches. With a Door
// only those queues go that jobs have been pushed to through it.
type Flush struct {
	Namespace string
	Door      Door
}

// Report tells how far a tracked job is: the one that Get by key would settle, or one
// that ended lately. It may also move the end of its lease, never to an earlier time.
// A job that is not tracked has only its lease moved; without a job nothing happens.
type Report struct {
	Namespace  string
	Key        string
	Percent    int64
	SetPercent bool
	Text       string
	SetText    bool
	Until      Time // zero: leave the lease
}

// NewBatch opens a batch, to which jobs are pushed. It answers its id.
type NewBatch struct {
	Namespace string
	Parent    BatchID // a parent that is unknown is none
	Text      string  // what it is, for people
	// Complete is pushed once every job has been tried and every child is complete,
	// Success once every job and child has succeeded, after Complete has been acked.
	// Either may be nil.
	Complete *Spec
	Success  *Spec
	// OpenFor is how long a batch waits for its first commit, KeepFor how long it is
	// kept after its last, KeepDone how long after it has succeeded.
	OpenFor  time.Duration
	KeepFor  time.Duration
	KeepDone time.Duration

	Past *BatchPast // nil: it is new
}

// OpenBatch opens a batch again, so that more can join; nothing is pushed for it
// until it is committed.
type OpenBatch struct {
	Namespace string
	Batch     BatchID
}

// CommitBatch says that everything has joined for now.
type CommitBatch struct {
	Namespace string
	Batch     BatchID
	Rest      *BatchRest // of a batch with a past, for which this is no commit
}

// SetValue keeps a small value under a name, for whoever owns the space. With IfAbsent
// a name that is taken is refused with Exists.
type SetValue struct {
	Space    string
	Name     string
	Value    []byte
	IfAbsent bool
	// Of, in an Atomic, has the value tell what was made that many parts before, a job or a batch: see ParseMade.
	Of int
}

// DropValue forgets a value. It answers a count of one if there was one.
type DropValue struct {
	Space string
	Name  string
}

// RaiseFormat allows records of a format, and of all before it, for ever. What has a later format already stays as it
// is.
type RaiseFormat struct{ Format uint64 }

// SetSchedules sets entries, whole or not at all: those that are there are changed and go on as they were. With Replace
// it removes all others of the same Source. It answers how many entries it has changed; an error carries the index of
// the refused one.
type SetSchedules struct {
	Entries []Schedule
	Source  Source
	Replace bool
}

// DropSchedule removes an entry. Its jobs stay.
type DropSchedule struct {
	Namespace string
	Name      string
	Source    Source
}

// PauseSchedule pauses an entry, or has it go on from now. It answers a count of one if that changes anything.
type PauseSchedule struct {
	Namespace string
	Name      string
	Paused    bool
	// Rest says that the jobs of a schedule with a past are here again: runs whose job is not here have ended. It goes
	// on with Next, if that is not behind its last tick, instead of from now.
	Rest bool
	Next Time
}

// RunSchedule pushes the job of an entry now, paused or not, and leaves its ticks alone. It answers as a Push does.
type RunSchedule struct {
	Namespace string
	Name      string
}

// SetHooks sets hooks, whole or not at all; one whose job has no queue removes that of its queue. With Replace it
// removes all others of the same Source. It answers how many hooks it has changed; an error carries the index of the
// refused one.
type SetHooks struct {
	Hooks   []Hook
	Source  Source
	Replace bool
}

func (*Push) command()          {}
func (*Run) command()           {}
func (*Atomic) command()        {}
func (*Fetch) command()         {}
func (*Ack) command()           {}
func (*Fail) command()          {}
func (*Release) command()       {}
func (*Return) command()        {}
func (*Bury) command()          {}
func (*Kick) command()          {}
func (*Delete) command()        {}
func (*Touch) command()         {}
func (*Promote) command()       {}
func (*Kill) command()          {}
func (*Respawn) command()       {}
func (*Each) command()          {}
func (*Move) command()          {}
func (*Await) command()         {}
func (*Cancel) command()        {}
func (*EndHolder) command()     {}
func (*ResumeHolder) command()  {}
func (*KeepHolder) command()    {}
func (*ReleaseAll) command()    {}
func (*Configure) command()     {}
func (*SetLimits) command()     {}
func (*RaiseFormat) command()   {}
func (*SetFair) command()       {}
func (*Pause) command()         {}
func (*Resume) command()        {}
func (*Purge) command()         {}
func (*Remove) command()        {}
func (*Flush) command()         {}
func (*Report) command()        {}
func (*NewBatch) command()      {}
func (*OpenBatch) command()     {}
func (*CommitBatch) command()   {}
func (*SetValue) command()      {}
func (*DropValue) command()     {}
func (*SetSchedules) command()  {}
func (*DropSchedule) command()  {}
func (*PauseSchedule) command() {}
func (*RunSchedule) command()   {}
func (*SetHooks) command()      {}
