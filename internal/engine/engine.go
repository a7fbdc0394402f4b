package engine

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/job"
	"millrace/internal/store"
)

// Durability says what an answer means.
type Durability uint8

// The durabilities.
const (
	DurabilityFsync    Durability = iota // it is on stable storage
	DurabilityInterval                   // it will be on stable storage within the sync interval
	DurabilityNone                       // it will be with the operating system within the sync interval
)

var durabilityNames = [...]string{"fsync", "interval", "none"}

// String returns the name used in the configuration.
func (d Durability) String() string { return durabilityNames[d] }

// ParseDurability is the inverse of String.
func ParseDurability(name string) (Durability, error) {
	for i, n := range durabilityNames {
		if n == name {
			return Durability(i), nil
		}
	}
	return 0, fmt.Errorf("unknown durability %q: use fsync, interval or none", name)
}

// Options are what an engine needs.
type Options struct {
	Store        store.Store
	Durability   Durability
	SyncInterval time.Duration // how much a crash may lose unless DurabilityFsync; default 100 ms
	FreeFloor    uint64        // pushes are refused below this many free bytes; zero is off
	Logger       *slog.Logger
	Seed         uint64 // of all randomness; zero draws one
	TimedQueues  int    // how many queues have figures of their own; zero is 500
	TimedTypes   int    // how many types of jobs have times of their own; zero is none
	// MaxWaiters and MaxWaiterBytes bound the callers that wait, and about how much memory they hold; zero is a
	// default.
	MaxWaiters     int
	MaxWaiterBytes int64
	MaxQueues      int // how many queues there may be; zero is a default
	Core           CoreOptions

	// Now is the time; nil is the clock of the machine. It must not go back.
	Now func() job.Time
	// Node and Run make holders that no other run on the same data has had; zero takes the clock.
	Node uint32
	Run  uint64
	// Keys is a filter that was kept for the store so far; nil: the engine makes one when it is of use.
	Keys *KeyFilter
	// OnFailure is called once, before anybody is told that the engine has failed.
	OnFailure func()
}

// Engine applies commands one at a time, commits them in groups and answers. All its methods may be
// called from any goroutine. A command is applied on the goroutine that submits it, under the
// engine's lock; one more goroutine applies what is due, and one commits. Lock order: longTurn
// before mu. Nothing that mu guards is touched without it, and no caller is told anything while it
// is held (unlock).
type Engine struct {
	opt   Options
	log   *slog.Logger
	start time.Time // with its monotonic reading: wall clock jumps do not reach the machine
	base  job.Time

	readers  sync.RWMutex // read-locked by every query; Close waits for them
	stopping atomic.Bool  // queries end

	tokens  atomic.Uint64
	holders atomic.Uint64
	stats   counters
	noSpace atomic.Bool
	queues  atomic.Uint64 // see QueuesVersion
	meter   *meter

	mu                sync.Mutex // guards everything up to the next blank line
	commitEnded       sync.Cond  // on mu: a commit that was in progress has ended
	core              *Core
	waiting           map[uint64]*Request
	waits             waits
	maxQueues         int
	answered          []*Request // to be told as soon as the lock is given up
	rnd               uint64
	closed            bool // nothing is taken any more: stopped or failed
	draining          bool
	flights           []*flight // batches that are being committed, the oldest first
	depth             int       // how many there may be
	lazy              bool      // answers do not wait for the commit: not DurabilityFsync
	gatheringSince    job.Time  // since when a lazy engine holds changes; zero: it has none
	lastAnswers       int       // how many answers waited for the last batch
	commandsSinceSeal uint64    // how many commands were applied since the last batch was sealed
	lastNow           job.Time  // what the clock said when it was last read with the lock held
	commitAtOnce      bool      // commit what is there although it could be held longer
	durable           uint64    // the last step that is committed
	openReplies       *replies  // answers that wait for the open batch
	spare             []*replies
	proofs            proofs
	wakeAt            job.Time // when the clock looks next
	waitedForStore    bool     // it has waited for the store
	buildingFilter    bool     // a filter is being made
	lastRetry         time.Time
	lastReclaim       time.Time // when the store was last asked for space

	lastSpace  time.Time // owned by whoever commits, like the next
	sinceSpace int       // bytes committed since then

	clockSignal  chan struct{}  // capacity 1: the clock should look earlier
	commitSignal chan struct{}  // capacity 1: there is something to commit
	stop         chan struct{}  // closed by Close
	ended        sync.WaitGroup // the clock and the committer

	closeOnce sync.Once
	failOnce  sync.Once
	failed    chan struct{} // closed on a storage failure
	err       error         // set before failed is closed

	longTurn     sync.Mutex // of the request that takes long; taken before mu
	namesPerStep int

	background sync.WaitGroup // work beside the commands
}

