package clustersim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/replica"
	"millrace/internal/sim"
	"millrace/internal/store/memstore"
)

// startTime is when all runs begin, by a right clock.
var startTime = job.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// run is a lifetime of a cluster.
type run struct {
	rng       *rand.Rand
	fault     *fault
	partBytes int
	core      engine.CoreOptions
	careless  bool // the log lets through what it should not: entries of leaderships that are over, holes, repeats
	weights   []int
	total     int

	now   time.Duration // since startTime
	told  told
	nodes []*node
	log   []*meaning // by index; the first is the beginning
	ticks map[tickName]job.ID
	leads *leadership
	lost  []*leadership // before that
	stray []proposal    // dropped, and yet they may come
	// copies are stores to be sent to nodes that are behind.
	copies []version

	sealed   map[batchName]*sim.Model
	batches  map[uint64]placed // by number
	calls    []*call
	outcomes []outcome
	// answeredAt is the last entry of which a client knows.
	answeredAt uint64
	ids        map[job.ID]bool
	holders    map[job.Holder]bool
	held       []held

	seen  sights
	trace *[]string
}

// held is a job that a client was given.
type held struct {
	id     job.ID
	holder job.Holder
}

// sights counts what must happen in a simulation that is worth something.
type sights struct {
	steps, unknown, terms, crashes, copies, voids, cut int
	stale                                              int // commands given to an engine whose term is over
	both                                               int // steps with two engines that believe to lead
	deep                                               int // times that as many batches were on their way as may be
	// deliveries from queues with limits, not by the first leader
	limited  int
	answered [5]int
}

func (s *sights) add(o *sights) {
	s.steps, s.unknown, s.terms, s.crashes = s.steps+o.steps, s.unknown+o.unknown, s.terms+o.terms, s.crashes+o.crashes
	s.copies, s.voids, s.cut, s.stale, s.both, s.deep = s.copies+o.copies, s.voids+o.voids, s.cut+o.cut,
		s.stale+o.stale, s.both+o.both, s.deep+o.deep
	s.limited += o.limited
	for i := range s.answered {
		s.answered[i] += o.answered[i]
	}
}

// told is a time that a leader has told others.
type told struct {
	term  uint64
	value job.Time
	at    time.Duration
}

// most is what a clock may have come to since.
func (t told) most(now time.Duration) job.Time {
	passed := now - t.at
	return t.value.Add(passed + passed/10 + time.Millisecond)
}

// least is what it must have come to since.
func (t told) least(now time.Duration) job.Time {
	passed := now - t.at
	return t.value.Add(passed - passed/10 - time.Millisecond)
}

// noteTime notes that a node may know of a time.
func (r *run) noteTime(t job.Time) { r.told = told{0, max(t, r.told.most(r.now)), r.now} }

// newRun makes a cluster.
func newRun(seed uint64, f *fault) (*run, error) {
	r := &run{
		rng: rand.New(rand.NewPCG(seed, 17)), fault: f, sealed: map[batchName]*sim.Model{},
		batches: map[uint64]placed{},
		ids:     map[job.ID]bool{}, holders: map[job.Holder]bool{}, ticks: map[tickName]job.ID{},
	}
	f.aliases = nil
	r.partBytes = choose(r.rng, 40, 150, 400, 1000, 1<<20)
	// So little memory makes the machine read the store all the time.
	r.core = engine.CoreOptions{
		Window: 1 + r.rng.IntN(5), Resident: 1 + r.rng.IntN(16), BodyBytes: 1 + r.rng.IntN(30),
		Horizon:       time.Duration(1+r.rng.IntN(4)) * time.Second,
		TimersPerLoad: 1 + r.rng.IntN(4), Few: 1 + r.rng.IntN(4), Keys: 2 + r.rng.IntN(8),
	}
	r.careless = r.rng.IntN(2) == 0
	r.log = []*meaning{{whole: true, data: memstore.New(), model: sim.NewModel(startTime)}}
	for _, s := range steps {
		w := s.weight * 12
		if s.rough {
			w = s.weight * choose(r.rng, 0, 1, 1, 3, 12)
		}
		r.weights = append(r.weights, w)
		r.total += w
	}
	for i := range choose(r.rng, 3, 3, 5) {
		n := &node{
			run: r, id: i, name: string(rune('a' + i)), disk: newDisk(f), first: 1,
			rate: 1 + (r.rng.Float64()-0.5)/1000,
		}
		n.ahead = time.Duration(r.rng.Int64N(int64(8*time.Hour))) - 4*time.Hour
		if r.rng.IntN(2) == 0 {
			n.ahead /= 1000
		}
		r.nodes = append(r.nodes, n)
		if err := n.open(); err != nil {
			return nil, err
		}
	}
	return r, r.elect(r.nodes[0])
}

