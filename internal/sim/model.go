package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// Completion is the answer to the command with this token.
type Completion struct {
	Token  uint64
	Result job.Result
	// Gone says that the jobs in the result no longer exist: what they carried
	// is of interest, where they stood is not.
	Gone bool
}

// Oracle tells the model what chance decided on the other side.
type Oracle interface {
	// Picked returns the n-th job that the fetch with this token was given.
	Picked(token uint64, n int) (job.ID, bool)
	// Pushed returns the job that the push with this token was given, zero if it was
	// refused.
	Pushed(token uint64) (job.ID, bool)
	// RunAt returns the due time that a job has after the step.
	RunAt(id job.ID) (job.Time, bool)
	// Callback reports whether the job with this id is the callback of a batch that
	// the flag stands for.
	Callback(id job.ID, of job.BatchID, flag job.Flags) bool
	// Sweeping reports whether the command has left something to clean up: those
	// that waited for what it removed are released by the next Tick.
	Sweeping() bool
	// Behind reports whether the step has left callers over that are still to be served,
	// let in or told.
	Behind() bool
	// TimedOut reports whether a caller that waited was left over, and so was answered
	// with Timeout when its time was up.
	TimedOut(token uint64) bool
	// Counting reports whether the leases of a queue are still to be counted for its limits.
	Counting(namespace, queue string) bool
	// Ended reports whether a job whose time has run out is gone already, because somebody waited for jobs of its
	// queue.
	Ended(j *job.Job) bool
	// Given returns the tokens of the commands that were answered, in that order.
	Given() []uint64
}

// silence is the oracle when nothing is left to chance.
type silence struct{}

func (silence) Picked(uint64, int) (job.ID, bool)            { return 0, false }
func (silence) Pushed(uint64) (job.ID, bool)                 { return 0, false }
func (silence) RunAt(job.ID) (job.Time, bool)                { return 0, false }
func (silence) Callback(job.ID, job.BatchID, job.Flags) bool { return false }
func (silence) Sweeping() bool                               { return false }
func (silence) Behind() bool                                 { return false }
func (silence) TimedOut(uint64) bool                         { return false }
func (silence) Counting(string, string) bool                 { return false }
func (silence) Ended(*job.Job) bool                          { return false }
func (silence) Given() []uint64                              { return nil }

// entry is one job of the model. Of the embedded Job, Timer is the end of a dead
// job's keeping and unused otherwise, Entered and Order.Seq count the model's own
// sequences, and the flags that only describe records are never set.
type entry struct {
	job.Job

	// toOld makes a release with a delay come back to its old place.
	toOld bool
	// last is behind those that were buried before it.
	last bool
	// reported is what is known of a tracked job's progress.
	reported progress
	// delivery is on its way with the job, postponed the time at which the lease should have ended meanwhile.
	delivery  *job.Delivery
	postponed job.Time
	// got counts when its holder came to hold it.
	got uint64
}

type queueName struct{ ns, name string }

// queue is all that is known about a queue besides its jobs.
type queue struct {
	queueName

	num         uint32 // order of creation
	settings    job.Settings
	limits      job.Limits
	tokens      *big.Rat // that limits.Rate had left at a time
	tokensAt    job.Time
	fair        job.Fairness
	turns       map[string]turn // of each group that has ready jobs; never changed, but replaced, as used is
	used        map[string]used // the rates of groups of which something was used
	rouse       job.Time        // when time opens it to those who wait; zero if it does not
	configured  bool
	hidden      bool
	paused      bool
	pausedAt    job.Time
	pausedUntil job.Time
	pauseArmed  uint64
	created     job.Time
	nextSerial  uint64
	totals      [job.CounterCount]uint64
	expired     [job.StateCount]uint64
	doors       job.Doors
}

