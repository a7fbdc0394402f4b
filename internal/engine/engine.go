package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/engine/machine"
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
	FreeFloor    uint64        // below so many free bytes pushes are refused; zero is off
	Logger       *slog.Logger
	Seed         uint64 // of all randomness; zero draws one
	Core         CoreOptions
}

// Engine applies commands one at a time, commits them in groups and answers. All
// its methods may be called from any goroutine.
type Engine struct {
	opt   Options
	core  *Core
	log   *slog.Logger
	start time.Time // with its monotonic reading: wall clock jumps do not reach the machine
	base  job.Time

	quick atomic.Uint32 // commits in a row that were quick

	// inflight is closed when the commit in progress is durable; nil if none is. A
	// reader that may have seen a part of it waits for that.
	inflight atomic.Pointer[chan struct{}]

	readers  sync.RWMutex // read-locked by every query; Close waits for them
	stopping atomic.Bool  // queries end

	tokens  atomic.Uint64
	holders atomic.Uint64
	stats   counters
	noSpace atomic.Bool

	mu    sync.Mutex // guards inbox, patient and closed
	inbox []message
	// patient is set while a batch is with the committer: what comes in then could
	// not be answered before the next batch anyway, and the loop takes it all at once
	// when the committer is free. Only fetches are looked at immediately.
	patient bool
	// closed is set when nothing is taken any more: stopped or failed.
	closed bool
	wake   chan struct{} // capacity 1; Submit sends, the loop receives

	// Owned by the loop.
	taken     []message
	todo      []message // of those, what has not been done; the first is being done
	waiting   map[uint64]*Request
	rnd       uint64
	draining  bool
	busy      bool      // a batch is with the committer
	lazy      bool      // answers do not wait for the commit: not DurabilityFsync
	held      time.Time // since when a lazy engine holds changes; zero: it has none
	last      int       // how many answers waited for the last batch
	flush     bool      // commit what is there although it could be held longer
	sealed    uint64    // its last step
	durable   uint64    // the last step that is committed
	open      *replies  // answers that wait for the open batch
	late      *replies  // answers that wait for the sealed batch and came after it
	spare     []*replies
	lastRetry time.Time

	reclaimed time.Time // when the store was last asked for space

	lastSpace  time.Time // owned by whoever commits, like the next
	sinceSpace int       // bytes committed since then

	commits   chan *commit  // loop sends, committer receives; closed by the loop
	committed chan *replies // committer sends, loop receives
	done      chan struct{} // closed when loop and committer have ended

	failOnce sync.Once
	failed   chan struct{} // closed on a storage failure
	err      error         // set before failed is closed

	syncMu  sync.Mutex // guards syncing
	syncing bool       // a sync is scheduled
	syncs   sync.WaitGroup
}

// message is one thing for the loop to do, in order of arrival.
type message struct {
	kind  messageKind
	req   *Request // to submit
	token uint64   // to cancel: the request itself may be in use again by then
}

type messageKind uint8

const (
	submit messageKind = iota
	cancel
	drain
	stop
)

// replies are requests to be answered together.
type replies struct{ reqs []*Request }

// commit is a sealed batch on its way to the store.
type commit struct {
	batch   *store.Batch
	size    int // of the batch: after the commit it is in use again
	replies *replies
}

// counters are the engine's own figures; read by Stats.
type counters struct {
	commands, commits, batched atomic.Uint64
	waiters                    atomic.Int64
	refused                    atomic.Uint64
}

// Stats are figures about the engine since it was opened.
type Stats struct {
	Commands uint64 // applied
	Commits  uint64 // batches committed
	Batched  uint64 // commands in them
	Waiters  int    // callers that wait now
	NoSpace  bool   // pushes are refused for want of disk space
	Refused  uint64 // pushes refused for that reason
}

// Open loads the state from the store and starts the engine.
func Open(o Options) (*Engine, error) {
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
	core, err := OpenCore(o.Store, job.TimeOf(now), o.Core)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opt: o, core: core, log: o.Logger, start: now, base: job.TimeOf(now),
		wake: make(chan struct{}, 1), waiting: map[uint64]*Request{}, rnd: o.Seed,
		commits: make(chan *commit, 1), committed: make(chan *replies, 1),
		done: make(chan struct{}), failed: make(chan struct{}),
		open: &replies{}, late: &replies{}, lazy: o.Durability != DurabilityFsync,
	}
	// Holders of an earlier run must not be mistaken for those of this one.
	e.holders.Store(uint64(now.UnixNano()) &^ 0xffffff)
	e.checkSpace()
	go e.commitLoop()
	go e.loop()
	return e, nil
}

