package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/internal/job"
)

// bonds ties a new job to a lock, a batch and its progress.
func (g *generator) bonds(s *job.Spec) {
	if g.chance(g.locks) {
		s.Lock, s.LockFor, s.LockUntil = choose(g, "l1", "l2"), g.length(), choose(g, job.LockUntilAck,
			job.LockUntilFetch)
	}
	s.Tracked = g.chance(g.tracks)
	if g.chance(g.joins) {
		var ns string
		if ns, s.Batch = g.batch(func(b *batch) bool { return b.complete.state == job.CallbackWaiting }); g.chance(95) {
			s.Namespace = ns
		}
		if g.chance(50) {
			s.TTL, s.Policy.ExpireAt, s.BlockedBy = 0, 0, nil
		}
	}
}

// live gives some jobs a past, mostly one that they can have.
func (g *generator) live(c *job.Push) {
	if !g.chance(g.pasts) {
		return
	}
	p := &job.Past{State: job.State(1 + g.rng.IntN(job.StateCount-1))}
	if g.chance(90) {
		p.State = choose(g, job.Scheduled, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead)
		if len(c.Spec.BlockedBy) > 0 {
			p.State = job.Blocked
		}
		if p.State == job.Done {
			c.Spec.Batch = 0
		}
	}
	p.LockedUntil = g.model.now.Add(time.Duration(g.rng.IntN(8)-2) * time.Second)
	p.Tried = g.chance(20)
	defer func() { g.role(&c.Spec, p) }()
	if p.State.Finished() || g.chance(4) {
		p.Result = g.bytes()
	}
	if p.State == job.Retrying || g.chance(30) {
		c.Spec.RunAt = g.model.now.Add(time.Duration(g.rng.IntN(8)-3) * time.Second)
	}
	moment := func() job.Time {
		return choose(g, 0, g.model.now, g.model.now.Add(time.Duration(g.rng.IntN(12)-10)*time.Second))
	}
	p.Created, p.Since, p.At = moment(), moment(), moment()
	p.Rank = choose[int64](g, 0, 0, 0, -1, 2, -2)
	if g.chance(2) {
		p.Rank = choose[int64](g, math.MinInt64+1, job.PastRankMax, job.PastRankMax+1)
	}
	p.OldPlace = p.State == job.Scheduled && g.chance(30) || g.chance(2)
	p.BuriedLast = p.State == job.Buried && g.chance(30) || g.chance(2)
	p.Attempts, p.Fails, p.Buries = uint32(g.rng.IntN(4)), uint32(g.rng.IntN(3)), uint32(g.rng.IntN(2))
	p.Lapses, p.Releases, p.Kicks, p.Delay = uint32(g.rng.IntN(3)), uint32(g.rng.IntN(3)),
		uint32(g.rng.IntN(3)), g.length()
	for range choose(g, 0, 0, 1, 2, job.FailuresKept, job.FailuresKept+3) {
		f := g.failure()
		f.At, f.Kind = moment(), job.FailureKind(g.rng.IntN(int(job.FailedByBlocker)+1))
		p.Failures = append(p.Failures, f)
	}
	c.Past = p
}