// counters are the engine's own figures; read by Stats.
type counters struct {
	commands, commits, batched atomic.Uint64
	refused, queuesRefused     atomic.Uint64
}

// Format returns the format of the records that the store may hold.
func (e *Engine) Format() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.core.machine.Format()
}

// Stats are figures about the engine since it was opened.
type Stats struct {
	Commands uint64 // applied
	Commits  uint64 // batches committed
	Batched  uint64 // commands in them
	Waiters  int    // callers that wait now
	Names    int    // queues that those of them wait on who name more than a few
	// WaiterBytes is about how much memory they hold, WaitersMax and WaiterBytesMax are the limits, and WaitsRefused
	// those who were beyond them.
	WaiterBytes    int64
	WaitersMax     int
	WaiterBytesMax int64
	WaitsRefused   uint64
	NoSpace        bool   // pushes are refused for want of disk space
	Refused        uint64 // pushes refused for that reason
	// QueuesMax is how many queues there may be, QueuesRefused the commands that would have made one more.
	QueuesMax     int
	QueuesRefused uint64
	// KeptHolders is how many holders outlive a restart, KeptHoldersMax how many may.
	KeptHolders, KeptHoldersMax int
}

// Open loads the state from the store and starts the engine. The rules of a restart have been
// applied when it returns, as far as one step goes; the clock does the rest.
func Open(o Options) (*Engine, error) {
	e, err := open(o)
	if err != nil {
		return nil, err
	}
	e.ended.Go(e.commitLoop)
	e.ended.Go(e.clockLoop)
	return e, nil
}

// open loads the state from the store and starts nothing: OpenStepped drives the engine by hand.
func open(o Options) (*Engine, error) {
	if o.SyncInterval <= 0 {
		o.SyncInterval = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		o.Seed = binary.LittleEndian.Uint64(b[:])
	}
	now := time.Now()
	base := job.TimeOf(now)
	if o.Now != nil {
		base = o.Now()
	}
	if o.Node == 0 {
		// Holders of an earlier run must not be mistaken for those of this one.
		o.Node, o.Run = 1, uint64(now.UnixNano())>>holderBits
	}
	figures := &meter{queues: newQueueTable(o.TimedQueues, o.TimedTypes)}
	o.Core.Observer = &figures.queues
	core, err := openCore(o.Store, base, o.Core, o.Keys)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opt: o, core: core, meter: figures, log: o.Logger, start: now, base: base,
		waiting: map[uint64]*Request{}, rnd: o.Seed,
		clockSignal: make(chan struct{}, 1), commitSignal: make(chan struct{}, 1),
		stop: make(chan struct{}), failed: make(chan struct{}),
		openReplies: &replies{}, depth: max(o.Store.Depth(), 1), lazy: o.Durability != DurabilityFsync,
	}
	e.namesPerStep = core.NamesPerStep()
	e.commitEnded.L = &e.mu
	e.waits.init(&o)
	if e.maxQueues = o.MaxQueues; e.maxQueues <= 0 {
		e.maxQueues = DefaultMaxQueues
	}
	e.holders.Store(o.Run << holderBits)
	if c, ok := o.Store.(confirmer); ok {
		e.proofs.confirm = c.Confirm
	}
	e.checkSpace()
	return e, nil
}