// Now returns the engine's time: the wall clock at its start plus what has passed
// since.
func (e *Engine) Now() job.Time { return e.base.Add(time.Since(e.start)) }

// NewHolder returns a holder that nobody else has.
func (e *Engine) NewHolder() job.Holder { return job.Holder{Node: 1, Num: e.holders.Add(1)} }

// Submit hands a request to the engine. Done is called when it has been answered.
func (e *Engine) Submit(r *Request) {
	r.token, r.needs = e.tokens.Add(1), 0
	if r.flush {
		r.needs = math.MaxUint64
	}
	if n := len(r.Commands); cap(r.Results) < n {
		r.Results = append(r.Results[:cap(r.Results)], make([]job.Result, n-cap(r.Results))...)
	}
	r.Results = r.Results[:len(r.Commands)]
	if !e.send(message{req: r, kind: submit}, mayBeQuick(r)) {
		answerAll(r, e.closedError())
		r.Done(r)
	}
}

// Cancel ends the wait of a request, if it waits. The request is answered either
// way, exactly once.
func (e *Engine) Cancel(r *Request) { e.send(message{token: r.token, kind: cancel}, true) }

// Drain answers everybody who waits, and makes later commands not wait.
func (e *Engine) Drain() { e.send(message{kind: drain}, true) }

// Close stops the engine once everything submitted before has been committed, and
// waits for queries in progress, which it ends. It does not close the store.
func (e *Engine) Close() error {
	e.stopping.Store(true)
	e.send(message{kind: stop}, true)
	<-e.done
	e.syncs.Wait()
	e.readers.Lock() // none is left, and later ones find the engine stopping
	defer e.readers.Unlock()
	if e.err != nil {
		return e.err
	}
	if err := e.opt.Store.Sync(); err != nil {
		return fmt.Errorf("sync at the end: %w", err)
	}
	return nil
}

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
	return Stats{
		Commands: e.stats.commands.Load(), Commits: e.stats.commits.Load(), Batched: e.stats.batched.Load(),
		Waiters: int(e.stats.waiters.Load()), NoSpace: e.noSpace.Load(), Refused: e.stats.refused.Load(),
	}
}

// StoreStats returns the figures of the store.
func (e *Engine) StoreStats() store.Stats { return e.opt.Store.Stats() }

func (e *Engine) closedError() *job.Error {
	if e.Err() != nil {
		return job.ErrInternal
	}
	return job.ErrDraining
}

// mayBeQuick reports whether a request may be answered without a commit.
func mayBeQuick(r *Request) bool {
	if len(r.Commands) != 1 {
		return false
	}
	_, fetch := r.Commands[0].(*job.Fetch)
	return fetch
}

