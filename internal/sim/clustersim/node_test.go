package clustersim

import (
	"bytes"
	"fmt"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/replica"
	"millrace/internal/sim"
	"millrace/internal/store"
)

// node is a machine of the cluster.
type node struct {
	run     *run
	id      int
	name    string
	up      bool
	apart   bool // nothing reaches it
	life    int  // how often it was started
	disk    *disk
	replica *replica.Replica
	next    uint64 // the entry that it is given next
	first   uint64 // where its log begins
	skips   uint64 // the last entry that it believes to have after a crash

	ahead time.Duration // its clock
	rate  float64
	heard told // what time it was when this node was told last; zero: not since it was started

	begun  []begun  // terms whose engine is still to be opened
	reigns []*reign // engines that are not gone, most of them of terms that have ended
}

// begun is a term that has begun, the index of its beginning, and what is wrong with it.
type begun struct {
	term  *replica.Term
	index uint64
	err   error
}

// hasBegun notes a term that the node has begun.
func (n *node) hasBegun(t *replica.Term) {
	index := n.next - 1
	m := n.run.log[index]
	err := n.checkTime(m, n.timeOf(t)())
	if m.state.Node != n.name || m.state.Term != t.Number() {
		err = fmt.Errorf("R-5: node %s takes term %d of node %s for its own term %d", n.name, m.state.Term,
			m.state.Node, t.Number())
	}
	n.begun = append(n.begun, begun{t, index, err})
	n.run.seen.terms++
}

// timeOf returns the clock of the engine of a term.
func (n *node) timeOf(t *replica.Term) func() job.Time {
	if n.run.fault.wallClock {
		return func() job.Time { return job.TimeOf(n.clock()) }
	}
	return t.Now
}

// clock is the clock of the machine.
func (n *node) clock() time.Time {
	return startTime.Std().Add(n.ahead + time.Duration(float64(n.run.now)*n.rate))
}

// open starts the process.
func (n *node) open() (err error) {
	n.up, n.heard, n.apart = true, told{}, false
	n.life++
	n.replica, err = replica.OpenWith(n.disk, replica.Options{Now: n.clock, PartBytes: n.run.partBytes})
	if err != nil {
		return err
	}
	_, index := n.replica.State()
	n.next = max(index, n.skips) + 1
	n.skips = 0
	if n.first > n.next {
		return fmt.Errorf("R-4: the log of node %s begins at %d, its store has kept entry %d", n.name, n.first, index)
	}
	return nil
}

// crash ends the process, and of what the disk has not synced a part is lost.
func (n *node) crash() {
	keep := n.run.rng.IntN(len(n.disk.versions))
	if n.run.fault.forgetsParts && keep == len(n.disk.versions)-1 && !n.replica.Whole() {
		n.skips = n.next - 1
	}
	n.run.tracef("%s crashes, its store is left at %d of %d", n.name, n.disk.versions[keep].index, n.disk.last().index)
	n.stop()
	n.disk.put(n.disk.versions[keep])
}

// stop ends the process.
func (n *node) stop() {
	n.up = false
	for _, g := range n.reigns {
		g.over = true
		for _, c := range g.calls {
			c.crashed = true
		}
	}
	n.reigns, n.begun = nil, nil
}

// deliver gives the next entry to the replica.
func (n *node) deliver() error {
	r := n.run
	i := n.next
	m := r.log[i]
	n.next++
	_, had := n.replica.State()
	accepted, err := n.replica.Apply(i, r.fault.hears(n, m))
	if err != nil {
		return fmt.Errorf("node %s stops at entry %d: %w", n.name, i, err)
	}
	r.tracef("%s applies entry %d: counts %v", n.name, i, accepted)
	if i > had && accepted != m.accepted {
		return fmt.Errorf("R-5: on node %s entry %d counts: %v, by the rules: %v", n.name, i, accepted, m.accepted)
	}
	return n.check()
}

// check asserts what the store must be.
func (n *node) check() error {
	state, index := n.replica.State()
	v := n.disk.last()
	if v.index != index {
		return fmt.Errorf("R-1: the store of node %s has entry %d, its replica %d", n.name, v.index, index)
	}
	m := n.run.log[index]
	if v.history != m.history {
		return fmt.Errorf("R-1: the store of node %s is not the effect of entries 1 to %d", n.name, index)
	}
	if state != m.state {
		return fmt.Errorf("R-2: node %s is at %+v with entry %d, by the log at %+v", n.name, state, index, m.state)
	}
	return nil
}

