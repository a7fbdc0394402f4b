package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/internal/job"
	"millrace/internal/record"
)

// generator makes random commands that are likely to matter: it looks at the
// model for ids, holders and tokens that exist.
type generator struct {
	rng     *rand.Rand
	model   *Model
	weights []int // by index into verbs
	total   int
	queues  []string
	bodies  int

	// How many percent of the pushes join a batch, take a lock, are tracked, are about
	// something, have a past.
	joins, locks, tracks, likes, pasts int
	crowds                             int // how many percent of the commands make crowds
}

// verb is one kind of command and how often it comes in the mean.
type verb struct {
	weight int
	make   func(*generator) job.Command
}

var verbs = []verb{
	{26, func(g *generator) job.Command { return g.push() }},
	{26, func(g *generator) job.Command { return g.fetch() }},
	{9, func(g *generator) job.Command { return g.ack() }},
	{8, func(g *generator) job.Command {
		ref, by, need := g.settling()
		return &job.Fail{Ref: ref, By: by, Need: need, Failure: g.failure(), Result: g.bytes(), Want: g.chance(30)}
	}},
	{5, func(g *generator) job.Command { return g.release() }},
	{3, func(g *generator) job.Command { return g.giveBack() }},
	{4, func(g *generator) job.Command {
		ref, by, need := g.settling()
		return &job.Bury{
			Ref: ref, In: g.in(ref), By: by, Need: need, Last: g.chance(40), SetPriority: g.chance(30),
			Priority: choose[int64](g, -2, 0, 7), Want: g.chance(30),
		}
	}},
	{4, func(g *generator) job.Command {
		if g.chance(50) {
			ns, queue, _ := g.list(job.Buried, job.Scheduled, job.Retrying)
			return &job.Kick{Namespace: ns, Queue: queue, Count: g.rng.IntN(4), From: g.kickFrom()}
		}
		return &job.Kick{Ref: g.ref(job.Buried, job.Scheduled), One: true, From: g.kickFrom(), Want: g.chance(30)}
	}},
	{4, func(g *generator) job.Command { return g.remove() }},
	{4, func(g *generator) job.Command { return g.touch() }},
	{4, func(g *generator) job.Command {
		ref := g.ref(job.Scheduled, job.Retrying, job.Buried, job.Failed, job.Dead)
		return &job.Promote{Ref: ref, In: g.in(ref), Place: g.place(), Want: g.chance(30)}
	}},
	{3, func(g *generator) job.Command {
		ref := g.ref(job.Ready, job.Leased, job.Scheduled)
		return &job.Kill{Ref: ref, In: g.in(ref), For: g.length(), Want: g.chance(30)}
	}},
	{4, func(g *generator) job.Command { return g.each() }},
	{2, func(g *generator) job.Command {
		c := &job.Respawn{
			Attempts: uint32(g.rng.IntN(3)), TTL: g.length(), OwnAttempts: g.chance(30),
			OwnExpiry: g.chance(30),
		}
		if g.chance(50) {
			c.Namespace, c.Queue, _ = g.list(job.Dead)
			c.Limit = g.rng.IntN(5)
			return c
		}
		c.Ref, c.One, c.Want = g.ref(job.Dead, job.Failed), true, g.chance(30)
		c.In = g.in(c.Ref)
		return c
	}},
	{4, func(g *generator) job.Command {
		ref := g.ref()
		return &job.Move{Ref: ref, In: g.in(ref), Queue: g.queue()}
	}},
	{4, func(g *generator) job.Command { return &job.Await{Ref: g.ref(), Wait: g.patience()} }},
	{5, func(g *generator) job.Command { return g.run() }},
	{5, func(g *generator) job.Command { return g.atomic() }},
	{3, func(g *generator) job.Command { return &job.Cancel{Token: g.token()} }},
	{3, func(g *generator) job.Command {
		h := holders[1+g.rng.IntN(len(holders)-1)]
		if j := g.model.jobs[g.id(job.Leased)]; j != nil && j.Lease.Holder != (job.Holder{}) {
			h = j.Lease.Holder
		}
		if n := len(g.model.endings); n > 0 && g.chance(30) {
			h = g.model.endings[g.rng.IntN(n)].holder
		}
		return &job.EndHolder{Holder: h, Grace: g.length()}
	}},
	{2, func(g *generator) job.Command {
		if n := len(g.model.endings); n > 0 && g.chance(80) {
			return &job.ResumeHolder{Holder: g.model.endings[g.rng.IntN(n)].holder}
		}
		return &job.ResumeHolder{Holder: g.holder()}
	}},
	{4, func(g *generator) job.Command {
		i := g.rng.IntN(len(holders))
		k := job.KeptHolder{Name: fmt.Sprint("h", i), Holder: holders[i], Grace: g.length()}
		if g.chance(10) {
			k.Holder = g.holder()
		}
		return &job.KeepHolder{KeptHolder: k}
	}},
	{1, func(g *generator) job.Command {
		ns, queue, _ := g.list(job.Leased)
		return &job.ReleaseAll{Namespace: ns, Queue: queue}
	}},
	{3, func(g *generator) job.Command { return g.configure() }},
	{2, func(g *generator) job.Command {
		return &job.Pause{Namespace: g.namespace(), Queue: g.queue(), For: g.length(), Make: g.chance(30)}
	}},
	{2, func(g *generator) job.Command { return &job.Resume{Namespace: g.namespace(), Queue: g.queue()} }},
	{2, func(g *generator) job.Command {
		ns, queue, state := g.list()
		return &job.Purge{Namespace: ns, Queue: queue, State: state, Limit: max(0, g.rng.IntN(6)-2)}
	}},
	{2, func(g *generator) job.Command {
		c := &job.Remove{
			Namespace: g.namespace(), Queue: g.queue(), ReadyOnly: g.chance(40), IfIdle: g.chance(50),
			KeepQueue: g.chance(30),
		}
		if n := len(g.model.waits); n > 0 && g.chance(20) {
			if f, ok := g.model.waits[g.rng.IntN(n)].cmd.(*job.Fetch); ok {
				c.Namespace, c.Queue = f.Namespace, choose(g, f.Queues...)
			}
		}
		return c
	}},
	{1, func(g *generator) job.Command {
		return &job.Flush{Namespace: g.namespace(), Door: job.Door(g.rng.IntN(3))}
	}},
	{6, func(g *generator) job.Command { return g.report() }},
	{5, func(g *generator) job.Command { return g.newBatch() }},
	{7, func(g *generator) job.Command { return g.commit() }},
	{2, func(g *generator) job.Command {
		ns, id := g.batch(func(b *batch) bool { return !b.open })
		return &job.OpenBatch{Namespace: ns, Batch: id}
	}},
	{3, func(g *generator) job.Command {
		return &job.SetValue{
			Space: choose(g, spaces...), Name: choose(g, "n1", "n2", ""), Value: g.bytes(),
			IfAbsent: g.chance(40),
		}
	}},
	{2, func(g *generator) job.Command {
		return &job.DropValue{Space: choose(g, spaces...), Name: choose(g, "n1", "n2", "")}
	}},
	{5, func(g *generator) job.Command { return g.setLimits() }},
	{4, func(g *generator) job.Command { return g.setHooks() }},
	{1, func(g *generator) job.Command { return &job.RaiseFormat{Format: uint64(g.rng.IntN(record.Format + 1))} }},
	{4, func(g *generator) job.Command { return g.setFair() }},
	{3, func(g *generator) job.Command { return g.setSchedules() }},
	{1, func(g *generator) job.Command {
		ns, name := g.scheduled()
		return &job.DropSchedule{Namespace: ns, Name: name, Source: choose(g, job.SourceAPI, job.SourceFile)}
	}},
	{1, func(g *generator) job.Command { return g.pauseSchedule() }},
	{1, func(g *generator) job.Command {
		ns, name := g.scheduled()
		return &job.RunSchedule{Namespace: ns, Name: name}
	}},
}