// live makes steps, and then brings the cluster to rest.
func (r *run) live(steps int) error {
	for range steps {
		if err := r.step(); err != nil {
			return err
		}
	}
	return r.rest()
}

// step does one thing.
func (r *run) step() error {
	r.seen.steps++
	n := r.rng.IntN(r.total)
	i := 0
	for ; n >= r.weights[i]; i++ {
		n -= r.weights[i]
	}
	if err := steps[i].do(r); err != nil {
		return err
	}
	r.fault.flush()
	if r.count((*reign).believes) > 1 {
		r.seen.both++
	}
	return r.settle()
}

func (g *reign) believes() bool { return !g.deaf && g.term.Err() == nil }

func (r *run) count(is func(*reign) bool) (n int) {
	for _, g := range r.reigns() {
		if is(g) {
			n++
		}
	}
	return n
}

// steps are what may happen, and how often it does. How often the rough ones happen differs from run to run.
var steps = []struct {
	weight int
	rough  bool
	do     func(*run) error
}{
	{30, false, func(r *run) error { return r.withReign(func(g *reign) error { return g.command() }) }},
	{5, false, func(r *run) error { return r.withReign((*reign).read) }},
	{1, false, func(r *run) error { return r.withReign((*reign).cancelAny) }},
	{3, false, func(r *run) error { return r.withReign((*reign).tick) }},
	{12, false, func(r *run) error {
		return r.withReign(func(g *reign) error {
			if !g.deaf {
				g.seal()
			}
			return nil
		})
	}},
	{14, false, func(r *run) error { return r.withReign((*reign).handOver) }},
	{40, false, (*run).enterNext},
	{45, false, (*run).deliverSome},
	{18, false, (*run).askRound},
	{20, false, (*run).endRound},
	{6, false, (*run).openSome},
	{8, false, (*run).passTime},
	{3, false, (*run).beginAgain},
	{3, true, (*run).tellFailed},
	{3, true, func(r *run) error { return r.elect(pick(r.rng, r.nodes)) }},
	{2, true, (*run).tellLost},
	{3, true, (*run).abandonSome},
	{2, true, (*run).crashSome},
	{4, false, (*run).startSome},
	{3, true, (*run).syncSome},
	{2, true, (*run).cutSome},
	{2, true, (*run).copySome},
	{4, true, (*run).restoreSome},
	{2, true, (*run).ping},
	{3, true, (*run).enterStray},
	{1, true, (*run).partSome},
}

