package sim

import (
	"time"

	"millrace/internal/job"
)

// setSchedules sets a few schedules, most of which tick within minutes.
func (g *generator) setSchedules() job.Command {
	c := &job.SetSchedules{Source: choose(g, job.SourceAPI, job.SourceFile), Replace: g.chance(30)}
	for range 1 + g.rng.IntN(2) {
		c.Entries = append(c.Entries, g.schedule())
	}
	return c
}

func (g *generator) schedule() job.Schedule {
	spec := g.spec()
	if g.chance(95) {
		spec.Batch, spec.BlockedBy, spec.RunAt = 0, nil, 0
	}
	if g.chance(70) {
		spec.Delay, spec.TTL, spec.Policy.ExpireAt, spec.Unique = 0, 0, 0, false
	}
	s := job.Schedule{
		Namespace: g.namespace(), Name: choose(g, "s1", "s2", "s3"), Job: spec, Paused: g.chance(10),
		When: choose(g, "@every 5s", "@every 30s", "@every 2m", "@every 26h", "*/20 * * * * *", "* * * * *",
			"15,45 * * * *", "@daily"),
		Zone:    choose(g, "", "", "Australia/Lord_Howe", "Asia/Kathmandu"),
		Missed:  choose(g, job.MissedOnce, job.MissedSkip, job.MissedAll),
		Overlap: choose(g, job.OverlapAllow, job.OverlapSkip),
	}
	if s.Missed == job.MissedAll {
		s.MissedMax = uint32(1 + g.rng.IntN(4))
	}
	if g.chance(4) {
		s.When = choose(g, "", "never", "0 0 30 2 *")
	}
	if old := g.model.schedule(s.Namespace, s.Name); old != nil && g.chance(40) { // the same again, or nearly so
		paused, missed := s.Paused, s.Missed
		if s = old.def; g.chance(30) {
			s.Paused = paused
		}
		if missed != job.MissedAll && g.chance(30) {
			s.Missed, s.MissedMax = missed, 0
		}
	}
	if g.chance(20) {
		s.Past = g.schedulePast()
	}
	return s
}

// schedulePast is what a schedule did before it was brought here.
func (g *generator) schedulePast() *job.SchedulePast {
	at := g.model.now.Add(-time.Hour)
	p := &job.SchedulePast{
		Created: at, Pushed: uint64(g.rng.IntN(5)), Missed: uint64(g.rng.IntN(3)),
		Skipped: uint64(g.rng.IntN(3)),
	}
	for range g.rng.IntN(4) {
		at = at.Add(time.Duration(1+g.rng.IntN(600)) * time.Second)
		r := job.ScheduleRun{Tick: at, At: at, Kind: choose(g, job.RunPushed, job.RunPushed, job.RunByHand,
			job.RunMissed), Count: 1, Job: 7}
		if r.Kind <= job.RunByHand {
			p.LastAt, r.Outcome = at, choose(g, job.Alive, job.Alive, job.Succeeded, job.Died)
		}
		if r.Kind == job.RunPushed {
			p.LastTick = at
		}
		p.Runs = append(p.Runs, r)
	}
	if g.chance(5) {
		p.LastTick = 1
	}
	return p
}

// pauseSchedule pauses a schedule or has it go on, also one with a past.
func (g *generator) pauseSchedule() job.Command {
	ns, name := g.scheduled()
	c := &job.PauseSchedule{Namespace: ns, Name: name, Paused: g.chance(50)}
	if c.Rest = g.chance(30); c.Rest {
		c.Next = choose(g, 0, g.model.now.Add(time.Duration(g.rng.IntN(120)-60)*time.Second))
	}
	return c
}

// scheduled names a schedule, mostly one that there is.
func (g *generator) scheduled() (ns, name string) {
	if n := len(g.model.schedules); n > 0 && g.chance(90) {
		d := &g.model.schedules[g.rng.IntN(n)].def
		return d.Namespace, d.Name
	}
	return g.namespace(), choose(g, "s1", "s2", "s3")
}

// setHooks sets hooks, sometimes so that they point at each other, and removes some.
func (g *generator) setHooks() job.Command {
	c := &job.SetHooks{Source: choose(g, job.SourceAPI, job.SourceAPI, job.SourceFile), Replace: g.chance(20)}
	for range g.rng.IntN(3) {
		h := job.Hook{Namespace: g.namespace(), Queue: g.queue(), Job: g.spec()}
		s := &h.Job
		s.Body, s.BodyKind = nil, job.BodyNone
		if g.chance(95) {
			s.Unique, s.RunAt, s.Lock, s.LockFor, s.LockUntil, s.Batch, s.BlockedBy = false, 0, "", 0, 0, 0, nil
		}
		if g.chance(25) {
			*s = job.Spec{}
		}
		c.Hooks = append(c.Hooks, h)
	}
	return c
}