func (e *Engine) send(m message, urgent bool) bool {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	e.inbox = append(e.inbox, m)
	wake := urgent || !e.patient
	e.mu.Unlock()
	if wake {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns what has come in since the last time.
func (e *Engine) take() []message {
	e.mu.Lock()
	e.inbox, e.taken = e.taken[:0], e.inbox
	e.mu.Unlock()
	return e.taken
}

// loop owns the machine.
func (e *Engine) loop() {
	defer close(e.done)
	defer func() {
		close(e.commits)
		e.finish()
	}()
	defer e.recoverFault()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		stopping := false
		for turn := 0; turn == 0 || turn < yields && !e.busy && !stopping && e.few(); turn++ {
			if turn > 0 {
				runtime.Gosched()
			}
			for e.todo = e.take(); len(e.todo) > 0; e.todo = e.todo[1:] {
				if e.Err() != nil {
					return
				}
				stopping = e.handle(e.todo[0]) || stopping
			}
		}
		more := false
		if e.core.NextWake() <= e.Now() {
			more = e.core.Tick(e.Now(), e.draw())
			e.collect()
		}
		again := e.commitIfFree()
		if stopping {
			e.settle()
			return
		}
		if again {
			continue // more may have come in meanwhile, and has not woken anybody
		}
		e.stats.waiters.Store(int64(len(e.waiting)))
		if more {
			select {
			case r := <-e.committed:
				e.wasCommitted(r)
			case <-e.failed:
				return
			default:
			}
			continue
		}
		e.arm(timer)
		select {
		case <-e.wake:
		case r := <-e.committed:
			e.wasCommitted(r)
		case <-timer.C:
		case <-e.failed:
			return
		}
	}
}

// yields is how often the loop steps back before it seals a batch that is small
// compared to the one before, so that callers that are ready to run get into it. On
// an idle machine that takes no time.
const yields = 8

// few reports whether there are much fewer answers to wait for the open batch than for
// the last one.
func (e *Engine) few() bool { return len(e.open.reqs) > 0 && 2*len(e.open.reqs) < e.last }

// arm sets the timer for the next thing that is due.
func (e *Engine) arm(timer *time.Timer) {
	d := e.core.NextWake().Sub(e.Now())
	if !e.held.IsZero() && !e.busy {
		d = min(d, e.holdFor()-time.Since(e.held))
	}
	if d < math.MaxInt64 {
		timer.Reset(max(d, 0))
	} else {
		timer.Stop()
	}
}

// holdFor is how long a lazy engine gathers changes: with what the sync takes, a
// crash loses no more than the interval. Jobs that come and go meanwhile never reach
// the store.
func (e *Engine) holdFor() time.Duration { return e.opt.SyncInterval / 2 }

// holdMax is how many changes it gathers at most.
const holdMax = 4096

// recoverFault turns an unreadable store into a failure of the engine. Any other
// panic is a broken invariant: the process must not go on.
func (e *Engine) recoverFault() {
	switch p := recover().(type) {
	case nil:
	case *StoreError:
		e.fail(p)
	case *machine.CorruptError:
		e.fail(fmt.Errorf("%w: %w", store.ErrCorrupt, p))
	default:
		panic(p)
	}
}

// handle does one message and reports whether it is the last.
func (e *Engine) handle(m message) (last bool) {
	switch m.kind {
	case submit:
		e.apply(m.req)
	case cancel:
		e.cancelWait(m.token)
	case drain:
		e.draining = true
		e.core.EndWaits(e.Now())
		e.collect()
	case stop:
		return true
	}
	return false
}

func (e *Engine) draw() uint64 {
	e.rnd += 0x9e3779b97f4a7c15
	return e.rnd
}

// apply applies the commands of a request. If the last one waits, the request does.
func (e *Engine) apply(r *Request) {
	if r.flush {
		e.flush = true
		e.answerCommitted(r)
		return
	}
	now, waits := e.Now(), false
	e.stats.commands.Add(uint64(len(r.Commands)))
	for i, cmd := range r.Commands {
		res := &r.Results[i]
		if e.noSpace.Load() && needsSpace(cmd) && !e.spaceAgain() {
			res.Reset()
			res.Err = job.ErrNoSpace
			e.stats.refused.Add(1)
			continue
		}
		answered, needs := e.core.Apply(now, e.draw(), r.token, cmd, res)
		r.needs = max(r.needs, needs)
		if answered {
			continue
		}
		if i != len(r.Commands)-1 || e.draining {
			var ignored job.Result // only the last may wait, and nobody while draining
			e.core.Apply(now, 0, 0, &job.Cancel{Token: r.token}, &ignored)
			for _, c := range e.core.Completed() {
				if c.Token == r.token {
					*res = c.Result
					res.Err = job.ErrTimeout
				} else {
					e.completed(c)
				}
			}
			continue
		}
		e.waiting[r.token] = r // collect, or a later one, answers it
		waits = true
	}
	e.collect()
	if !waits {
		e.answer(r)
	}
}

// collect passes on the answers of commands that had waited.
func (e *Engine) collect() {
	for _, c := range e.core.Completed() {
		e.completed(c)
	}
}

func (e *Engine) completed(c machine.Completion) {
	r := e.waiting[c.Token]
	if r == nil {
		return
	}
	delete(e.waiting, c.Token)
	r.Results[len(r.Results)-1] = c.Result
	r.needs = max(r.needs, c.Needs)
	e.answer(r)
}

// cancelWait ends a wait. A request that has been answered already is left alone.
func (e *Engine) cancelWait(token uint64) {
	if e.waiting[token] == nil {
		return
	}
	var res job.Result
	e.core.Apply(e.Now(), e.draw(), 0, &job.Cancel{Token: token}, &res)
	e.collect()
}

// answer lets a request go once what it was told is committed (INV-11), or at once if
// the operator has chosen that a crash may lose something.
func (e *Engine) answer(r *Request) {
	if e.lazy {
		r.Done(r)
		return
	}
	e.answerCommitted(r)
}

func (e *Engine) answerCommitted(r *Request) {
	needs := min(r.needs, max(e.core.Dirty(), e.sealed)) // steps after that have changed nothing
	switch {
	case needs <= e.durable:
		r.Done(r)
	case e.busy && needs <= e.sealed:
		e.late.reqs = append(e.late.reqs, r)
	default:
		e.open.reqs = append(e.open.reqs, r)
	}
}

// commitIfFree hands the open batch to the committer unless it is busy, or commits it
// in place where that is quicker.
func (e *Engine) commitIfFree() (inPlace bool) {
	if e.busy || e.hold() {
		return false
	}
	b, step := e.core.Seal()
	if b == nil {
		return false
	}
	e.busy, e.sealed = true, step
	e.setPatient(true)
	out := e.open
	if n := len(e.spare); n > 0 {
		e.open, e.spare = e.spare[n-1], e.spare[:n-1]
	} else {
		e.open = &replies{}
	}
	e.last = len(out.reqs)
	e.stats.commits.Add(1)
	e.stats.batched.Add(uint64(len(out.reqs)))
	c := &commit{b, b.Size(), out}
	if e.quick.Load() < quickEnough || e.lazy {
		e.commits <- c
		return false
	}
	e.write(c)
	e.wasCommitted(c.replies)
	return true
}

// On a quick disk handing a batch over and back takes longer than the commit itself,
// so the loop does it: after so many commits in a row that were quick, until one is
// not. On a slow disk fetches must not wait for the commits of others.
const (
	quickEnough = 64
	quickTime   = time.Millisecond
)

// hold reports whether a lazy engine should gather more changes before it commits.
func (e *Engine) hold() bool {
	if !e.lazy {
		return false
	}
	if e.core.Dirty() == 0 {
		e.flush = false
		return true
	}
	if e.held.IsZero() {
		e.held = time.Now()
	}
	if !e.flush && e.core.Changes() < holdMax && time.Since(e.held) < e.holdFor() {
		return true
	}
	e.held, e.flush = time.Time{}, false
	return false
}

func (e *Engine) setPatient(p bool) {
	if e.lazy {
		return
	}
	e.mu.Lock()
	e.patient = p
	e.mu.Unlock()
}

// wasCommitted takes the batch back from the committer, which has sent its answers.
func (e *Engine) wasCommitted(r *replies) {
	if e.Err() != nil {
		return // it was not
	}
	e.core.Committed()
	e.busy, e.durable = false, e.sealed
	e.setPatient(false)
	e.spare = append(e.spare, r)
	for _, q := range e.late.reqs {
		q.Done(q)
	}
	clear(e.late.reqs)
	e.late.reqs = e.late.reqs[:0]
}

// commitLoop writes batches to the store and sends the answers that waited for it.
func (e *Engine) commitLoop() {
	defer close(e.committed)
	for c := range e.commits {
		e.write(c)
		e.committed <- c.replies
	}
}

// write commits a batch and sends the answers that waited for it. Only one batch is
// on its way at a time, with the committer or with the loop.
func (e *Engine) write(c *commit) {
	start := time.Now()
	done := make(chan struct{})
	e.inflight.Store(&done)
	err := e.opt.Store.Commit(c.batch, e.opt.Durability == DurabilityFsync)
	e.inflight.Store(nil)
	close(done)
	if time.Since(start) < quickTime {
		e.quick.Add(1)
	} else {
		e.quick.Store(0)
	}
	if err != nil {
		for _, r := range c.replies.reqs {
			answerAll(r, job.ErrInternal)
		}
		e.fail(fmt.Errorf("commit batch of %d changes: %w", c.batch.Len(), err))
	} else if e.opt.Durability == DurabilityInterval {
		e.scheduleSync()
	}
	for _, r := range c.replies.reqs {
		r.Done(r)
	}
	clear(c.replies.reqs)
	c.replies.reqs = c.replies.reqs[:0]
	e.sinceSpace += c.size
	e.checkSpace()
}

// scheduleSync has the store synced within the interval.
func (e *Engine) scheduleSync() {
	e.syncMu.Lock()
	defer e.syncMu.Unlock()
	if e.syncing {
		return
	}
	e.syncing = true
	e.syncs.Add(1)
	time.AfterFunc(e.opt.SyncInterval/2, func() {
		defer e.syncs.Done()
		e.syncMu.Lock()
		e.syncing = false
		e.syncMu.Unlock()
		if err := e.opt.Store.Sync(); err != nil && !errors.Is(err, store.ErrClosed) {
			e.fail(fmt.Errorf("sync: %w", err))
		}
	})
}

// settle waits for the last batches.
func (e *Engine) settle() {
	e.core.EndWaits(e.Now())
	e.collect()
	e.flush = true
	e.commitIfFree()
	for e.busy {
		select {
		case r := <-e.committed:
			e.wasCommitted(r)
			e.flush = true
			e.commitIfFree()
		case <-e.failed:
			return
		}
	}
}

// finish answers whatever is left when the loop has ended.
func (e *Engine) finish() {
	e.mu.Lock()
	e.closed = true
	left := e.inbox
	e.inbox = nil
	e.mu.Unlock()
	err := e.closedError()
	for token, r := range e.waiting {
		delete(e.waiting, token)
		answerAll(r, err)
		r.Done(r)
	}
	for _, l := range []*replies{e.open, e.late} {
		for _, r := range l.reqs {
			answerAll(r, err)
			r.Done(r)
		}
	}
	for _, m := range append(e.todo, left...) { // with the one that met the fault
		if m.kind == submit {
			answerAll(m.req, err)
			m.req.Done(m.req)
		}
	}
	for range e.committed { // until the committer has ended
	}
}

func answerAll(r *Request, err *job.Error) {
	for i := range r.Results {
		r.Results[i].Reset()
		r.Results[i].Err = err
	}
}

// fail stops the engine: nothing is acknowledged after a storage failure.
func (e *Engine) fail(err error) {
	e.failOnce.Do(func() {
		e.err = err
		e.log.Error("storage failure, the engine stops", slog.Any("err", err))
		close(e.failed)
	})
}

// needsSpace reports whether a command stores new jobs.
func needsSpace(cmd job.Command) bool {
	switch c := cmd.(type) {
	case *job.Push, *job.Run:
		return true
	case *job.Atomic:
		for _, op := range c.Ops {
			if _, ok := op.(*job.Push); ok {
				return true
			}
		}
	default: // stores nothing new, or only counters
	}
	return false
}

const (
	spaceEvery   = time.Second // how often free space is looked at while there is traffic,
	spaceBytes   = 4 << 20     // or after so many bytes,
	reclaimEvery = 2 * time.Second
	spaceRetry   = 250 * time.Millisecond // and while pushes are being refused
)

// checkSpace looks at the free space, at most once in a while. It is called by whoever
// commits, and by Open before that.
func (e *Engine) checkSpace() {
	if e.opt.FreeFloor == 0 || e.noSpace.Load() ||
		(time.Since(e.lastSpace) < spaceEvery && e.sinceSpace < spaceBytes) {
		return
	}
	e.lastSpace, e.sinceSpace = time.Now(), 0
	if free, err := e.opt.Store.FreeBytes(); err == nil && free < e.opt.FreeFloor {
		e.noSpace.Store(true)
		e.log.Warn("free disk space is under the floor, pushes are refused",
			slog.Uint64("free_bytes", free), slog.Uint64("floor_bytes", e.opt.FreeFloor))
	}
}

// spaceAgain reports whether there is space again. Only the loop calls it, while
// pushes are refused.
func (e *Engine) spaceAgain() bool {
	if time.Since(e.lastRetry) < spaceRetry {
		return false
	}
	e.lastRetry = time.Now()
	free, err := e.opt.Store.FreeBytes()
	if err != nil || free < e.opt.FreeFloor {
		if time.Since(e.reclaimed) >= reclaimEvery {
			e.reclaimed = time.Now()
			if err := e.opt.Store.Reclaim(); err != nil {
				e.log.Warn("cannot ask the store for space", slog.Any("err", err))
			}
		}
		return false
	}
	e.noSpace.Store(false)
	e.log.Info("there is free disk space again, pushes are taken", slog.Uint64("free_bytes", free))
	return true
}
