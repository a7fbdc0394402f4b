package faktory

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// beatTime is how long a worker may be silent, and sweepTime how often it is looked
	// at (protocol section 5).
	beatTime  = 60 * time.Second
	sweepTime = 15 * time.Second
)

// WorkerState is what a worker process is asked to do. It only moves forward.
type WorkerState uint32

// The states of a worker.
const (
	Running   WorkerState = iota // take jobs
	Quiet                        // take no more jobs
	Terminate                    // finish or fail what is held, and end
)

var workerStates = [...]string{"running", "quiet", "terminate"}

// String returns the state as the protocol calls it.
func (s WorkerState) String() string { return workerStates[s] }

// parseState recognises what a worker says about itself; other words change nothing.
func parseState(text string) WorkerState {
	switch text {
	case workerStates[Quiet]:
		return Quiet
	case workerStates[Terminate]:
		return Terminate
	}
	return Running
}

// Worker is a worker process as it is shown to people.
type Worker struct {
	WID         string
	Hostname    string
	PID         int64
	Labels      []string
	State       WorkerState
	Started     time.Time // when it first said HELLO
	LastBeat    time.Time // its last BEAT, or else Started
	RSS         int64     // kibibytes, zero if it has not told
	Connections int
	// Holder is whose leases are the worker's: the jobs that it has fetched.
	Holder job.Holder
}

// worker is a worker process: all connections with one wid.
type worker struct {
	wid      string
	hostname string
	pid      int64
	labels   []string
	started  time.Time
	holder   job.Holder

	state   atomic.Uint32 // a WorkerState
	dropped atomic.Bool   // its connections end

	// Guarded by the registry's mu.
	conns    map[*conn]struct{}
	lastBeat time.Time
	rss      int64
}

func (w *worker) load() WorkerState { return WorkerState(w.state.Load()) }

// advance moves the state forward. It reports whether the worker has just been told to
// take no more jobs.
func (w *worker) advance(to WorkerState) (stopped bool) {
	for {
		old := w.state.Load()
		if uint32(to) <= old {
			return false
		}
		if w.state.CompareAndSwap(old, uint32(to)) {
			return old == uint32(Running)
		}
	}
}

// registry knows the worker processes that are connected. A timer looks for silent ones
// as long as there is any.
type registry struct {
	engine *engine.Engine
	reaped atomic.Uint64 // workers dropped for their silence

	mu      sync.Mutex // guards what follows, and the workers' parts that say so
	workers map[string]*worker
	timer   *time.Timer
}

// join adds a connection to the worker that h introduces, which is made if it is new.
func (r *registry) join(h *hello, c *conn) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[h.wid]
	if w == nil {
		now := time.Now()
		w = &worker{
			wid: h.wid, hostname: h.hostname, pid: h.pid, labels: h.labels, started: now, lastBeat: now, rss: h.rss,
			holder: holderOf(h.wid), conns: make(map[*conn]struct{}),
		}
		if r.workers == nil {
			r.workers = make(map[string]*worker)
		}
		r.workers[h.wid] = w
		if r.timer == nil {
			r.timer = time.AfterFunc(sweepTime, r.sweep)
		}
	}
	w.conns[c] = struct{}{}
	return w
}

// holderOf returns the holder that a worker process is: the same whenever it connects, also after a restart of the
// server, so that what it may have of a queue counts all that it has. Engines number their own holders from node 1 on.
func holderOf(wid string) job.Holder {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, wid) // never fails
	return job.Holder{Num: sum.Sum64() | 1<<63}
}

// leave takes a connection away. The worker goes with its last one.
func (r *registry) leave(w *worker, c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(w.conns, c)
	if len(w.conns) == 0 && r.workers[w.wid] == w {
		r.forget(w)
	}
}

// forget drops a worker from the registry. The caller holds mu.
func (r *registry) forget(w *worker) {
	delete(r.workers, w.wid)
	if len(r.workers) == 0 && r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// beat takes a sign of life; nil if there is no such worker.
func (r *registry) beat(wid string, rss int64) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[wid]
	if w != nil {
		w.lastBeat = time.Now()
		if rss > 0 {
			w.rss = rss
		}
	}
	return w
}

// sweep drops the workers that have been silent for too long: their waits end, and
// their connections close. What they hold stays reserved.
func (r *registry) sweep() { r.submit(r.dropSilent()) }

// dropSilent does it, and returns the commands that end the waits.
func (r *registry) dropSilent() (ends []job.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		return nil // the last worker left meanwhile
	}
	now := time.Now()
	for _, w := range r.sorted() {
		if now.Sub(w.lastBeat) < beatTime {
			continue
		}
		w.dropped.Store(true)
		r.reaped.Add(1)
		ends = append(ends, &job.EndHolder{Holder: w.holder})
		for c := range w.conns {
			c.Wake()
		}
		r.forget(w)
	}
	if r.timer != nil {
		r.timer.Reset(sweepTime)
	}
	return ends
}

// submit hands commands to the engine whose results nobody waits for. It takes time, so
// mu is not held.
func (r *registry) submit(cmds []job.Command) {
	if len(cmds) > 0 {
		r.engine.Submit(&engine.Request{Commands: cmds, Done: func(*engine.Request) {}})
	}
}

// sorted returns the workers in the order in which they came. The caller holds mu.
func (r *registry) sorted() []*worker {
	all := make([]*worker, 0, len(r.workers))
	for _, w := range r.workers {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *worker) int {
		return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.wid, b.wid))
	})
	return all
}

// list returns the workers in the order in which they came.
func (r *registry) list() []Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Worker, 0, len(r.workers))
	for _, w := range r.sorted() {
		all = append(all, Worker{
			WID: w.wid, Hostname: w.hostname, PID: w.pid, Labels: w.labels, State: w.load(), Started: w.started,
			LastBeat: w.lastBeat, RSS: w.rss, Connections: len(w.conns), Holder: w.holder,
		})
	}
	return all
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.workers)
}

// signal moves workers forward, one or with an empty wid all, and returns how many
// there were.
func (r *registry) signal(wid string, to WorkerState) int {
	count, ends := r.advance(wid, to)
	r.submit(ends)
	return count
}

func (r *registry) advance(wid string, to WorkerState) (count int, ends []job.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.sorted() {
		if wid != "" && w.wid != wid {
			continue
		}
		count++
		if w.advance(to) {
			ends = append(ends, &job.EndHolder{Holder: w.holder})
		}
	}
	return count, ends
}
