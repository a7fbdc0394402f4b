package machine

import (
	"math"
	"time"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// Options bound what the machine keeps in memory.
type Options struct {
	Window    int           // jobs of one ready list in memory
	Resident  int           // jobs in memory over all lists, and as many leased ones
	BodyBytes int           // bytes of their bodies
	Horizon   time.Duration // how far ahead timers are in memory

	// TimersPerLoad bounds how many timers one read brings into memory,
	// TimersPerStep how much of a pile of timers that are due together one step
	// works off, so that commands get their turn, and TimersPerCommand how much of it
	// a command does first: with many callers each waits for the parts of all others.
	TimersPerLoad    int
	TimersPerStep    int
	TimersPerCommand int
	// Few is up to how many jobs are purged one by one, SweepStep how many records
	// one step of the clean-up after a larger purge looks at.
	Few       int
	SweepStep int
	// StepWork bounds how many jobs or callers one step changes besides those that its
	// command names. The rest follows in later steps.
	StepWork int
	// NamesPerStep is how many queues one step of a fetch looks at, WaitNames how many
	// names are waited on at a time by fetches that name more than a few.
	NamesPerStep int
	WaitNames    int
	// Keys is how many client-given keys are in memory.
	Keys int
	// KeptHolders is how many holders may outlive a restart.
	KeptHolders int
	// GroupWindow is how many jobs of one group, Groups how many groups of one
	// queue are in memory.
	GroupWindow int
	Groups      int

	// Gated refuses what needs a later format of records than the store has, until RaiseFormat allows it. Otherwise the
	// format is raised when something needs it.
	Gated bool

	// ActiveQueues is how many queues Activity tells apart.
	ActiveQueues int

	// Observer, if there is one, is told how long jobs waited and ran.
	Observer Observer
	// Tracer, if there is one, is told of jobs that carry a trace.
	Tracer Tracer
}

// withDefaults fills in what is zero. The defaults are for a server with some hundred megabytes of
// memory; tests use small values, so that every bound is met.
func (o Options) withDefaults() Options {
	if o.Window <= 0 {
		o.Window = 1024
	}
	if o.Resident <= 0 {
		o.Resident = 32 << 10
	}
	if o.BodyBytes <= 0 {
		o.BodyBytes = 16 << 20
	}
	if o.Horizon <= 0 {
		o.Horizon = 10 * time.Second
	}
	if o.TimersPerCommand <= 0 {
		o.TimersPerCommand = o.TimersPerStep
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&o.TimersPerLoad, 4096},
		{&o.TimersPerStep, 128},
		{&o.TimersPerCommand, 16},
		{&o.Few, 256},
		{&o.SweepStep, 256},
		{&o.StepWork, 256},
		{&o.NamesPerStep, 256},
		{&o.WaitNames, 1 << 20},
		{&o.Keys, 32 << 10},
		{&o.KeptHolders, 100_000},
		{&o.GroupWindow, 32},
		{&o.Groups, 1024},
		{&o.ActiveQueues, 10_000},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return o
}

// Completion is the answer to a command that had to wait.
type Completion struct {
	Token  uint64
	Result job.Result
	// Needs is the step whose changes must be durable before the caller may
	// know (INV-11).
	Needs uint64
}

// Machine is the state of one shard. Its methods are not safe for concurrent use.
type Machine struct {
	store Storage
	opt   Options

	now job.Time
	// started is when the machine was made: ticks before it came while nobody was there.
	started job.Time

	rnd        uint64 // the chance of this step; draw takes from it
	step       uint64
	workBudget int // how much more work this step may do; see Options.StepWork

	// What is stored once for the shard, and the queues with their figures. Whoever changes a queue
	// calls markDirty.
	format     uint64 // of the records that the store may hold
	shard      record.Shard
	shardDirty bool
	spaces     map[string]map[string]*queue
	byID       map[record.QueueID]*queue
	dirty      []*queue
	sums       map[string]*sums // by namespace
	all        job.Sums         // of all namespaces
	activity   activity
	// What this transition has still to do before it ends, and what earlier steps have left over;
	// see serveWakes.
	wakes         fifo[*queue] // queues that may have become fetchable in this transition
	leftWakes     fifo[*queue] // those of earlier steps with callers that are still to be served
	freed         fifo[freedGroup]
	counting      fifo[*queue]  // queues of which leases are to get their slots
	roomWakes     fifo[*queue]  // queues that may have room for waiting pushes
	leftRoomWakes fifo[*queue]  // those of earlier steps with pushes that are still to be let in
	dueBatches    []job.BatchID // batches that may have reached a stage
	notices       []job.Spec    // what hooks are to push
	byCaller      bool          // the command of a caller is being applied
	inTransition  bool          // a command or timer is applied: roomWakes, dueBatches and notices wait for its end
	changedAt     uint64        // the last step that changed counters which Seal has to write

	// The jobs in memory, and the sums that bound them.
	jobs           map[job.ID]*entry // those in windows and leased ones
	residentLeases int               // leased ones among them
	bodyBytes      int

	// Timers up to the horizon are in the heap. Of those behind it only the earliest time is known.
	timers         timerHeap
	horizon        timerItem // all timers before it are in the heap
	earliestBeyond job.Time  // no timer at or after the horizon is earlier than this

	hooks map[hookName]*job.Hook

	forgetAt job.Time // nothing in the list of what is to be forgotten is earlier

	// Who waits, for what and until when. Callers do not survive a restart; of what follows only
	// holders that are kept are stored.
	alarms  momentHeap[*alarm]
	holders map[job.Holder]*holder
	// keptHolders is how many of them outlive a restart.
	keptHolders int
	waiting     map[uint64]*waiter
	awaiting    map[job.ID]*jobWait
	notifying   fifo[*jobWaits] // those who are still to be told
	leaving     fifo[*waiter]   // those who have been answered and are still in lists
	// Timers went first in this Tick, and those who are left over wait for the next one.
	timersFirst bool
	postponed   int                             // how many Ticks in a row have left a clean-up for later
	serveTurn   int                             // see serveSome
	stubs       map[string]map[string]*waitList // those who wait for jobs of queues that do not exist
	waitNames   int                             // how many names are waited on that are counted
	walking     bool                            // the fetch of this step has not looked at all its queues
	runs        map[job.ID]*waiter
	arrivals    uint64
	mark        uint64 // of the walk over queues that is in progress
	memo        keyMemo
	spare       *entry // of a push, whose job is not in memory any more
	keys        keyCache
	headsBuf    []*entry // scratch of heads

	deliveries      map[*job.Delivery]*pendingDelivery // on their way, and something waits for them
	deliveryOfLease map[job.ID]*job.Delivery           // of leases that are not in memory
	late            []*job.Delivery                    // that Late has not told

	// Clean-ups after purges, one after the other. Each is stored.
	sweeps []*sweep // in the order in which they began

	// How many more jobs this transition may release or fail because what they wait for
	// has ended, and how many leases and waits it may end with their holders.
	dependantBudget, leaseBudget int
	endings                      []*ending // to be dealt with in this transition
	settlingEndings              bool      // which is doing so
	endingsLeft                  bool      // there are stored ones
	firstEnding                  job.ID    // none of them is of an earlier job
	lastEnding                   job.ID    // the one whose turn it was last
	canceled                     fifo[uint64]
	orphans                      fifo[*holderLease] // leases of holders that have gone: each with all that follow it
	restart                      restart
	flush                        *flush // nil: there is none
	flushes                      fifo[*waiter]

	completions []Completion

	keyBuf, valueBuf, readBuf, forgetBuf []byte // scratch: key, value, read, entry of what is to be forgotten
}

// New returns a machine on what the storage holds, with the rules of a restart
// applied (section 8 of the semantics).
func New(store Storage, now job.Time, opt Options) *Machine {
	m := &Machine{
		store: store, opt: opt.withDefaults(), now: now, started: now,
		spaces: map[string]map[string]*queue{}, sums: map[string]*sums{}, byID: map[record.QueueID]*queue{},
		jobs: map[job.ID]*entry{}, holders: map[job.Holder]*holder{},
		waiting: map[uint64]*waiter{}, awaiting: map[job.ID]*jobWait{}, runs: map[job.ID]*waiter{},
		stubs:      map[string]map[string]*waitList{},
		deliveries: map[*job.Delivery]*pendingDelivery{}, deliveryOfLease: map[job.ID]*job.Delivery{},
		shard: record.Shard{NextID: 1, NextSeq: 1, NextQueue: 1},
	}
	m.keys = newKeyCache(max(m.opt.Keys/2, 1))
	m.load()
	return m
}

// Apply applies one command. It returns whether the command has been answered in res, and the step
// that must be durable before the answer may leave (INV-11). Answers of commands that waited, this
// one included, come through Completed. The machine keeps cmd as long as it waits: the caller must
// not change it before it is answered.
func (m *Machine) Apply(
	now job.Time, rnd, token uint64, cmd job.Command, res *job.Result,
) (answered bool, needs uint64) {
	m.begin(now, rnd)
	m.fire(m.opt.TimersPerCommand)
	res.Reset()
	answered, needs = true, m.step
	m.beginTransition()
	// The observer tells apart what a caller did from what was due.
	m.byCaller = true
	switch c := cmd.(type) {
	case *job.Push:
		answered = m.push(token, c, res)
	case *job.Run:
		answered = m.run(token, c, res)
	case *job.Atomic:
		m.atomic(c, res)
	case *job.Fetch:
		answered, needs = m.fetch(token, c, res)
	case *job.Ack:
		m.ack(c, res)
	case *job.Fail:
		m.fail(c, res)
	case *job.Release:
		m.release(c, res)
	case *job.Return:
		m.giveBack(c, res)
	case *job.Bury:
		m.bury(c, res)
	case *job.Kick:
		m.kick(c, res)
	case *job.Delete:
		m.delete(c, res)
	case *job.Touch:
		m.touch(c, res)
	case *job.Promote:
		m.promote(c, res)
	case *job.Kill:
		m.kill(c, res)
	case *job.Each:
		m.each(c, res)
	case *job.Respawn:
		m.respawn(c, res)
	case *job.Move:
		m.moveJob(c, res)
	case *job.Await:
		answered = m.await(token, c, res)
	case *job.Cancel:
		m.cancel(c, res)
	case *job.EndHolder:
		m.endHolder(c)
	case *job.ResumeHolder:
		m.resumeHolder(c, res)
	case *job.KeepHolder:
		m.keepHolder(c, res)
	case *job.ReleaseAll:
		m.releaseAll(c, res)
	case *job.Configure:
		m.configure(c, res)
	case *job.SetLimits:
		m.setLimits(c, res)
	case *job.SetFair:
		m.setFair(c, res)
	case *job.Pause:
		m.pause(c)
	case *job.Resume:
		m.resume(c)
	case *job.Purge:
		m.purge(c, res)
	case *job.Remove:
		m.removeQueue(c, res)
	case *job.Flush:
		answered = m.startFlush(token, c, res)
	case *job.Report:
		m.report(c, res)
	case *job.NewBatch:
		m.newBatch(c, res)
	case *job.OpenBatch:
		m.openBatch(c, res)
	case *job.CommitBatch:
		m.commitBatch(c, res)
	case *job.RaiseFormat:
		m.raiseFormat(c.Format)
	case *job.SetValue:
		m.setValue(c, res)
	case *job.DropValue:
		m.dropValue(c, res)
	case *job.SetSchedules:
		m.setSchedules(c, res)
	case *job.DropSchedule:
		m.dropSchedule(c, res)
	case *job.PauseSchedule:
		m.pauseSchedule(c, res)
	case *job.RunSchedule:
		m.runSchedule(c, res)
	case *job.SetHooks:
		m.setHooks(c, res)
	}
	m.byCaller = false
	m.endTransition()
	return answered, needs
}

// Tick applies what is due by now, and a bounded piece of left-over and clean-up work if there is
// any. It reports whether more is left to do at once; NextWake says when it is to be called
// otherwise. Timers come first. In a Tick with timers those who are left over wait, but never twice
// in a row: a pile of timers must not keep them waiting for ever.
func (m *Machine) Tick(now job.Time, rnd uint64) (more bool) {
	m.begin(now, rnd)
	m.timersFirst = m.isDue() && !m.timersFirst
	due := m.fire(m.opt.TimersPerStep)
	more = m.serveSome()
	if due {
		return true
	}
	// What a command has left over comes before clean-up, which nobody waits for.
	if m.Unfinished() {
		m.continueEnding()
		m.continueHolders()
		m.continueRestart()
		m.continueFlush()
		m.continueCounting()
		return true
	}
	if m.isSweepPostponed() {
		return true
	}
	more = m.sweepSome() || more
	more = m.forgetSome() || more
	return more || m.Unfinished() || m.Behind()
}

// Unfinished reports whether earlier steps have left work over, other than the clean-up
// after purges.
func (m *Machine) Unfinished() bool {
	return m.endingsLeft || !m.canceled.empty() || !m.orphans.empty() ||
		len(m.restart.leads) > 0 || m.restart.next != nil || m.flush != nil || !m.counting.empty()
}

// beginTransition begins a command, a timer or a piece of left-over work, which endTransition ends.
// Each has a budget of its own for dependants and for leases; the work that is spent on waiting
// callers is bounded for the whole step.
func (m *Machine) beginTransition() {
	m.inTransition = true
	m.dependantBudget, m.leaseBudget = m.opt.StepWork, m.opt.StepWork
}

// begin begins a step. The time never goes back: a clock that is put back stands still for the
// machine.
func (m *Machine) begin(now job.Time, rnd uint64) {
	m.now = max(m.now, now)
	m.rnd = rnd
	m.step++
	m.workBudget = m.opt.StepWork
	m.walking = false
}

// spendWork takes one unit of the work that this step may do, and reports whether there was
// one. A caller that gets none leaves the rest to a later step.
func (m *Machine) spendWork() bool {
	if m.workBudget <= 0 {
		return false
	}
	m.workBudget--
	return true
}

// Step returns the number of the last step.
func (m *Machine) Step() uint64 { return m.step }

// Completed returns the answers of commands that had to wait, since the last call. The owner passes
// them on after each step. The slice is valid until the next step.
func (m *Machine) Completed() []Completion {
	out := m.completions
	m.completions = m.completions[:0]
	return out
}

// NextWake returns when Tick has something to do; Never if nothing is due ever. Left-over and
// clean-up work is due at once. Timers beyond the horizon count by the earliest of them, so that an
// idle server sleeps until there is something to do.
func (m *Machine) NextWake() job.Time {
	next := job.Never
	if len(m.sweeps) > 0 || m.Unfinished() || m.Behind() {
		return m.now
	}
	if len(m.timers) > 0 {
		next = min(next, m.timers[0].at)
	}
	next = min(next, m.earliestBeyond)
	if len(m.alarms) > 0 {
		next = min(next, m.alarms[0].at)
	}
	return min(next, m.forgetAt.Add(forgetSlack))
}

// Seal writes the counters that have changed. The owner calls it before it closes a batch, so that
// every batch carries exact counts (INV-3), and a queue that changed a thousand times is written
// once. A restart takes the counts from there and counts nothing.
func (m *Machine) Seal() {
	for _, q := range m.dirty {
		q.dirty = false
		if q.ID == 0 || m.byID[q.ID] != q {
			continue // removed meanwhile
		}
		m.keyBuf = record.QueueKey(m.keyBuf[:0], q.namespace, q.name)
		m.valueBuf = record.AppendQueue(m.valueBuf[:0], &q.Queue)
		m.set(m.keyBuf, m.valueBuf)
	}
	m.dirty = m.dirty[:0]
	m.changedAt = 0
	if m.shardDirty {
		m.shardDirty = false
		m.valueBuf = record.AppendShard(m.valueBuf[:0], &m.shard)
		m.set(record.MetaKey(), m.valueBuf)
	}
}

// Unsealed returns the last step that changed counters which Seal has not written
// yet; zero if there is none.
func (m *Machine) Unsealed() uint64 { return m.changedAt }

// Waiting returns how many callers wait.
func (m *Machine) Waiting() int { return len(m.waiting) }

// WaitingNames returns how many names fetches wait on that name more than a few.
func (m *Machine) WaitingNames() int { return m.waitNames }

// KeptHolders returns how many holders outlive a restart, and how many may.
func (m *Machine) KeptHolders() (kept, most int) { return m.keptHolders, m.opt.KeptHolders }

// NamesPerStep returns how many queues one step of a fetch looks at.
func (m *Machine) NamesPerStep() int { return m.opt.NamesPerStep }

// EndWaits answers every waiting caller: the server is stopping. It is not bounded, because nothing
// comes after it that could be held up.
func (m *Machine) EndWaits(now job.Time) {
	m.begin(now, 0)
	m.workBudget = math.MaxInt // nothing comes after it that could be held up
	for _, w := range m.waitersInOrder() {
		if m.waiting[w.token] == w { // the end of another wait may have ended it
			m.beginTransition()
			m.endWait(w, job.ErrTimeout)
			m.endTransition()
		}
	}
}

// markShardDirty has the counters of the shard written with this batch.
func (m *Machine) markShardDirty() {
	m.shardDirty = true
	m.changedAt = m.step
}

// nextSeq returns the next number of the one sequence of all orders, stays and turns. It never
// repeats, also across restarts: the counter is stored with each batch that has used one.
func (m *Machine) nextSeq() uint64 {
	s := m.shard.NextSeq
	m.shard.NextSeq++
	m.markShardDirty()
	return s
}

// draw returns the next random number of this step (splitmix64). All chance comes from the number
// that the step was given, so that the simulation can repeat a run.
func (m *Machine) draw() uint64 {
	m.rnd += 0x9e3779b97f4a7c15
	z := m.rnd
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// load reads counters and queues, and takes up what a crash or a shutdown has interrupted. It reads
// no job that is merely waiting, so that a start does not take longer with a longer backlog. The
// order matters: queues come before what refers to them, and the rules of a restart come last,
// because they change jobs.
func (m *Machine) load() {
	if b, _, ok := m.store.Get(nil, record.MetaKey()); ok {
		s, err := record.DecodeShard(b)
		corrupt("shard counters", err)
		m.shard = s
	}
	m.loadFormat()
	lo, hi := record.QueuesSpan("")
	var rated []*queue
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		if q := m.loadQueue(key, value); q.Limits.Rate > 0 || q.Limits.GroupRate > 0 {
			rated = append(rated, q)
		}
		return true
	})
	for _, q := range rated {
		m.clampRates(q)
	}
	lo, hi = record.SweepSpan()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		m.loadSweep(key, value)
		return true
	})
	m.loadForget()
	m.loadHooks()
	if !plant.FlushForgotten.On() {
		m.loadFlush()
	}
	m.loadHolders()
	m.endingsLeft = m.hasKeyIn(record.EndingSpan(0, math.MaxUint64)) && !plant.EndingsForgotten.On()
	m.begin(m.now, 0)
	m.beginRestart()
	m.continueCounting()
}
