package sim

import (
	"millrace/internal/job"
)

func (g *generator) token() uint64 {
	if n := len(g.model.waits); n > 0 && g.chance(90) {
		return g.model.waits[g.rng.IntN(n)].token
	}
	return uint64(g.rng.IntN(200))
}

// id returns the id of a job, mostly of one in these states.
func (g *generator) id(states ...job.State) job.ID {
	if g.chance(4) {
		return job.ID(g.rng.IntN(int(g.model.lastID) + 3))
	}
	var fit, all []job.ID
	for _, id := range g.model.ids() {
		all = append(all, id)
		for _, s := range states {
			if g.model.jobs[id].State == s {
				fit = append(fit, id)
			}
		}
	}
	if len(fit) > 0 && g.chance(85) {
		return choose(g, fit...)
	}
	if len(all) > 0 {
		return choose(g, all...)
	}
	return 1
}

// list returns a list of a queue, mostly one with a job in one of these states.
func (g *generator) list(states ...job.State) (namespace, queue string, s job.State) {
	if j := g.model.jobs[g.id(states...)]; j != nil && g.chance(80) {
		return j.Namespace, j.Queue, j.State
	}
	return g.namespace(), g.queue(), job.State(1 + g.rng.IntN(job.StateCount-1))
}

// ref names a job in one of the ways in which it can be named.
func (g *generator) ref(states ...job.State) job.Ref {
	id := g.id(states...)
	ref := g.placeOf(id)
	if g.chance(10) {
		ref = job.ByID(ref.Namespace, "", id)
	}
	j := g.model.jobs[id]
	if j == nil {
		return ref
	}
	switch n := g.rng.IntN(10); {
	case n < 3 && j.Key != "":
		ref = job.ByKey(ref.Namespace, j.Key)
	case n == 4 && j.Flags.Has(job.FlagNumbered):
		ref = job.ByNumber(ref.Namespace, id.Number())
		ref.ID = choose(g, 0, id, id+1<<32)
	case n >= 5 && n < 8 && j.Flags.Has(job.FlagSerial):
		return job.BySerial(ref.Namespace, j.Queue, j.Serial)
	}
	if g.chance(25) {
		ref.Queue = j.Queue
	} else if g.chance(3) {
		ref.Queue = g.queue()
	}
	return ref
}

// placeOf names a job by where it is, mostly.
func (g *generator) placeOf(id job.ID) job.Ref {
	ref := job.ByPlace(g.namespace(), uint32(g.rng.IntN(5)), id)
	j := g.model.jobs[id]
	if j == nil {
		return ref
	}
	if g.chance(97) {
		ref.Namespace = j.Namespace
	}
	if g.chance(97) {
		ref.QueueNum = j.QueueNum
	}
	return ref
}

// settling returns whom a settling verb is about, who asks and what it needs.
func (g *generator) settling() (job.Ref, job.Holder, job.Need) {
	ref := g.ref(job.Leased)
	by := g.holder()
	if j := g.model.find(ref, true, func(*entry) bool { return true }); j != nil && g.chance(75) {
		by = j.Lease.Holder
	}
	return ref, by, choose(g, job.NeedHeld, job.NeedLeased, job.NeedLeased, job.NeedUnfinished,
		job.NeedAny, job.NeedFree)
}

// each does something to all jobs with a key.
func (g *generator) each() job.Command {
	c := &job.Each{Namespace: g.namespace(), Key: g.key()}
	if j := g.model.jobs[g.id()]; j != nil && j.Key != "" {
		c.Namespace, c.Key = j.Namespace, j.Key
		if g.chance(20) {
			c.After = j.ID
		}
	}
	in := g.in(job.ByKey(c.Namespace, c.Key))
	switch g.rng.IntN(3) {
	case 0:
		c.Do = &job.Delete{In: in, Need: job.NeedAny}
	case 1:
		c.Do = &job.Promote{In: in, Place: g.place()}
	default:
		c.Do = &job.Kill{In: in, For: g.length()}
	}
	return c
}