// wait is a caller that has not been answered: a *job.Fetch, *job.Push, *job.Run
// or *job.Await.
type wait struct {
	token    uint64
	cmd      job.Command
	deadline job.Time // zero: none
	wake     job.Time // Fetch: when it looks at the leases of its holder; zero: never
	armed    uint64
	id       job.ID            // Run, Await: the job
	told     *job.Result       // Run, Await: the answer that it is still to be told
	stood    map[string]uint64 // Fetch: the queues it waits on, and when it came to each
	walk     *walk             // Fetch: it has not looked at all its queues; nil if it has
}

// ending is a holder in its grace.
type ending struct {
	holder job.Holder
	at     job.Time
	armed  uint64
}

// Model is the naive reference of docs/semantics.md.
type Model struct {
	now      job.Time
	jobs     map[job.ID]*entry
	queues   map[queueName]*queue
	waits    []*wait            // in order of arrival
	endings  []ending           // in order of arrival
	swept    []job.ID           // purged, while those that waited for them do not know yet
	behind   bool               // the last step has left callers over
	counting map[queueName]bool // queues whose leases are still to be counted
	came     uint64             // places taken in lists of those who wait

	// NamesPerStep is how many queues one step of a fetch looks at; zero is all.
	NamesPerStep int

	// Gated refuses what needs a later format than RaiseFormat has allowed.
	Gated bool

	// KeptHolders is how many holders may be kept.
	KeptHolders int

	// StepWork bounds the work of one step.
	StepWork      int
	links, leases int // what is left of it in this transition
	inPiece       bool
	ends          []unsettled
	ending        bool
	left          []unsettled // by job, and in the order of its ends
	endsLeft      bool        // there may be some
	lastEnd       job.ID
	canceled      []uint64 // waits of holders that have gone
	orphans       []orphan
	restarting    bool // what is from before these is stale
	lastEntered   uint64
	lastRun       job.ID
	passed        []job.ID
	flush         *flushing

	locks     map[lockName]lock
	batches   map[job.BatchID]*batch
	outcomes  map[keyName]outcome
	started   job.Time // of the process
	schedules []*ticking
	hooks     map[queueName]job.Hook
	kept      map[string]job.KeptHolder // holders that outlive restarts, by name
	notices   []job.Spec                // that hooks are to push
	values    map[valueName][]byte
	format    uint64           // that RaiseFormat has allowed
	keys      map[keyName]bool // every key that a job ever had

	lastID    job.ID
	turns     uint64 // that groups have had
	sequence  uint64 // places in the order of ready jobs
	entered   uint64 // entries into a state
	lastQueue uint32
	armed     uint64 // alarms set
	got       uint64 // leases that somebody has come to hold
	born      uint64 // jobs that ever were
	gone      uint64 // jobs that are no more
	told      uint64 // answers given

	oracle Oracle
	token  uint64 // of the command being applied
	trial  bool   // a copy that only finds out whether an Atomic is refused
	out    []Completion
	broken error

	entrants map[queueName]uint64 // pushes that were still to be let in when the command came
}

// NewModel returns an empty model.
func NewModel(now job.Time) *Model {
	return &Model{
		now: now, started: now, StepWork: 256, jobs: map[job.ID]*entry{}, queues: map[queueName]*queue{},
		locks:   map[lockName]lock{},
		batches: map[job.BatchID]*batch{}, outcomes: map[keyName]outcome{}, values: map[valueName][]byte{},
		keys:  map[keyName]bool{},
		hooks: map[queueName]job.Hook{}, kept: map[string]job.KeptHolder{}, KeptHolders: 100_000,
		format: record.FormatBase,
	}
}

// Apply fires the timers that are due and applies one command. A command that waits has no completion of its own yet;
// others may be completed along with it. What has become due by the command is left to the next step. The error says
// that the machine's random choices, as told by the oracle, were not among those allowed.
func (m *Model) Apply(now job.Time, token uint64, cmd job.Command, o Oracle) ([]Completion, error) {
	m.begin(now, o)
	m.fireDue()
	m.token = token
	m.transition()
	m.entrants = m.countEntrants()
	m.command(cmd)
	m.advance()
	m.serve()
	m.expireReady()
	return m.end()
}

