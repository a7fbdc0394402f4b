package raftsim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/raftlog"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

const (
	election = 500 * time.Millisecond
	// restWithin is how long a cluster may take to come to rest once nothing goes wrong any more.
	restWithin = 3 * time.Minute
)

// run is a lifetime of a cluster.
type run struct {
	t         testing.TB
	number    uint64
	fault     *fault
	began     time.Time
	partBytes int
	keepBytes uint64

	net    *network
	truth  *truth
	nodes  []*node
	reaped sync.WaitGroup
	stamp  atomic.Int64 // counts what clients do and are told
	made   atomic.Int64 // counts checkpoints
	pushed names
	over   chan struct{} // closed when the clients stop

	mu       sync.Mutex // guards what follows
	rng      *rand.Rand // of what happens at any time; what is planned has one of its own
	ops      []*op
	ids      map[job.ID]string
	holders  map[job.Holder]bool
	sessions []*session
	err      error // the first thing that was found
	found    chan struct{}
	seen     sights
	trace    []string
}

// sights counts what must happen in a simulation that is worth something.
type sights struct {
	terms, kills, copies, resumed, cuts, hangs, pauses, transfers, wipes, unknown, refused int
	answered                                                                               [opGet + 1]int
}

func (s *sights) add(o *sights) {
	s.terms, s.kills, s.copies, s.cuts = s.terms+o.terms, s.kills+o.kills, s.copies+o.copies, s.cuts+o.cuts
	s.resumed += o.resumed
	s.pauses, s.refused = s.pauses+o.pauses, s.refused+o.refused
	s.hangs, s.transfers, s.wipes, s.unknown = s.hangs+o.hangs, s.transfers+o.transfers, s.wipes+o.wipes,
		s.unknown+o.unknown
	for i := range s.answered {
		s.answered[i] += o.answered[i]
	}
}

func (r *run) count(n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n++
}

func (r *run) intN(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

// fail notes what was found, if it is the first.
func (r *run) fail(err error) {
	if err == nil {
		return
	}
	r.tracef("found: %v", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.found)
	}
}

func (r *run) tracef(format string, args ...any) {
	line := fmt.Sprintf("%10v ", time.Since(r.began)) + fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, line)
}

// opened notes what serves clients.
func (r *run) opened(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = append(r.sessions, s)
}

func (r *run) newID(id job.ID, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.ids[id]; ok {
		return fmt.Errorf("R-9: job %d is %s and %s", id, was, key)
	}
	r.ids[id] = key
	return nil
}

// sameID asserts that a job that is delivered is the one that was pushed.
func (r *run) sameID(id job.ID, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.ids[id]; ok && was != key {
		return fmt.Errorf("R-9: job %d was %s, and is delivered as %s", id, was, key)
	}
	return nil
}

func (r *run) newHolder(h job.Holder) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[h] {
		return fmt.Errorf("R-9: holder %+v was there before", h)
	}
	r.holders[h] = true
	return nil
}

// live makes a cluster, has clients work while things go wrong, and brings it to rest. It must be called in a bubble.
func (r *run) live(length time.Duration) {
	plan := rand.New(rand.NewPCG(r.number, 1))
	r.partBytes = choose(plan, 300, 1000, 4000)
	r.keepBytes = choose[uint64](plan, 12<<10, 40<<10, 1<<20)
	defer r.endAll()
	if err := r.form(choose(plan, 3, 3, 5)); err != nil {
		r.fail(err)
		return
	}
	var clients sync.WaitGroup
	for i := range 6 {
		c := &client{run: r, number: i, reads: i >= 4, rng: rand.New(rand.NewPCG(r.number, uint64(100+i)))}
		clients.Go(c.work)
	}
	r.nemesis(plan, length)
	err := r.rest()
	close(r.over)
	clients.Wait()
	if err == nil {
		err = r.settle()
	}
	r.fail(err)
}

// form starts the nodes and makes them a cluster.
func (r *run) form(size int) error {
	servers := make([]raftlog.Server, size)
	for i := range servers {
		n := r.newNode(i)
		r.nodes = append(r.nodes, n)
		servers[i] = raftlog.Server{ID: n.id, Addr: string(n.addr)}
	}
	for _, n := range r.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	return r.nodes[0].up().log.Bootstrap(servers)
}

// sleep lets time pass. It reports false if something was found.
func (r *run) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.found:
		return false
	}
}