// scheduleVerbs is how many of the verbs are about schedules: the last.
const scheduleVerbs = 4

// spaces are where values are kept.
var spaces = []string{"v1", "v2"}

// holders are few, so that they meet. The first is nobody.
var holders = []job.Holder{{}, {Node: 1, Num: 1}, {Node: 1, Num: 2}, {Node: 2, Num: 1}}

// newGenerator returns a generator with a character of its own: some verbs come
// often and some not at all, so that runs differ more than uniform chance would
// make them.
func newGenerator(rng *rand.Rand, m *Model) *generator {
	g := &generator{
		rng: rng, model: m, queues: allQueues[:1+rng.IntN(4)],
		joins: []int{0, 10, 30, 80}[rng.IntN(4)], locks: []int{0, 10, 30}[rng.IntN(3)],
		tracks: []int{0, 20, 80}[rng.IntN(3)],
		likes:  []int{0, 0, 60}[rng.IntN(3)], pasts: []int{0, 10, 50}[rng.IntN(3)],
	}
	for i, v := range verbs {
		w := v.weight * []int{0, 2, 4, 4, 4, 8, 16}[rng.IntN(7)]
		if i < 2 {
			w = max(w, v.weight*2)
		}
		if i == 2 && g.joins > 50 {
			w = max(w, v.weight*12) // or batches would never succeed
		}
		g.weights = append(g.weights, w)
		g.total += w
	}
	if rng.IntN(3) > 0 { // schedules push so much that the rest would come too short
		for i := len(verbs) - scheduleVerbs; i < len(verbs); i++ {
			g.total -= g.weights[i]
			g.weights[i] = 0
		}
	}
	return g
}