// Tick fires the timers that are due, does what is left over, and releases what waited
// for jobs that a large purge has removed.
func (m *Model) Tick(now job.Time, o Oracle) ([]Completion, error) {
	m.begin(now, o)
	m.fireDue()
	for m.unfinished() || len(m.swept) > 0 {
		if m.unfinished() {
			m.piece()
			m.fireDue()
			continue
		}
		if m.behind {
			m.serve() // before a clean-up
		}
		m.transition()
		m.sweepOne(m.advance)
	}
	m.behind = m.behind && o.Behind() // what was left over has been done by now, or not
	m.serve()
	m.fireDue()
	return m.end()
}

// Sent tells that a delivery has been handed over. What has become due by that is left to the next step.
func (m *Model) Sent(d *job.Delivery) {
	for _, j := range m.jobs {
		if j.delivery == d {
			j.delivery, j.postponed = nil, 0
		}
	}
}

// EndWaits answers every waiting caller.
func (m *Model) EndWaits(now job.Time) []Completion {
	m.begin(now, silence{})
	for len(m.waits) > 0 {
		m.transition()
		m.giveUp(m.waits[0], job.ErrTimeout)
		m.advance()
		m.serve() // what one gives up may be what another waits for
	}
	out, _ := m.end() // nothing is left to chance
	return out
}

func (m *Model) begin(now job.Time, o Oracle) {
	m.now, m.oracle, m.out, m.broken = now, o, nil, nil
}

func (m *Model) end() ([]Completion, error) {
	out, err := m.out, m.broken
	m.behind = m.oracle.Behind()
	m.counting = map[queueName]bool{}
	for name := range m.queues {
		m.counting[name] = m.oracle.Counting(name.ns, name.name)
	}
	m.told += uint64(len(out))
	m.out, m.broken, m.oracle = nil, nil, nil
	return out, err
}

// Restart is the end of the process and the start of another one: no caller
// waits, no holder exists but those that are kept, ephemeral jobs are gone.
func (m *Model) Restart(now job.Time, o Oracle) {
	m.begin(now, o)
	m.started = now
	m.waits, m.endings, m.canceled, m.orphans, m.behind = nil, nil, nil, nil, false
	m.endsLeft, m.lastEnd = len(m.left) > 0, 0
	for _, j := range m.jobs {
		j.delivery, j.postponed, j.got = nil, 0, 0
	}
	m.restarting, m.lastEntered, m.lastRun, m.passed = true, m.entered, m.lastID, nil
	for _, name := range slices.Sorted(maps.Keys(m.kept)) {
		k := m.kept[name]
		m.endings = append(m.endings, ending{holder: k.Holder, at: m.now.Add(k.Grace), armed: m.arm()})
	}
	m.transition()
	m.continueRestart()
	m.advance()
	_, _ = m.end() // nobody is there to be answered
}

// Clone returns an independent copy.
func (m *Model) Clone() *Model {
	c := *m
	c.jobs = make(map[job.ID]*entry, len(m.jobs))
	for id, j := range m.jobs {
		e := *j
		c.jobs[id] = &e
	}
	c.queues = make(map[queueName]*queue, len(m.queues))
	for name, q := range m.queues {
		e := *q
		c.queues[name] = &e
	}
	c.batches = make(map[job.BatchID]*batch, len(m.batches))
	for id, b := range m.batches {
		e := *b
		e.members = maps.Clone(b.members)
		c.batches[id] = &e
	}
	c.schedules = nil
	for _, s := range m.schedules {
		e := *s
		e.runs = slices.Clone(s.runs)
		c.schedules = append(c.schedules, &e)
	}
	c.hooks, c.notices = maps.Clone(m.hooks), slices.Clone(m.notices)
	c.kept = maps.Clone(m.kept)
	c.locks = maps.Clone(m.locks)
	c.outcomes = maps.Clone(m.outcomes)
	c.values = maps.Clone(m.values)
	c.keys = maps.Clone(m.keys)
	c.waits = slices.Clone(m.waits)
	c.endings = slices.Clone(m.endings)
	c.swept = slices.Clone(m.swept)
	c.left, c.canceled, c.orphans = slices.Clone(m.left), slices.Clone(m.canceled), slices.Clone(m.orphans)
	c.passed = slices.Clone(m.passed)
	if m.flush != nil {
		f := *m.flush
		f.kept = maps.Clone(f.kept)
		c.flush = &f
	}
	c.out = slices.Clone(m.out)
	return &c
}