// nemesis has things go wrong.
func (r *run) nemesis(plan *rand.Rand, length time.Duration) {
	wipes, wipeAt := plan.IntN(4) == 0, time.Duration(plan.Int64N(int64(length)))
	for begun := time.Now(); time.Since(begun) < length; {
		if !r.sleep(time.Duration(plan.Int64N(int64(900 * time.Millisecond)))) {
			return
		}
		if wipes && time.Since(begun) > wipeAt && r.wipe(plan) {
			wipes = false
		}
		n := r.nodes[plan.IntN(len(r.nodes))]
		if s := r.session(0, false); s != nil && plan.IntN(2) == 0 {
			n = s.proc.node
		}
		d := time.Duration(plan.Int64N(int64(choose(plan, 200*time.Millisecond, 2*time.Second, 5*time.Second))))
		switch k := plan.IntN(100); {
		case k < 22:
			n.kill()
		case k < 26:
			r.tracef("all are killed")
			for _, n := range r.nodes {
				n.kill()
			}
		case k < 45:
			r.cut(n, plan)
		case k < 58:
			r.net.heal()
		case k < 64:
			r.net.set(func() {
				r.net.slow, r.net.loss = time.Duration(1+plan.IntN(400))*time.Millisecond,
					plan.IntN(30)
			})
		case k < 69:
			r.hang(n, d, plan.IntN(2) == 0)
		case k < 77:
			if s := r.session(0, true); s != nil {
				s.proc.pause(d + time.Second)
			}
		case k < 79:
			if p := n.up(); p != nil {
				p.speed.set(time.Duration(plan.IntN(60)) * time.Millisecond)
			}
		case k < 89:
			r.transfer(n)
		case k < 95:
			if p := n.up(); p != nil {
				_ = p.disk.Load().sync() // it may be dead
			}
		default:
		}
		r.startSome(plan)
	}
}

// startSome starts nodes that are down.
func (r *run) startSome(plan *rand.Rand) {
	for _, n := range r.nodes {
		if n.up() == nil && plan.IntN(3) == 0 {
			r.fail(n.start())
		}
	}
}

// cut cuts a node off, or only one way.
func (r *run) cut(n *node, plan *rand.Rand) {
	others := make([]raft.ServerAddress, 0, len(r.nodes))
	for _, o := range r.nodes {
		if plan.IntN(4) > 0 {
			others = append(others, o.addr)
		}
	}
	way := plan.IntN(4)
	r.tracef("%s is cut off from %v, way %d", n.name, others, way)
	r.net.isolate(n.addr, others, way != 0, way != 1)
	r.count(&r.seen.cuts)
}

// hang has the disk of a node hang, and perhaps nothing reach or leave it meanwhile: so does a process that is stopped.
func (r *run) hang(n *node, d time.Duration, alone bool) {
	p := n.up()
	if p == nil {
		return
	}
	r.tracef("the disk of %s hangs for %v, alone: %v", n.name, d, alone)
	r.count(&r.seen.hangs)
	p.speed.hang(d)
	if alone {
		r.isolate([]*node{n})
		time.AfterFunc(d, r.net.heal)
	}
}

func (r *run) addrs() (all []raft.ServerAddress) {
	for _, n := range r.nodes {
		all = append(all, n.addr)
	}
	return all
}

// transfer has a node that leads give that away.
func (r *run) transfer(n *node) {
	p := n.up()
	if p == nil || p.serve.Load() == nil {
		return
	}
	r.tracef("%s gives its leadership away", n.name)
	r.count(&r.seen.transfers)
	r.reaped.Go(func() {
		_ = p.log.Transfer() // it may fail
		_ = p.log.Transfer() // who has asked for it asks again
	})
}

// wipe takes everything away from a node that just makes a majority with the leader, and then cuts off the others of
// that majority. The node is another one from then on, which nobody has asked to join: those that are left are no
// majority. It reports whether it could.
func (r *run) wipe(plan *rand.Rand) bool {
	s := r.session(0, false)
	var rest []*node
	for _, i := range plan.Perm(len(r.nodes)) {
		n := r.nodes[i]
		if n.up() == nil {
			return false
		}
		if s != nil && s.proc.node != n {
			rest = append(rest, n)
		}
	}
	if s == nil {
		return false
	}
	n, half := rest[0], len(r.nodes)/2
	with, without := append(slices.Clone(rest[1:half]), s.proc.node), rest[half:]
	r.tracef("%s will lose its disk", n.name)
	r.count(&r.seen.wipes)
	r.net.heal()
	r.isolate(without)
	r.sleep(2 * time.Second)
	n.kill()
	n.mu.Lock()
	n.erase()
	n.member = r.fault.keepsID
	n.mu.Unlock()
	r.net.heal()
	r.isolate(with)
	r.fail(n.start())
	r.sleep(4 * time.Second)
	return true
}