func choose[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func pick[T any](rng *rand.Rand, of []T) (t T) {
	if len(of) == 0 {
		return t
	}
	return of[rng.IntN(len(of))]
}

// reigns returns the engines that run.
func (r *run) reigns() (all []*reign) {
	for _, n := range r.nodes {
		all = append(all, n.reigns...)
	}
	return all
}

func (r *run) withReign(do func(*reign) error) error {
	all := r.reigns()
	if len(all) == 0 {
		return nil
	}
	g := all[r.rng.IntN(len(all))]
	if !g.believes() && r.rng.IntN(12) > 0 { // most clients have noticed
		if i := slices.IndexFunc(all, (*reign).believes); i >= 0 {
			g = all[i]
		}
	}
	for _, n := range r.nodes { // and some are cut off with a leader
		if i := slices.IndexFunc(n.reigns, (*reign).believes); n.apart && i >= 0 && r.rng.IntN(3) == 0 {
			g = n.reigns[i]
		}
	}
	if r.log[r.end()].state.Term > g.number {
		r.seen.stale++
	}
	return do(g)
}

func (r *run) tracef(format string, args ...any) {
	if r.trace != nil {
		*r.trace = append(*r.trace, fmt.Sprintf(format, args...))
	}
}

// enterNext has a majority get some of what the leader has given.
func (r *run) enterNext() error {
	for range 1 + r.rng.IntN(3) {
		if len(r.leads.queue) == 0 {
			return nil
		}
		p := r.leads.queue[0]
		r.leads.queue = r.leads.queue[1:]
		if r.careless && r.rng.IntN(40) == 0 { // a hole
			r.leads.dropped = append(r.leads.dropped, p)
			continue
		}
		if err := r.enter(p); err != nil {
			return err
		}
		if r.careless && r.rng.IntN(40) == 0 && parse(p.content).kind != kindBegin {
			r.stray = append(r.stray, p)
		}
	}
	return nil
}

// enterStray has something come that had been dropped, or that was there before.
func (r *run) enterStray() error {
	if !r.careless || len(r.stray) == 0 {
		return nil
	}
	i := r.rng.IntN(len(r.stray))
	p := r.stray[i]
	r.stray = slices.Delete(r.stray, i, i+1)
	return r.enter(p)
}

// available reports whether a node can be sent an entry.
func (r *run) available(i uint64) bool {
	for _, n := range r.nodes {
		if n.up && n.first <= i {
			return true
		}
	}
	return false
}

func (r *run) deliverSome() error {
	n := pick(r.rng, r.nodes)
	if r.rng.IntN(2) == 0 {
		n = r.leads.node
	}
	for range 1 + r.rng.IntN(4) {
		if !n.up || n.apart || n.next > r.end() || !r.available(n.next) {
			return nil
		}
		if err := n.deliver(); err != nil {
			return err
		}
	}
	return r.settle()
}

// catchUp gives a node everything.
func (r *run) catchUp(n *node) error {
	for n.next <= r.end() {
		if err := n.deliver(); err != nil {
			return err
		}
	}
	return r.settle()
}

// elect has a node lead. Of what the leader before it had given some is in the log, the rest is not.
func (r *run) elect(n *node) error {
	if !n.up || n.apart || n.next <= r.end() && !r.available(n.next) {
		return nil
	}
	if l := r.leads; l != nil {
		keep := r.rng.IntN(len(l.queue) + 1)
		for _, p := range l.queue[:keep] {
			if err := r.enter(p); err != nil {
				return err
			}
		}
		for _, p := range l.queue[keep:] {
			l.dropped = append(l.dropped, p)
			// A term that begins by itself would make every confirmation a lie.
			if r.careless && parse(p.content).kind != kindBegin {
				r.stray = append(r.stray, p)
			}
		}
		l.queue = nil
		r.lost = append(r.lost, l)
	}
	r.leads = &leadership{run: r, node: n, life: n.life}
	r.tracef("%s is elected", n.name)
	return r.begin()
}

// begin has the leader begin a term.
func (r *run) begin() error {
	n := r.leads.node
	if err := r.catchUp(n); err != nil {
		return err
	}
	l, told := r.leads, false
	l.tries = true
	n.replica.StartTerm(l, n.name, func(t *replica.Term, err error) {
		if told { // who was told that it is unknown has given up
			return
		}
		l.tries, told = false, true
		if err == nil && l.alive() {
			n.hasBegun(t)
		}
	})
	return r.settle()
}

// beginAgain has the leader begin a term if it has none, or another one lead if it cannot.
func (r *run) beginAgain() error {
	n := r.leads.node
	if !r.leads.alive() || r.leads.tries && len(r.leads.queue) == 0 && n.next > r.end() {
		return r.elect(pick(r.rng, r.nodes))
	}
	if r.leads.tries || len(n.begun) > 0 || slices.ContainsFunc(n.reigns, (*reign).believes) {
		return nil
	}
	return r.begin()
}

func (r *run) openSome() error {
	n := pick(r.rng, r.nodes)
	if len(r.leads.node.begun) > 0 {
		n = r.leads.node
	}
	if !n.up || len(n.begun) == 0 {
		return nil
	}
	b := n.begun[0]
	n.begun = n.begun[1:]
	return n.reignOver(b)
}

// leaderships returns those of processes that run.
func (r *run) leaderships() (all []*leadership) {
	for _, l := range append(slices.Clone(r.lost), r.leads) {
		if l.alive() {
			all = append(all, l)
		}
	}
	return all
}

// anyLeadership returns one of them, mostly that which is not over.
func (r *run) anyLeadership() *leadership {
	if r.leads.alive() && r.rng.IntN(3) > 0 {
		return r.leads
	}
	return pick(r.rng, r.leaderships())
}

// askRound has the other nodes say whether the one that asks still leads.
func (r *run) askRound() error {
	l := r.anyLeadership()
	if l == nil {
		return nil
	}
	for _, q := range l.rounds {
		if !q.asked {
			q.asked, q.leads = true, l == r.leads
			l.confirmed = q.leads
			return nil
		}
	}
	return nil
}

// endRound tells who asked.
func (r *run) endRound() error {
	l := r.anyLeadership()
	if l == nil {
		return nil
	}
	for i, q := range l.rounds {
		if q.asked {
			l.rounds = slices.Delete(l.rounds, i, i+1)
			var err error
			if !q.leads {
				err = errLost
			}
			q.done(err)
			return r.settle()
		}
	}
	return nil
}

// tellFailed tells late that something was dropped.
func (r *run) tellFailed() error {
	l := pick(r.rng, r.leaderships())
	if l == nil || l.node.apart || len(l.dropped) == 0 {
		return nil
	}
	p := l.dropped[0]
	l.dropped = l.dropped[1:]
	p.failed(errLost)
	return r.settle()
}

// tellLost tells a node that it leads no more.
func (r *run) tellLost() error {
	return r.withReign(func(g *reign) error {
		if g.node.apart || g.node == r.leads.node && g.believes() && r.rng.IntN(6) > 0 {
			return nil
		}
		r.tracef("%s is told that term %d is lost", g.node.name, g.number)
		g.term.End(errLost)
		return r.settle()
	})
}

func (r *run) abandonSome() error {
	return r.withReign(func(g *reign) error {
		if g.believes() {
			return nil
		}
		g.node.reigns = slices.DeleteFunc(g.node.reigns, func(o *reign) bool { return o == g })
		return g.abandon()
	})
}

func (r *run) crashSome() error {
	n := pick(r.rng, r.nodes)
	up := 0
	for _, o := range r.nodes {
		if o.up {
			up++
		}
	}
	if !n.up || up == 1 {
		return nil
	}
	r.seen.crashes++
	if !n.replica.Whole() {
		r.seen.cut++
	}
	n.crash()
	return nil
}

func (r *run) startSome() error {
	n := pick(r.rng, r.nodes)
	if n.up {
		return nil
	}
	r.tracef("%s starts", n.name)
	return n.open()
}

// partSome cuts the leader off from the others, or heals a cut.
func (r *run) partSome() error {
	for _, n := range r.nodes {
		if n.apart {
			n.apart = r.rng.IntN(3) > 0
			return nil
		}
	}
	if n := r.leads.node; n.up {
		r.tracef("%s is cut off", n.name)
		n.apart = true
		return r.elect(pick(r.rng, r.nodes))
	}
	return nil
}

func (r *run) syncSome() error {
	pick(r.rng, r.nodes).disk.sync()
	return nil
}

// cutSome drops the beginning of a log.
func (r *run) cutSome() error {
	n := pick(r.rng, r.nodes)
	most := n.disk.durable() + 1
	if r.fault.cutsApplied {
		most = n.disk.last().index + 1
	}
	n.first = max(n.first, most-uint64(r.rng.Int64N(3))*(most-n.first)/2)
	if n.first > n.disk.durable()+1 {
		return fmt.Errorf("R-4: the log of node %s begins at %d, its disk has entry %d", n.name,
			n.first, n.disk.durable())
	}
	return nil
}

// copySome takes a copy of a store.
func (r *run) copySome() error {
	if n := pick(r.rng, r.nodes); n.up {
		r.copies = append(r.copies, *n.disk.last())
	}
	return nil
}

// restoreSome sends a copy to a node that does not lead.
func (r *run) restoreSome() error {
	n := pick(r.rng, r.nodes)
	c := pick(r.rng, r.copies)
	if !n.up || n.apart || n == r.leads.node || c.data == nil || !r.available(c.index+1) {
		return nil
	}
	return r.restore(n, c)
}

func (r *run) restore(n *node, c version) error {
	r.tracef("%s is given a copy of %d", n.name, c.index)
	r.seen.copies++
	m := r.log[c.index]
	if !sameContent(c.data, m.data) || c.history != m.history {
		return fmt.Errorf("R-11: the copy of a store at entry %d is not what the log says", c.index)
	}
	for _, g := range n.reigns {
		if err := g.abandon(); err != nil {
			return err
		}
	}
	n.stop()
	n.disk.put(c)
	n.first, n.next = c.index+1, 0
	if err := n.open(); err != nil {
		return err
	}
	return n.check()
}

// ping has the leader tell its time.
func (r *run) ping() error {
	return r.withReign(func(g *reign) error {
		if !g.believes() {
			return nil
		}
		n := pick(r.rng, r.nodes)
		if n.up && n != g.node && !n.apart && !g.node.apart {
			t := g.term.Now()
			n.replica.Hear(g.number, t)
			if g.number >= n.heard.term { // a leader may not know that it does not lead any more
				n.heard = told{g.number, t, r.now}
			}
			r.noteTime(t)
		}
		return nil
	})
}

func (r *run) passTime() error {
	d := time.Duration(r.rng.Int64N(int64(choose(r.rng, time.Millisecond, 20*time.Millisecond,
		time.Second, 5*time.Second))))
	if r.rng.IntN(200) == 0 {
		d = 3 * time.Hour
	}
	r.now += d
	return nil
}

// compareMeaning asserts now and then that a batch means what its engine has told.
func (r *run) compareMeaning(m *meaning) error {
	if r.rng.IntN(6) > 0 {
		return nil
	}
	return r.compareFully(m)
}

func (r *run) compareFully(m *meaning) error {
	if err := engine.CheckInvariants(m.data, m.state.Time, nil); err != nil {
		return fmt.Errorf("R-12: behind batch %d: %w", m.state.Seq, err)
	}
	if err := r.checkTicks(m); err != nil {
		return err
	}
	if err := checkRules(m); err != nil {
		return err
	}
	v, err := view(m)
	if err != nil {
		return err
	}
	if err := checkKept(m, v, m.model.View()); err != nil {
		return err
	}
	if got, want := v.Dump(), m.model.Dump(); got != want {
		return fmt.Errorf("batch %d means\n%s\nby the model it is\n%s", m.state.Seq, got, want)
	}
	return nil
}

// view is a state as readers see it.
func view(m *meaning) (sim.View, error) {
	q := engine.NewQuery(m.data)
	infos, err := q.Queues("", "", 0)
	if err != nil {
		return sim.View{}, err
	}
	for i := range infos {
		if err := q.OldestReady(&infos[i]); err != nil {
			return sim.View{}, err
		}
		infos[i].Bucket = infos[i].Limits.Fill(infos[i].Bucket, m.model.Now())
	}
	v := sim.View{Queues: infos, List: func(ns, queue string, s job.State) []job.Job {
		p, err := q.List(engine.ListOptions{Namespace: ns, Queue: queue, State: s, Limit: 10_000, Bodies: true})
		if err != nil {
			return []job.Job{{Type: err.Error()}} // as no model has it
		}
		return p.Jobs
	}}
	for _, space := range spaces {
		values, err := q.Values(space, "", 0)
		if err != nil {
			return sim.View{}, err
		}
		for _, n := range values {
			v.Values = append(v.Values, sim.Value{Space: space, Name: n.Name, Value: n.Value})
		}
	}
	if v.Schedules, err = q.Schedules(""); err != nil {
		return sim.View{}, err
	}
	v.Kept, err = q.KeptHolders()
	return v, err
}

// checkKept asserts that holders that are kept are known, and hold what they held, whoever has led since.
func checkKept(m *meaning, got, want sim.View) error {
	if g, w := keptIn(got), keptIn(want); !slices.Equal(g, w) {
		return fmt.Errorf("R-15: behind batch %d these are kept with their leases: %v, by the model %v",
			m.state.Seq, g, w)
	}
	return nil
}

// keptIn tells the holders that are kept, and the jobs that are leased to them and end with them.
func keptIn(v sim.View) (all []string) {
	for _, k := range v.Kept {
		all = append(all, sim.Text(k))
		for i := range v.Queues {
			for _, j := range v.List(v.Queues[i].Namespace, v.Queues[i].Name, job.Leased) {
				if j.Lease.Holder == k.Holder && j.Lease.OnEnd != job.EndKeep {
					all = append(all, fmt.Sprintf("%s: job %d", k.Name, j.ID))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// tickName names a tick of a schedule.
type tickName struct {
	schedule job.BatchID
	at       job.Time
}

// checkTicks asserts that no two leaders have pushed a job for the same tick, nor one of them two.
func (r *run) checkTicks(m *meaning) error {
	infos, err := engine.NewQuery(m.data).Schedules("")
	for _, info := range infos {
		for _, run := range info.Runs {
			if run.Kind != job.RunPushed {
				continue
			}
			name := tickName{info.ID, run.Tick}
			if first, ok := r.ticks[name]; ok && first != run.Job {
				return fmt.Errorf("R-13: schedule %q has pushed jobs %d and %d for the tick at %d", info.Name, first,
					run.Job, run.Tick)
			}
			r.ticks[name] = run.Job
		}
	}
	return err
}

// checkRules asserts that limits and fairness are those that were set, whoever has led since.
func checkRules(m *meaning) error {
	infos, err := engine.NewQuery(m.data).Queues("", "", 0)
	for i := range infos {
		q := &infos[i]
		if l, f := m.model.Rules(q.Namespace, q.Name); q.Limits != l || q.Fairness.On != f.On ||
			!maps.Equal(q.Fairness.Weights, f.Weights) {
			return fmt.Errorf("R-14: behind batch %d queue %q has limits %+v and fairness %+v, what was "+
				"set is %+v and %+v",
				m.state.Seq, q.Name, q.Limits, q.Fairness, l, f)
		}
	}
	return err
}