// Check asserts what must hold between any two steps.
func (m *Model) Check() error {
	if m.born-m.gone != uint64(len(m.jobs)) {
		return fmt.Errorf("%d jobs were born and %d have gone, but %d exist", m.born, m.gone, len(m.jobs))
	}
	for id, j := range m.jobs {
		if m.queues[queueName{j.Namespace, j.Queue}] == nil {
			return fmt.Errorf("job %d is in a queue that does not exist", id)
		}
		if (j.State == job.Blocked) != (len(j.Blockers) > 0) {
			return fmt.Errorf("job %d is %s and has %d blockers", id, j.State, len(j.Blockers))
		}
		if j.State != job.Leased && j.Lease != (job.Lease{}) {
			return fmt.Errorf("job %d is %s and has a lease", id, j.State)
		}
	}
	for _, w := range m.waits {
		if f, ok := w.cmd.(*job.Fetch); ok && !m.behind && len(m.candidates(w.part(f))) > 0 {
			return errors.New("a fetch waits and a job is there")
		}
	}
	if err := m.checkLocks(); err != nil {
		return err
	}
	return errors.Join(m.checkBatches(), m.checkSchedules())
}

// command applies one verb.
func (m *Model) command(cmd job.Command) {
	switch c := cmd.(type) {
	case *job.Push:
		m.applyPush(c)
	case *job.Run:
		m.applyRun(c)
	case *job.Atomic:
		m.applyAtomic(c)
	case *job.Fetch:
		m.applyFetch(c)
	case *job.Ack:
		m.answerJob(m.ack(c), c.Want)
	case *job.Fail:
		m.applyFail(c)
	case *job.Release:
		m.applyRelease(c)
	case *job.Return:
		m.applyReturn(c)
	case *job.Bury:
		m.applyBury(c)
	case *job.Kick:
		m.applyKick(c)
	case *job.Delete:
		m.answerJob(m.delete(c), c.Want)
	case *job.Touch:
		m.applyTouch(c)
	case *job.Promote:
		m.applyPromote(c)
	case *job.Kill:
		m.applyKill(c)
	case *job.Each:
		m.applyEach(c)
	case *job.Respawn:
		m.applyRespawn(c)
	case *job.Move:
		m.applyMove(c)
	case *job.Await:
		m.applyAwait(c)
	case *job.Cancel:
		m.applyCancel(c)
	case *job.EndHolder:
		m.applyEndHolder(c)
	case *job.ResumeHolder:
		m.applyResumeHolder(c)
	case *job.KeepHolder:
		m.applyKeepHolder(c)
	case *job.ReleaseAll:
		m.applyReleaseAll(c)
	case *job.Configure:
		m.applyConfigure(c)
	case *job.SetLimits:
		m.applySetLimits(c)
	case *job.SetFair:
		m.applySetFair(c)
	case *job.Pause:
		m.applyPause(c)
	case *job.Resume:
		m.applyResume(c)
	case *job.Purge:
		m.applyPurge(c)
	case *job.Remove:
		m.applyRemove(c)
	case *job.Flush:
		m.applyFlush(c)
	case *job.Report:
		m.applyReport(c)
	case *job.NewBatch:
		m.applyNewBatch(c)
	case *job.OpenBatch:
		m.applyOpenBatch(c)
	case *job.CommitBatch:
		m.applyCommitBatch(c)
	case *job.RaiseFormat:
		m.format = max(m.format, c.Format)
		m.answer(job.Result{})
	case *job.SetValue:
		m.applySetValue(c)
	case *job.DropValue:
		m.applyDropValue(c)
	case *job.SetSchedules:
		m.applySetSchedules(c)
	case *job.DropSchedule:
		m.applyDropSchedule(c)
	case *job.PauseSchedule:
		m.applyPauseSchedule(c)
	case *job.RunSchedule:
		m.applyRunSchedule(c)
	case *job.SetHooks:
		m.applySetHooks(c)
	}
}