// reign is an engine of a term.
type reign struct {
	run    *run
	node   *node
	term   *replica.Term
	number uint64
	engine engine.Stepped
	model  *sim.Model

	base    uint64 // the last batch before the term
	seq     uint64 // the last one that was sealed
	give    func() // gives it to the store, if that is not done
	tokens  uint64
	calls   map[uint64]*call // that are not answered
	born    map[job.ID]uint64
	holders []job.Holder
	kinds   map[callKind]bool // of what has been answered in this step
	deaf    bool              // the engine has failed: what it does is of no interest
	over    bool
}

// reignOver opens the engine of a term.
func (n *node) reignOver(b begun) error {
	if b.err != nil {
		return b.err
	}
	r := n.run
	m := r.log[b.index]
	g := &reign{
		run: r, node: n, term: b.term, number: b.term.Number(), calls: map[uint64]*call{},
		born: map[job.ID]uint64{}, kinds: map[callKind]bool{},
	}
	g.base = m.state.Seq
	g.seq = g.base
	o := engine.Options{
		Store: &termStore{Term: b.term, g: g}, Now: n.timeOf(b.term), Node: uint32(n.id + 1), Run: g.number << 8,
		Seed:      1 + r.rng.Uint64()>>1,
		OnFailure: func() {}, MaxQueues: 100, Core: r.core,
	}
	if r.fault.sameHolders {
		o.Node, o.Run = 1, 1
	}
	var err error
	if g.engine, err = engine.OpenStepped(o); err != nil {
		if b.term.Err() == nil {
			return fmt.Errorf("term %d: %w", g.number, err)
		}
		return nil
	}
	r.tracef("%s opens its engine of term %d at %v", n.name, g.number, g.now())
	n.reigns = append(n.reigns, g)
	g.model = m.model.Clone()
	g.model.Restart(g.now(), oracle{g})
	return g.tick()
}

// checkTime asserts that a term goes on with the time of the one before.
func (n *node) checkTime(m *meaning, now job.Time) error {
	if now < m.state.Time {
		return fmt.Errorf("R-8: term %d begins at %d, the last batch is of %d", m.state.Term, now, m.state.Time)
	}
	// What has passed since, as a clock shows it that goes too fast and approaches another one.
	passed := job.Time(n.run.now.Microseconds()).Sub(m.at)
	most := m.state.Time.Add(passed + passed/10 + time.Millisecond)
	if n.heard == (told{}) {
		most = max(most, job.TimeOf(n.clock()).Add(time.Millisecond))
	}
	most = max(most, n.run.told.most(n.run.now))
	if now > most {
		return fmt.Errorf("R-8: term %d begins at %d, %v behind the last batch, and %v have passed", m.state.Term, now,
			now.Sub(m.state.Time), passed)
	}
	if least := n.heard.least(n.run.now); n.heard != (told{}) && now < least {
		return fmt.Errorf("R-8: term %d begins at %d, %v before the time that node %s was told", m.state.Term, now,
			least.Sub(now), n.name)
	}
	n.heard = told{m.state.Term, now, n.run.now} // it tells the others
	n.run.noteTime(now)
	return nil
}

// now is the time of the engine.
func (g *reign) now() job.Time { return g.engine.Now() }

// do has the engine do something, and then the model.
func (g *reign) do(engine func(), model func(o sim.Oracle) ([]sim.Completion, error)) error {
	if g.deaf {
		engine()
		return nil
	}
	clear(g.kinds)
	engine()
	if g.engine.Err() != nil || g.term.Err() != nil { // whatever it answers from now on must be that it does not know
		g.deaf = true
		return nil //nolint:nilerr // its answers are of no interest any more
	}
	done, err := model(oracle{g})
	if err != nil {
		return err
	}
	for _, c := range done {
		if err := g.expect(c); err != nil {
			return err
		}
	}
	g.run.fault.afterStep(g)
	return g.run.settle()
}

// tick applies what is due.
func (g *reign) tick() error {
	return g.do(func() {
		for g.engine.Tick() {
		}
	}, func(o sim.Oracle) ([]sim.Completion, error) { return g.model.Tick(g.now(), o) })
}

// seal closes the open batch.
func (g *reign) seal() {
	if g.give != nil {
		return
	}
	if g.give = g.engine.Seal(); g.give == nil {
		return
	}
	g.seq++
	g.run.sealed[batchName{g.number, g.seq}] = g.model.Clone()
	g.run.tracef("%s seals batch %d of term %d", g.node.name, g.seq, g.number)
}

// handOver gives the sealed batch to the store.
func (g *reign) handOver() error {
	if give := g.give; give != nil {
		g.give = nil
		give()
	}
	return g.run.settle()
}