// isolate cuts off nodes.
func (r *run) isolate(list []*node) {
	for _, n := range list {
		r.net.isolate(n.addr, r.addrs(), true, true)
	}
}

// rest lets nothing go wrong any more, and waits until all nodes have the same and one of them leads.
func (r *run) rest() error {
	r.tracef("from here on nothing goes wrong")
	r.net.heal()
	for _, n := range r.nodes {
		if p := n.up(); p != nil {
			p.speed.set(0)
			p.speed.goOn()
		}
		if err := n.start(); err != nil {
			return err
		}
	}
	for end := time.Now().Add(restWithin); time.Now().Before(end); {
		if !r.sleep(time.Second) {
			return nil
		}
		s := r.session(0, false)
		if s == nil {
			continue
		}
		c := &client{run: r, number: 9, rng: rand.New(rand.NewPCG(r.number, 9))}
		o := &op{kind: opSet, key: fmt.Sprintf("last%d", r.stamp.Load()), value: "v"}
		if c.do(s, o, &job.SetValue{Space: space, Name: o.key, Value: []byte("v")}) != nil {
			return nil
		}
	}
	return fmt.Errorf("%w, although nothing has gone wrong for %v", errNoLeader, restWithin)
}

// settle waits until all nodes have everything, and looks at it.
func (r *run) settle() error {
	for end := time.Now().Add(restWithin); !r.level(); {
		if !r.sleep(time.Second) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("nodes do not catch up: the end is %d", r.truth.end().index)
		}
	}
	last := r.truth.end()
	for _, n := range r.nodes {
		p := n.up()
		if !n.member || p == nil {
			continue
		}
		if err := sameContent(p.disk.Load(), last.data); err != nil {
			return fmt.Errorf("R-2: node %s at the end: %w", n.name, err)
		}
	}
	if err := engine.CheckInvariants(last.data, last.time, nil); err != nil {
		return fmt.Errorf("R-12: %w", err)
	}
	r.mu.Lock()
	ops := slices.Clone(r.ops)
	r.mu.Unlock()
	ops = append(ops, r.lastLook(last.data)...)
	return judge(ops)
}

// level reports whether all nodes have the same.
func (r *run) level() bool {
	last := r.truth.end().index
	for _, n := range r.nodes {
		p := n.up()
		if !n.member || p == nil {
			continue
		}
		if index, _ := p.disk.Load().Applied(); index != last {
			return false
		}
	}
	return true
}

// lastLook reads everything that clients may know of.
func (r *run) lastLook(data *memstore.Store) (ops []*op) {
	q := engine.NewQuery(data)
	names := map[string]bool{}
	for _, o := range r.ops {
		if o.kind <= opRead {
			names[o.key] = true
		}
	}
	for name := range names {
		value, ok, err := q.Value(space, name)
		r.fail(err)
		ops = append(ops, &op{client: -1, kind: opRead, key: name, known: true, found: ok, got: string(value)})
	}
	for _, key := range r.pushed.keys {
		_, err := q.Get(job.ByKey(namespace, key))
		ops = append(ops, &op{client: -1, kind: opGet, key: key, known: true, found: err == nil})
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			r.fail(err)
		}
	}
	for _, o := range ops {
		o.call, o.ret = r.stamp.Add(1), r.stamp.Add(1)
	}
	return ops
}

// endAll ends everything, so that no goroutine is left.
func (r *run) endAll() {
	select {
	case <-r.over:
	default:
		close(r.over)
	}
	for _, n := range r.nodes {
		n.kill()
	}
	r.net.heal()
	r.reaped.Wait()
	testkit.Advance(r.t, 2*underway)
	for _, s := range r.sessions {
		if n := s.waiting.Load(); n != 0 {
			r.fail(fmt.Errorf("R-10: the engine of term %d is gone, and %d commands were not answered", s.term, n))
		}
	}
}