// next returns a command.
func (g *generator) next() job.Command {
	if g.crowds > 0 && g.chance(g.crowds) {
		return g.crowd()
	}
	n := g.rng.IntN(g.total)
	for i, w := range g.weights {
		if n -= w; n < 0 {
			return verbs[i].make(g)
		}
	}
	panic("unreachable: the weights sum to the total")
}

// pass returns how much time goes by before a step: mostly little, and often
// exactly until the next timer.
func (g *generator) pass(now job.Time) time.Duration {
	if g.crowds > 0 && g.chance(g.crowds) {
		return 0 // or what is left over would be done before the next command
	}
	switch n := g.rng.IntN(100); {
	case n < 55:
		return 0
	case n < 75:
		return time.Duration(1+g.rng.IntN(3000)) * time.Millisecond
	case n < 85:
		t := g.moment(now)
		if far := t.Sub(now) > 2*time.Minute; t == 0 || t == job.Never || far && !g.chance(10) {
			return time.Microsecond
		}
		return max(t.Sub(now), 0)
	case n < 98:
		return time.Duration(1+g.rng.IntN(5)) * time.Second
	case n < 99:
		return time.Duration(1+g.rng.IntN(300)) * time.Second
	default:
		return time.Duration(1+g.rng.IntN(9)) * 24 * time.Hour
	}
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func choose[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

// allQueues are the queues that commands name, besides one that is unknown.
var allQueues = []string{"q", "r", "s", "t", "unknown"}

// namespaces are where jobs and batches are.
var namespaces = []string{"a", "b"}

func (g *generator) namespace() string {
	if g.chance(12) {
		return namespaces[1]
	}
	return namespaces[0]
}

func (g *generator) queue() string {
	if g.chance(2) {
		return "unknown"
	}
	return choose(g, g.queues...)
}

func (g *generator) holder() job.Holder { return choose(g, holders...) }

// length is a short time, often none and often a whole number of seconds, so that
// timers fall together.
func (g *generator) length() time.Duration {
	switch n := g.rng.IntN(10); {
	case n < 4:
		return 0
	case n < 9:
		return time.Duration(1+g.rng.IntN(5)) * time.Second
	default:
		return time.Duration(1+g.rng.IntN(90000)) * time.Millisecond
	}
}

func (g *generator) patience() time.Duration {
	if g.chance(10) {
		return job.WaitForever
	}
	return g.length()
}

func (g *generator) kickFrom() job.KickFrom { return job.KickFrom(g.rng.IntN(int(job.KickEither) + 1)) }

func (g *generator) place() job.Place { return job.Place(g.rng.IntN(int(job.PlaceSched) + 1)) }

func (g *generator) bytes() []byte {
	if g.chance(30) {
		return nil
	}
	g.bodies++
	return fmt.Appendf(nil, "b%d", g.bodies)
}

func (g *generator) key() string { return choose(g, "", "", "k1", "k2", "k3") }

func (g *generator) failure() job.Failure {
	return job.Failure{
		Type: "type", Message: fmt.Sprintf("m%d", g.rng.IntN(100)),
		Backtrace: choose(g, nil, []string{"x", "y"}),
	}
}

func (g *generator) spec() job.Spec {
	s := job.Spec{
		Namespace: g.namespace(), Queue: g.queue(), Key: g.key(), Numbered: g.chance(30),
		Type: choose(g, "", "t1"), Group: choose(g, "", "", "g1", "g2", "g3"), Body: g.bytes(),
		Extra:  choose(g, nil, []byte("x")),
		Origin: job.Door(g.rng.IntN(3)), Policy: g.policy(), TTLFromRun: g.chance(50),
		At: choose(g, job.PlaceTail, job.PlaceTail, job.PlaceHead),
	}
	if s.Type != "" {
		s.Trace = "trace"
	}
	s.Unique = s.Key != "" && g.chance(50)
	if g.chance(g.likes) {
		s.Fingerprint = job.Digest{0: byte(1 + g.rng.IntN(2)), 15: 7}
	}
	if s.Body != nil {
		s.BodyKind = choose(g, job.BodyBytes, job.BodyJSON)
	}
	if g.chance(20) {
		s.TTL = g.length()
	}
	if g.chance(20) {
		s.Delay = g.length()
	}
	if g.chance(10) {
		s.RunAt = g.model.now.Add(time.Duration(g.rng.IntN(8)-3) * time.Second)
	}
	if g.chance(20) {
		for range 1 + g.rng.IntN(3) {
			s.BlockedBy = append(s.BlockedBy, g.blocker())
		}
	}
	g.bonds(&s)
	return s
}

func (g *generator) blocker() job.Blocker {
	id := g.id(job.Ready, job.Leased, job.Scheduled, job.Blocked, job.Retrying)
	if g.chance(30) {
		return job.Blocker{Number: id.Number()}
	}
	ref := g.placeOf(id)
	return job.Blocker{QueueNum: ref.QueueNum, ID: id}
}

func (g *generator) policy() job.Policy {
	p := job.Policy{
		Priority: choose[int64](g, 0, 0, 0, 1, -1, 5), Lease: g.length(), Expiry: job.Expiry(g.rng.IntN(2)),
		MaxAttempts: choose[uint32](g, 0, 0, 1, 2, 3), MaxFails: choose[uint32](g, 0, 0, 1, 2),
		Lapse: job.Lapse(g.rng.IntN(2)), Requeue: g.place(), Due: g.place(),
		Exhaust: job.Exhaust(g.rng.IntN(int(job.ExhaustMove) + 1)), DeadFor: g.length(),
		DeadMax:   choose[uint32](g, 0, 0, 2, 3),
		DeadSlots: g.chance(50), Keep: g.chance(25),
	}
	if g.chance(15) {
		p.ExpireAt = choose(g, job.Never, g.model.now, g.model.now.Add(g.length()), g.model.now.Add(-time.Second))
	}
	if g.chance(60) {
		p.DeadQueue = g.queue()
	}
	if g.chance(50) {
		p.Backoff = job.Backoff{
			Unit: choose(g, time.Millisecond, time.Second, time.Minute, time.Hour), Power: uint8(g.rng.IntN(5)),
			Skip: uint8(g.rng.IntN(2)),
			Base: choose(g, 0, time.Second), Floor: g.chance(30),
		}
		if p.Backoff.Base > 0 && !p.Backoff.Floor && g.chance(50) {
			p.Backoff.Jitter = 5
		}
	}
	return p
}

func (g *generator) push() job.Command {
	c := &job.Push{Spec: g.spec()}
	if g.chance(50) {
		c.RoomWait = g.patience()
	}
	g.compete(c)
	g.live(c)
	if g.chance(g.likes) {
		c.Unless = job.StatesOf(job.State(1+g.rng.IntN(job.StateCount-1)),
			choose(g, job.Ready, job.Leased, job.Scheduled))
	}
	return c
}

func (g *generator) fetch() job.Command {
	f := &job.Fetch{
		Namespace: g.namespace(), Pick: job.Pick(g.rng.IntN(int(job.PickBest) + 1)), Max: 1 + g.rng.IntN(2),
		Holder: g.holder(), Exclusive: g.chance(20), OnEnd: job.OnEnd(g.rng.IntN(int(job.EndFail) + 1)),
		Door: job.Door(g.rng.IntN(3)),
		Firm: g.chance(30),
	}
	for range 1 + g.rng.IntN(len(g.queues)+1) {
		f.Queues = append(f.Queues, g.queue())
	}
	if g.chance(10) {
		f.Max = g.rng.IntN(8)
	}
	if g.chance(50) {
		f.Wait = g.patience()
	}
	if g.chance(30) {
		f.LeaseSet, f.Lease = true, g.length()
	}
	if g.crowds > 0 && f.Wait > 0 {
		// What lapses at once competes with callers that are left over, and with a clean-up:
		// the model does not know in which order.
		f.Lease = max(f.Lease, time.Second)
	}
	if g.chance(30) {
		f.DefaultLease = g.length()
	}
	if g.chance(10) {
		f.One, f.Ref = true, g.ref(job.Ready, job.Scheduled, job.Retrying, job.Buried)
		f.In = g.in(f.Ref)
	}
	if g.chance(30) {
		f.Margin = choose(g, time.Second, time.Second, 3*time.Second, time.Hour)
	}
	if g.chance(40) {
		f.Delivery = &deliveries[g.rng.IntN(len(deliveries))]
	}
	return f
}

func (g *generator) ack() *job.Ack {
	ref, by, need := g.settling()
	if in := g.inBatch(); len(in) > 0 && g.chance(max(g.joins, 30)) {
		j := choose(g, in...)
		ref, by, need = j.Ref(), j.Lease.Holder, choose(g, job.NeedUnfinished, job.NeedAny)
	}
	if lost := g.lostLock(); len(lost) > 0 && g.chance(30) {
		j := choose(g, lost...)
		ref, by, need = j.Ref(), j.Lease.Holder, job.NeedAny
	}
	c := &job.Ack{Ref: ref, By: by, Need: need, Result: g.bytes(), Keep: g.chance(30), Want: g.chance(30)}
	if c.Keep && g.chance(30) {
		c.NewBody, c.Body, c.BodyKind = true, g.bytes(), job.BodyJSON
	}
	return c
}

func (g *generator) remove() *job.Delete {
	ref, by, need := g.settling()
	if g.chance(30) {
		ref, need = g.ref(job.Dead), job.NeedAny
	}
	return &job.Delete{Ref: ref, In: g.in(ref), By: by, Need: need, AckHeld: g.chance(20), Want: g.chance(30)}
}

func (g *generator) release() job.Command {
	ref, by, need := g.settling()
	c := &job.Release{Ref: ref, By: by, Need: need, Place: g.place(), StretchTTL: g.chance(30), Want: g.chance(30)}
	if g.chance(40) {
		c.Delay = g.length()
	}
	if g.chance(30) {
		c.TTL = g.length()
	}
	if g.chance(30) {
		c.SetPriority, c.Priority = true, choose[int64](g, -2, 0, 7)
	}
	return c
}

func (g *generator) giveBack() job.Command {
	id := g.id(job.Leased)
	c := &job.Return{Refs: []job.Ref{g.placeOf(id)}, By: g.holder()}
	if j := g.model.jobs[id]; j != nil && g.chance(80) {
		c.By = j.Lease.Holder
	}
	if g.chance(30) {
		c.Refs = append(c.Refs, g.ref(job.Leased))
	}
	return c
}

func (g *generator) touch() job.Command {
	ref, by, need := g.settling()
	c := &job.Touch{Ref: ref, By: by, Need: need, NoEarlier: g.chance(30), Want: g.chance(30)}
	switch g.rng.IntN(4) {
	case 0:
		c.Until = g.model.now.Add(time.Duration(g.rng.IntN(8)-1) * time.Second)
	case 1:
		c.Restart = true
	case 2:
		c.Add = g.length()
	}
	return c
}

// atomic makes an Atomic. Only the first job that it names is named by its key or as one
// that the caller holds: which one is meant after another has ended is left open.
func (g *generator) atomic() job.Command {
	c := &job.Atomic{}
	pushes := 0
	named := false
	byID := func(ref *job.Ref) {
		loose := ref.Kind == job.RefKey || ref.Kind == job.RefNumber || alone(*ref)
		if loose && named {
			*ref = g.placeOf(g.id(job.Leased))
		}
		named = true
	}
	for range 1 + g.rng.IntN(4) {
		switch n := g.rng.IntN(100); {
		case n < 10 && len(g.model.locks) > 0:
			pushes++
			named = true
			c.Ops = append(c.Ops, g.relock()...)
		case n < 20 && g.chance(g.joins):
			pushes++
			named = true
			c.Ops = append(c.Ops, g.rejoin()...)
		case n < 60:
			p := &job.Push{Spec: g.spec()}
			g.live(p)
			if g.chance(g.likes / 20) {
				p.Unless = job.StatesOf(job.Ready)
			}
			if pushes > 0 && g.chance(40) {
				p.Spec.BlockedBy = append(p.Spec.BlockedBy, job.Blocker{Back: 1 + g.rng.IntN(pushes)})
			}
			pushes++
			c.Ops = append(c.Ops, p)
		case n < 85:
			ack := g.ack()
			byID(&ack.Ref)
			c.Ops = append(c.Ops, ack)
		default:
			del := g.remove()
			byID(&del.Ref)
			c.Ops = append(c.Ops, del)
		}
	}
	return c
}

func (g *generator) configure() job.Command {
	c := &job.Configure{Namespace: g.namespace(), Queue: g.queue(), Replace: g.chance(50)}
	c.Settings.Serials, c.Settings.OnePerGroup = g.chance(50), g.chance(50)
	if g.chance(50) {
		c.Settings.Capacity = uint64(1 + g.rng.IntN(6))
	}
	c.Settings.Attrs = choose(g, nil, []byte("attrs"))
	return c
}

func (g *generator) setLimits() job.Command {
	c := &job.SetLimits{Namespace: g.namespace(), Queue: g.queue()}
	if g.chance(25) {
		return c
	}
	c.Limits = job.Limits{
		Concurrency: choose[uint32](g, 0, 0, 0, 1, 2, 3), Worker: choose[uint32](g, 0, 0, 0, 1, 1, 2),
		SlotFor: g.length(),
		Rate:    choose[uint32](g, 0, 0, 0, 1, 2, 3, 7),
		Per:     choose(g, time.Second, 2*time.Second, 10*time.Second, time.Minute),
		Burst:   choose[uint32](g, 0, 0, 1, 2, 5),
	}
	if g.chance(50) {
		c.Limits.GroupConcurrency = choose[uint32](g, 0, 1, 2, 3)
		c.Limits.GroupRate, c.Limits.GroupPer = choose[uint32](g, 0, 1, 2, 5), choose(g, time.Second,
			3*time.Second, time.Minute)
		c.Limits.GroupBurst = choose[uint32](g, 0, 1, 3)
	}
	if g.chance(5) {
		c.Limits.Per = choose(g, 0, time.Nanosecond, 48*time.Hour)
	}
	return c
}

func (g *generator) setFair() job.Command {
	c := &job.SetFair{Namespace: g.namespace(), Queue: g.queue()}
	c.Fairness.On = g.chance(70)
	if g.chance(40) {
		c.Fairness.Weights = map[string]uint32{choose(g, "", "g1", "g2"): choose[uint32](g, 0, 1, 2, 3), "g3": 2}
	}
	return c
}