// role makes some jobs with a past the callback that their batch waits for, or the job of a schedule.
func (g *generator) role(s *job.Spec, p *job.Past) {
	if n := len(g.model.schedules); n > 0 && g.chance(15) {
		of := g.model.schedules[g.rng.IntN(n)]
		s.Namespace, s.Batch, p.Role, p.Tried = of.def.Namespace, of.id, job.FlagTick, false
		if len(of.runs) > 0 && g.chance(80) {
			p.Created = choose(g, of.runs...).At
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(g.model.batches)) {
		if b := g.model.batches[id]; b.owed != 0 && g.chance(60) {
			s.Namespace, s.Batch, p.Role, p.Tried = b.ns, id, b.owed, false
			return
		}
	}
}

// batchPast gives some batches a past, mostly one that they can have.
func (g *generator) batchPast(c *job.NewBatch) {
	if !g.chance(30) {
		return
	}
	ago := func() job.Time { return g.model.now.Add(-time.Duration(g.rng.IntN(9)) * time.Second) }
	p := &job.BatchPast{Created: ago(), Acked: uint64(g.rng.IntN(3))}
	if g.chance(70) {
		p.Committed = ago()
		p.Complete = choose(g, job.CallbackWaiting, job.CallbackPushed, job.CallbackAcked)
	}
	if p.Complete == job.CallbackAcked && g.chance(50) {
		p.Success, p.Succeeded = choose(g, job.CallbackPushed, job.CallbackAcked), ago()
	}
	if g.chance(5) {
		p.Complete, p.Success = job.Callback(g.rng.IntN(4)), job.Callback(g.rng.IntN(4))
	}
	c.Past = p
}

// relock ends a lock and takes it again.
func (g *generator) relock() []job.Command {
	p := &job.Push{Spec: g.spec()}
	locking := g.model.sorted(func(j *entry) bool {
		return g.model.locks[lockName{j.Namespace, j.Lock}].taker == j.ID && j.LockUntil == job.LockUntilAck
	})
	if len(locking) == 0 {
		return []job.Command{p}
	}
	j := choose(g, locking...)
	p.Spec.Namespace, p.Spec.Lock, p.Spec.LockFor, p.Spec.Unique = j.Namespace, j.Lock, time.Minute, false
	return []job.Command{&job.Ack{Ref: g.placeOf(j.ID), By: j.Lease.Holder, Need: job.NeedUnfinished}, p}
}

// lostLock returns the jobs that have lost their lock to another one.
func (g *generator) lostLock() []*entry {
	return g.model.sorted(func(j *entry) bool {
		l, there := g.model.locks[lockName{j.Namespace, j.Lock}]
		return j.Lock != "" && there && l.taker != j.ID && g.model.now < l.until
	})
}

// rejoin acks a job of a batch and pushes another one into it.
func (g *generator) rejoin() []job.Command {
	p := &job.Push{Spec: g.spec()}
	in := g.inBatch()
	if len(in) == 0 {
		return []job.Command{p}
	}
	j := choose(g, in...)
	p.Spec.Namespace, p.Spec.Batch = j.Namespace, j.Batch
	return []job.Command{&job.Ack{Ref: g.placeOf(j.ID), By: j.Lease.Holder, Need: job.NeedUnfinished}, p}
}

// compete makes a push ask for the lock that one that waits for room will ask for, or
// wait for room itself.
func (g *generator) compete(c *job.Push) {
	if !g.chance(g.locks) {
		return
	}
	for _, w := range g.model.waits {
		if p, ok := w.cmd.(*job.Push); ok && p.Spec.Lock != "" {
			c.Spec.Namespace, c.Spec.Lock, c.Spec.LockFor = p.Spec.Namespace, p.Spec.Lock, time.Hour
			return
		}
	}
	for _, q := range g.model.inOrder() {
		if g.model.full(q.queueName) {
			c.Spec.Namespace, c.Spec.Queue, c.Spec.Lock, c.RoomWait = q.ns, q.name, choose(g, "l1", "l2"), time.Hour
			return
		}
	}
}

// moment returns a time at which something happens: a timer, or the end of a lock or of
// an outcome, which no timer tells.
func (g *generator) moment(now job.Time) job.Time {
	if g.chance(60) {
		return g.model.NextTimer()
	}
	next := job.Never
	for _, l := range g.model.locks {
		if l.until > now {
			next = min(next, l.until)
		}
	}
	for _, o := range g.model.outcomes {
		if o.until > now {
			next = min(next, o.until)
		}
	}
	return next
}

// batch returns a batch and its namespace, mostly one that fits.
func (g *generator) batch(fits func(*batch) bool) (string, job.BatchID) {
	all := slices.Sorted(maps.Keys(g.model.batches))
	fit := slices.DeleteFunc(slices.Clone(all), func(id job.BatchID) bool { return !fits(g.model.batches[id]) })
	var id job.BatchID
	switch {
	case len(all) == 0 || g.chance(4):
		return g.namespace(), job.BatchID(g.rng.IntN(int(g.model.lastID) + 3))
	case len(fit) > 0 && g.chance(85):
		id = choose(g, fit...)
	default:
		id = choose(g, all...)
	}
	if g.chance(3) {
		return g.namespace(), id
	}
	return g.model.batches[id].ns, id
}

func (g *generator) commit() job.Command {
	ns, id := g.batch(func(b *batch) bool { return b.open })
	c := &job.CommitBatch{Namespace: ns, Batch: id}
	if b := g.model.batches[id]; b != nil && g.chance(20) {
		c.Rest = &job.BatchRest{Total: b.total() + uint64(g.rng.IntN(3)), Open: g.chance(30)}
	}
	return c
}

// newBatch makes a batch, unless there are some already: few batches go further.
func (g *generator) newBatch() job.Command {
	if g.rng.IntN(4) < len(g.model.batches) {
		return g.commit()
	}
	c := &job.NewBatch{
		Namespace: g.namespace(), Text: choose(g, "", "text"),
		OpenFor: g.keeping(), KeepFor: g.keeping(), KeepDone: g.keeping(),
	}
	if g.chance(50) {
		c.Namespace, c.Parent = g.batch(func(b *batch) bool { return b.success.state == job.CallbackWaiting })
	}
	c.Complete, c.Success = g.callback(c.Namespace), g.callback(c.Namespace)
	g.batchPast(c)
	return c
}

// keeping is how long a batch is kept: mostly longer than the run takes.
func (g *generator) keeping() time.Duration {
	switch n := g.rng.IntN(10); {
	case n < 7:
		return 30 * 24 * time.Hour
	case n < 9:
		return time.Duration(1+g.rng.IntN(60)) * time.Second
	default:
		return g.length()
	}
}

// callback returns what a batch pushes, mostly something that can be fetched at once.
func (g *generator) callback(ns string) *job.Spec {
	if g.chance(35) {
		return nil
	}
	s := g.spec()
	if g.chance(95) {
		s.Namespace = ns
	}
	if g.chance(70) {
		s.RunAt, s.Delay, s.TTL, s.BlockedBy, s.Policy.ExpireAt = 0, 0, 0, nil, 0
	}
	return &s
}

// inBatch returns the jobs that a batch waits for: its callbacks, else its members, at
// first those of batches that can still succeed.
func (g *generator) inBatch() []*entry {
	callback := func(j *entry) bool { return g.model.batches[j.Batch] != nil && !j.counts() && !j.State.Finished() }
	if jobs := g.model.sorted(callback); len(jobs) > 0 && g.chance(75) {
		return jobs
	}
	hopeful := func(j *entry) bool {
		b := g.model.batches[j.Batch]
		if b == nil || !j.counts() {
			return false
		}
		for id, who := range b.members {
			if !who.acked && g.model.jobs[id] == nil {
				return false
			}
		}
		return true
	}
	if jobs := g.model.sorted(hopeful); len(jobs) > 0 {
		return jobs
	}
	return g.model.sorted(func(j *entry) bool { return g.model.batches[j.Batch] != nil && j.counts() })
}

// run makes a Run, which may be all that a batch waits for.
func (g *generator) run() job.Command {
	c := &job.Run{Spec: g.spec(), Wait: g.patience()}
	for _, id := range slices.Sorted(maps.Keys(g.model.batches)) {
		if b := g.model.batches[id]; b.complete.state == job.CallbackWaiting &&
			b.failed() == b.pending() && g.chance(40) {
			c.Spec.Namespace, c.Spec.Batch, c.Wait = b.ns, id, time.Hour
		}
	}
	return c
}

// fragile reports whether a batch waits for a job that a restart ends: a good moment
// for one.
func (g *generator) fragile() bool {
	return len(g.model.sorted(func(j *entry) bool {
		b := g.model.batches[j.Batch]
		return b != nil && j.counts() && j.Flags.Has(job.FlagEphemeral) && !b.open &&
			b.complete.state == job.CallbackWaiting
	})) > 0
}

// lasting reports whether somebody that is kept holds a lease, which a restart gives back.
func (g *generator) lasting() bool {
	return slices.ContainsFunc(g.model.sorted(func(j *entry) bool { return j.State == job.Leased }),
		func(j *entry) bool {
			return j.Lease.OnEnd != job.EndKeep && g.model.keeps(j.Lease.Holder)
		})
}

// report makes a report about a job that takes them, or took them when it was there.
func (g *generator) report() job.Command {
	c := &job.Report{Namespace: g.namespace(), Key: g.key(), SetPercent: g.chance(60), SetText: g.chance(60)}
	tracked := g.model.sorted(func(j *entry) bool { return j.Flags.Has(job.FlagTracked) && j.Key != "" })
	ended := slices.SortedFunc(maps.Keys(g.model.outcomes), func(a, b keyName) int {
		return cmp.Or(strings.Compare(a.ns, b.ns), strings.Compare(a.key, b.key))
	})
	switch n := g.rng.IntN(10); {
	case n < 6 && len(tracked) > 0:
		j := choose(g, tracked...)
		c.Namespace, c.Key = j.Namespace, j.Key
	case n < 9 && len(ended) > 0:
		name := choose(g, ended...)
		c.Namespace, c.Key = name.ns, name.key
	}
	if c.SetPercent {
		c.Percent = int64(g.rng.IntN(102))
	}
	if c.SetText {
		c.Text = fmt.Sprintf("m%d", g.rng.IntN(100))
	}
	if g.chance(40) {
		c.Until = g.model.now.Add(time.Duration(g.rng.IntN(9)-1) * time.Second)
	}
	return c
}

// in returns the states that a verb means: mostly all of them, else a few that tend to
// have the one that the job is in.
func (g *generator) in(ref job.Ref) job.States {
	if !g.chance(25) {
		return 0
	}
	var set job.States
	for range 1 + g.rng.IntN(3) {
		set |= job.StatesOf(job.State(1 + g.rng.IntN(job.StateCount-1)))
	}
	if j := g.model.find(ref, false, func(*entry) bool { return true }); j != nil && g.chance(50) {
		set |= job.StatesOf(j.State)
	}
	return set
}
