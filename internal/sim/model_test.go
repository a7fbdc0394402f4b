package sim

import (
	"math/rand/v2"
	"testing"

	"millrace/internal/job"
)

// TestModelHoldsItsOwnInvariants runs the model alone: what the machine is
// compared with must be consistent in itself, and a copy must be independent.
func TestModelHoldsItsOwnInvariants(t *testing.T) {
	t.Parallel()
	states := map[job.State]int{}
	kinds := map[job.Kind]int{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := NewModel(startTime)
		g := newGenerator(rng, m)
		now := startTime
		for token := range uint64(200) {
			now = now.Add(g.pass(now))
			cmd := g.next()
			before := m.Dump()
			c := m.Clone()
			comps, err := m.Apply(now, token+1, cmd, silence{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d: after %s: %v", seed, show(cmd), err)
			}
			if c.Dump() != before {
				t.Fatalf("seed %d: %s reached into a copy", seed, show(cmd))
			}
			for _, c := range comps {
				if c.Result.Err != nil {
					kinds[c.Result.Err.Kind]++
				}
			}
		}
		for _, j := range m.jobs {
			states[j.State]++
		}
		m.Restart(now)
		if err := m.Check(); err != nil {
			t.Fatalf("seed %d: after a restart: %v", seed, err)
		}
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		if states[s] == 0 {
			t.Errorf("no run ended with a job that is %s", s)
		}
	}
	for k := job.NotFound; k <= job.Canceled; k++ {
		if kinds[k] == 0 {
			t.Errorf("no command was refused with kind %d", k)
		}
	}
}
