package engine_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// gated is a store whose commits wait until they are let through.
type gated struct {
	store.Store
	gate    chan error // nil lets a commit through, an error makes it fail
	commits atomic.Int64
}

func newGated() *gated { return &gated{Store: memstore.New(), gate: make(chan error)} }

func (g *gated) Commit(b *store.Batch, done func(error)) { done(g.commit(b)) }

func (g *gated) commit(b *store.Batch) (err error) {
	g.commits.Add(1)
	if err := <-g.gate; err != nil {
		return err
	}
	return store.CommitNow(g.Store, b)
}

// let lets n commits through, one after the other, and waits until all is quiet.
func (g *gated) let(n int) {
	for range n {
		g.gate <- nil
		synctest.Wait()
	}
}

// openGate lets every commit through from now on.
func (g *gated) openGate() { close(g.gate) }

// deep is a store that takes several batches before the first of them is committed.
type deep struct {
	store.Store
	depth int

	mu      sync.Mutex // guards waiting
	waiting []func()
}

func (d *deep) Depth() int { return d.depth }

func (d *deep) Commit(b *store.Batch, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, func() { done(store.CommitNow(d.Store, b)) })
}

// underway returns how many batches wait.
func (d *deep) underway() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// land commits the oldest batch that waits, and waits until all is quiet.
func (d *deep) land() {
	d.mu.Lock()
	first := d.waiting[0]
	d.waiting = d.waiting[1:]
	d.mu.Unlock()
	first()
	synctest.Wait()
}

// call is a request and whether it has been answered.
type call struct {
	engine.Request
	answers atomic.Int64
}

func submit(e *engine.Engine, cmds ...job.Command) *call {
	c := &call{}
	c.Commands = cmds
	c.Done = func(*engine.Request) { c.answers.Add(1) }
	e.Submit(&c.Request)
	return c
}

// wants asserts that the call has been answered once, with these errors and nil ones.
func (c *call) wants(t *testing.T, kinds ...job.Kind) {
	t.Helper()
	if n := c.answers.Load(); n != 1 {
		t.Fatalf("answered %d times", n)
	}
	var got []job.Kind
	for i := range c.Results {
		if err := c.Results[i].Err; err != nil {
			got = append(got, err.Kind)
		}
	}
	if !slices.Equal(got, kinds) {
		t.Fatalf("answered with errors of kinds %v, want %v", got, kinds)
	}
}

func (c *call) wantsNothing(t *testing.T) {
	t.Helper()
	if n := c.answers.Load(); n != 0 {
		t.Fatalf("answered %d times, too early: %+v", n, c.Results)
	}
}

// jobIDs returns the ids of the jobs in the last result.
func (c *call) jobIDs() []job.ID {
	var ids []job.ID
	for _, j := range c.Results[len(c.Results)-1].Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func (c *call) wantsJobs(t *testing.T, ids ...job.ID) {
	t.Helper()
	c.wants(t)
	if got := c.jobIDs(); !slices.Equal(got, ids) {
		t.Fatalf("answered jobs %v, want %v", got, ids)
	}
}

func fetch(queue string, wait time.Duration) *job.Fetch {
	return &job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1, Wait: wait}
}

// firm is a fetch whose lease no crash takes back.
func firm(queue string, wait time.Duration) *job.Fetch {
	f := fetch(queue, wait)
	f.Firm = true
	return f
}

// ack acks a leased job of the queue that was made first.
func ack(id job.ID) *job.Ack { return &job.Ack{Ref: job.ByPlace("ns", 1, id), Need: job.NeedLeased} }

// do submits one command in a bubble and waits until all is quiet.
func do(t *testing.T, e *engine.Engine, cmds ...job.Command) *call {
	t.Helper()
	c := submit(e, cmds...)
	synctest.Wait()
	return c
}

// counts returns how many jobs of a queue are in each of some states.
func counts(t *testing.T, e *engine.Engine, queue string, states ...job.State) []uint64 {
	t.Helper()
	info, _, err := e.Queue("ns", queue)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, len(states))
	for i, s := range states {
		out[i] = info.Counts[s]
	}
	return out
}

// tracking is a store that counts commits and has as much space as it is told.
type tracking struct {
	store.Store
	mu      sync.Mutex // guards what follows
	commits []time.Time
	free    uint64
}

func (s *tracking) Commit(b *store.Batch, done func(error)) {
	s.mu.Lock()
	s.commits = append(s.commits, time.Now())
	s.mu.Unlock()
	s.Store.Commit(b, done)
}

func (s *tracking) FreeBytes() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free, nil
}

func (s *tracking) setFree(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = n
}

// committed returns when there were commits.
func (s *tracking) committed() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commits)
}