// Now returns the engine's time: the wall clock at its start plus what has passed since. A wall
// clock that is put forward or back later does not end leases or delay jobs.
func (e *Engine) Now() job.Time {
	if e.opt.Now != nil {
		return e.opt.Now()
	}
	return e.base.Add(time.Since(e.start))
}

// holderBits is how many holders a run may have, as a power of two. The bits above are those of the
// run, so that a holder of an earlier run, whose leases may still be stored, is never taken for one
// of this run.
const holderBits = 24

// NewHolder returns a holder that nobody else has.
func (e *Engine) NewHolder() job.Holder { return job.Holder{Node: e.opt.Node, Num: e.holders.Add(1)} }

// Close stops the engine once everything submitted before has been committed, and waits for queries
// in progress, which it ends. It does not close the store. The order: callers who wait are
// answered, nothing is taken any more, the committer commits what is left, and then the readers go.
func (e *Engine) Close() error {
	e.stopping.Store(true)
	e.closeOnce.Do(func() {
		e.mu.Lock()
		e.endWaits()
		e.closed, e.commitAtOnce = true, true
		e.unlock()
		close(e.stop)
	})
	e.ended.Wait()
	e.background.Wait()
	if e.Err() != nil {
		e.giveUp()
	}
	e.readers.Lock() // none is left, and later ones find the engine stopping
	defer e.readers.Unlock()
	return e.Err()
}

// QueuesVersion changes whenever the settings of a queue may have changed or a queue may have gone,
// before the command that did it is answered. Whoever keeps settings compares it, instead of
// reading them with each request.
func (e *Engine) QueuesVersion() uint64 { return e.queues.Load() }

// Failed is closed when a storage failure has stopped the engine.
func (e *Engine) Failed() <-chan struct{} { return e.failed }

// Err returns the failure that has stopped the engine, or nil.
func (e *Engine) Err() error {
	select {
	case <-e.failed:
		return e.err
	default:
		return nil
	}
}

// Stats returns the engine's figures.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	waiters, held, names := len(e.waiting), e.waits.bytes, e.core.WaitingNames()
	kept, keptMax := e.core.KeptHolders()
	e.mu.Unlock()
	return Stats{
		Commands: e.stats.commands.Load(), Commits: e.stats.commits.Load(), Batched: e.stats.batched.Load(),
		Waiters: waiters, Names: names, WaiterBytes: held, WaitersMax: e.waits.max, WaiterBytesMax: e.waits.maxBytes,
		WaitsRefused: e.waits.refused.Load(), NoSpace: e.noSpace.Load(), Refused: e.stats.refused.Load(),
		QueuesMax: e.maxQueues, QueuesRefused: e.stats.queuesRefused.Load(),
		KeptHolders: kept, KeptHoldersMax: keptMax,
	}
}

// StoreStats returns the figures of the store.
func (e *Engine) StoreStats() store.Stats { return e.opt.Store.Stats() }

// closedError returns what callers are told who come too late. After a failure nothing is known
// about their commands, so that they are told of an error and not of a shutdown.
func (e *Engine) closedError() *job.Error {
	if e.Err() != nil {
		return job.ErrInternal
	}
	return job.ErrDraining
}

// Abandon stops the engine as a failure of its store does: whatever is on its way may be committed
// or not. A node that does not lead any more ends its engine so.
func (e *Engine) Abandon(err error) { e.fail(err) }

// fail stops the engine: nothing is acknowledged after a storage failure. The first error counts.
// It may be called with or without the lock; the clock answers those who are left (giveUp).
func (e *Engine) fail(err error) {
	e.failOnce.Do(func() {
		e.err = err
		if e.opt.OnFailure != nil {
			e.opt.OnFailure()
		} else {
			e.log.Error("storage failure, the engine stops", slog.Any("err", err))
		}
		close(e.failed)
	})
}