// abandon ends the engine, as the server does when the term is lost.
func (g *reign) abandon() error {
	g.run.tracef("%s abandons its engine of term %d", g.node.name, g.number)
	g.engine.Abandon(replica.ErrFenced)
	g.deaf = true
	steps := []func(){func() { g.term.End(replica.ErrFenced) }, g.engine.GiveUp, func() {
		if g.give != nil {
			g.give()
			g.give = nil
		}
	}}
	g.run.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, f := range steps {
		f()
	}
	g.over = true
	if err := g.run.settle(); err != nil {
		return err
	}
	for _, c := range g.calls {
		return fmt.Errorf("R-10: the engine of term %d is gone, and %s was not answered", g.number, c)
	}
	return nil
}

// checkOver asserts that an engine whose term is over does not see what others write.
func (g *reign) checkOver() (err error) {
	if g.term.Err() == nil || g.engine.Err() != nil {
		return nil
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *engine.StoreError: // as it must be
		default:
			err = fmt.Errorf("R-1: the engine of term %d, which is over, finds something strange: %v", g.number, p)
		}
	}()
	if err := g.engine.Core().Check(); err != nil {
		return fmt.Errorf("R-1: the engine of term %d, which is over, sees what others have written: %w", g.number, err)
	}
	return nil
}

// oracle tells the model what it cannot know.
type oracle struct{ g *reign }

func (oracle) Picked(uint64, int) (job.ID, bool)            { return 0, false }
func (oracle) Pushed(uint64) (job.ID, bool)                 { return 0, false }
func (oracle) RunAt(job.ID) (job.Time, bool)                { return 0, false }
func (oracle) Callback(job.ID, job.BatchID, job.Flags) bool { return false }
func (oracle) TimedOut(uint64) bool                         { return false }
func (oracle) Ended(*job.Job) bool                          { return false }
func (oracle) Given() []uint64                              { return nil }

func (o oracle) Behind() bool                   { return o.g.engine.Core().Behind() }
func (o oracle) Counting(ns, queue string) bool { return o.g.engine.Core().Counting(ns, queue) }

func (o oracle) Sweeping() (left bool) {
	lo, hi := record.SweepSpan()
	o.g.engine.Core().Storage().Scan(lo, hi, false, func(_, _ []byte) bool {
		left = true
		return false
	})
	return left
}

// termStore is a term as the engine sees it, with the planted bug.
type termStore struct {
	*replica.Term

	g        *reign
	underway int           // batches
	attached []func(error) // questions that the next of them answers
}

// Commit implements store.Store.
func (s *termStore) Commit(b *store.Batch, done func(error)) {
	f := s.g.run.fault
	if f.appliesFirst {
		d := s.g.node.disk
		if err := d.Apply(b, d.last().index, d.last().state); err != nil {
			done(err)
			return
		}
	}
	if f.answersLost {
		tell := done
		done = func(error) { tell(nil) }
	}
	f.batch = b
	if s.underway++; s.underway == 4 {
		s.g.run.seen.deep++
	}
	s.Term.Commit(b, func(err error) {
		s.underway--
		done(err)
		attached := s.attached
		s.attached = nil
		for _, tell := range attached {
			tell(err)
		}
	})
	f.batch = nil
}

// Get implements store.Reader.
func (s *termStore) Get(dst, key []byte) ([]byte, bool, error) {
	if s.g.run.fault.readsOn {
		return s.g.node.disk.Get(dst, key)
	}
	return s.Term.Get(dst, key)
}

// Scan implements store.Reader.
func (s *termStore) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if s.g.run.fault.readsOn {
		return s.g.node.disk.Scan(r, visit)
	}
	if s.g.run.fault.forgetsLimits {
		return s.Term.Scan(r, func(key, value []byte) bool { return visit(key, withoutLimits(key, value)) })
	}
	if lo, _ := record.AllHolders(); s.g.run.fault.forgetsHolders && bytes.Equal(r.Lo, lo) {
		return nil
	}
	return s.Term.Scan(r, visit)
}

// withoutLimits returns the record of a queue without what limits the whole of it, and any other as it is.
func withoutLimits(key, value []byte) []byte {
	if _, _, ok := record.ParseQueueKey(key); !ok {
		return value
	}
	q, err := record.DecodeQueue(value)
	if err != nil {
		return value
	}
	q.Limits, _ = job.Limits{
		GroupConcurrency: q.Limits.GroupConcurrency, GroupRate: q.Limits.GroupRate, GroupPer: q.Limits.GroupPer,
		GroupBurst: q.Limits.GroupBurst,
	}.Tidy()
	return record.AppendQueue(nil, &q)
}

// Confirm lets the engine ask for a proof.
func (s *termStore) Confirm(done func(error)) {
	switch f := s.g.run.fault; {
	case f.batchesProve && s.underway > 0:
		s.attached = append(s.attached, done)
		return
	case f.unproven != 0:
		s.g.run.fault.asked = append(s.g.run.fault.asked, question{s, done})
		return
	}
	s.Term.Confirm(done)
}