// answer completes the command being applied.
func (m *Model) answer(r job.Result) { m.out = append(m.out, Completion{Token: m.token, Result: r}) }

func (m *Model) refuse(err *job.Error) { m.answer(job.Result{Err: err}) }

func (m *Model) answerCount(n int) { m.answer(job.Result{Count: n}) }

// settled is what a verb about one job did: the job as it is now, or as it was
// before it went.
type settled struct {
	job *entry
	err *job.Error
}

// answerJob answers a verb about one job, with the job if it is wanted.
func (m *Model) answerJob(s settled, want bool) {
	r := job.Result{Err: s.err}
	gone := false
	if s.err == nil && want {
		r.Jobs = []job.Job{s.job.Job}
		// A ready job whose time has run out goes with the first look of a caller that waits for one, which may be in
		// this very step.
		late := s.job.State == job.Ready && s.job.expires() && s.job.Policy.ExpireAt <= m.now
		gone = late || m.jobs[s.job.ID] != s.job || s.job.Flags.Has(job.FlagTombstone)
	}
	m.out = append(m.out, Completion{Token: m.token, Result: r, Gone: gone})
}

// complete answers a caller that waits and forgets it.
func (m *Model) complete(w *wait, r job.Result) {
	m.waits = slices.DeleteFunc(m.waits, func(o *wait) bool { return o == w })
	m.out = append(m.out, Completion{Token: w.token, Result: r})
}

// sorted returns the jobs that satisfy keep, by id.
func (m *Model) sorted(keep func(*entry) bool) []*entry {
	var out []*entry
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if j := m.jobs[id]; keep(j) {
			out = append(out, j)
		}
	}
	return out
}

// list returns one state of a queue in the order of its list.
func (m *Model) list(name queueName, s job.State) []*entry {
	out := m.sorted(func(j *entry) bool {
		return j.Namespace == name.ns && j.Queue == name.name && j.State == s
	})
	slices.SortStableFunc(out, func(a, b *entry) int {
		switch s {
		case job.Scheduled, job.Retrying:
			return cmp.Compare(a.RunAt, b.RunAt)
		case job.Ready, job.Buried:
			if a.last || b.last { // only of buried ones
				return cmp.Or(compareBools(a.last, b.last), cmp.Compare(a.Entered, b.Entered))
			}
			switch {
			case a.Order.Before(b.Order):
				return -1
			case b.Order.Before(a.Order):
				return 1
			default:
				return 0
			}
		case job.Leased:
			return cmp.Or(compareBools(a.Lease.OnEnd == job.EndKeep, b.Lease.OnEnd == job.EndKeep),
				cmp.Compare(a.Entered, b.Entered))
		case job.Done, job.Failed, job.Dead:
			return cmp.Compare(a.Entered, b.Entered)
		case job.Blocked: // by id, as they come
		}
		return 0
	})
	return out
}

// compareBools puts what is not so first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// queue returns a queue, which is made if need be.
func (m *Model) queue(name queueName) *queue {
	m.flushBefore(name)
	q := m.queues[name]
	if q == nil {
		m.lastQueue++
		q = &queue{queueName: name, num: m.lastQueue, created: m.now}
		m.queues[name] = q
	}
	return q
}

// arm returns the place of an alarm among those of the same time.
func (m *Model) arm() uint64 {
	m.armed++
	return m.armed
}

func (m *Model) count(j *entry, c job.Counter) { m.queues[queueName{j.Namespace, j.Queue}].totals[c]++ }
