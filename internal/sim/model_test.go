package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/job"
	"millrace/test/tier"
)

// TestModelHoldsItsOwnInvariants runs the model alone: what the machine is
// compared with must be consistent in itself, and a copy must be independent.
func TestModelHoldsItsOwnInvariants(t *testing.T) {
	t.Parallel()
	states := map[job.State]int{}
	kinds := map[job.Kind]int{}
	var seen sights
	// What is seen at all is counted over more lives than are checked: in one of seventy a batch succeeds behind its
	// child.
	checked, lives := tier.Pick[uint64](130, 30), uint64(600)
	for seed := range lives {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := NewModel(startTime)
		g := newGenerator(rng, m)
		now := startTime
		for token := range uint64(200) {
			now = now.Add(g.pass(now))
			cmd := g.next()
			var before string
			var c *Model
			if seed < checked {
				before, c = m.Dump(), m.Clone()
			}
			comps, err := m.Apply(now, token+1, cmd, silence{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if seed < checked {
				if err := m.Check(); err != nil {
					t.Fatalf("seed %d: after %s: %v", seed, show(cmd), err)
				}
				if c.Dump() != before {
					t.Fatalf("seed %d: %s reached into a copy", seed, show(cmd))
				}
			}
			seen.look(m)
			for _, c := range comps {
				if c.Result.Err != nil {
					kinds[c.Result.Err.Kind]++
				}
			}
		}
		for _, j := range m.jobs {
			states[j.State]++
		}
		m.Restart(now, silence{})
		if err := m.Check(); err != nil {
			t.Fatalf("seed %d: after a restart: %v", seed, err)
		}
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		if states[s] == 0 {
			t.Errorf("no run ended with a job that is %s", s)
		}
	}
	for k := job.NotFound; k <= job.Locked; k++ {
		if kinds[k] == 0 && (k <= job.Canceled || k == job.Locked) {
			t.Errorf("no command was refused with kind %d", k)
		}
	}
	if min(seen.ended, seen.reopened, seen.failed, seen.nested, seen.orphaned, seen.late) < 20 {
		t.Errorf("too little was seen of batches and progress: %+v", seen)
	}
	if min(seen.ticked, seen.missed, seen.skipped, seen.settled) < 20 {
		t.Errorf("too little was seen of schedules: %+v", seen)
	}
	if min(seen.told, seen.spared) < 20 {
		t.Errorf("too little was seen of hooks: %+v", seen)
	}
}

// sights counts what the generator must bring about to be worth anything: steps after
// which such a thing was there.
type sights struct {
	ended    int // the outcome of a tracked job, with a percentage
	reopened int // a batch that was complete and is open
	failed   int // a batch that is complete and has jobs that failed
	nested   int // a batch that has succeeded, and a child that has called back
	orphaned int // a batch whose parent is forgotten
	late     int // a batch that has succeeded and that a job joined since

	// Schedules that have pushed a job, missed a tick, skipped one, and whose job was acked.
	ticked, missed, skipped, settled int

	told   int // a job that a hook has pushed
	spared int // such a job that has died, in a queue that has a hook
}

func (s *sights) look(m *Model) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, o := range m.outcomes {
		count(&s.ended, o.hasPercent)
	}
	for _, j := range m.jobs {
		_, hooked := m.hooks[queueName{j.Namespace, j.Queue}]
		count(&s.told, j.Flags.Has(job.FlagHook))
		count(&s.spared, j.Flags.Has(job.FlagHook) && j.State == job.Dead && hooked)
	}
	for _, c := range m.schedules {
		count(&s.ticked, c.lastTick != 0)
		count(&s.missed, c.missed > 0)
		count(&s.skipped, c.skipped > 0)
		count(&s.settled, slices.ContainsFunc(c.runs,
			func(r job.ScheduleRun) bool { return r.Outcome == job.Succeeded }))
	}
	for _, b := range m.batches {
		complete, success := b.complete.state != job.CallbackWaiting, b.success.state != job.CallbackWaiting
		count(&s.reopened, complete && b.open)
		count(&s.failed, complete && b.failed() > 0)
		count(&s.orphaned, b.parent != 0 && m.batches[b.parent] == nil)
		count(&s.late, success && b.pending() > 0)
		if p := m.batches[b.parent]; p != nil {
			count(&s.nested, p.success.state != job.CallbackWaiting && b.success.pushes > 0)
		}
	}
}
