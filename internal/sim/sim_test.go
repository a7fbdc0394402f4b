package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/test/tier"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 1, "seed of the first run")
	runsFlag  = flag.Int("sim.runs", 0, "number of runs; zero is what the test does by itself")
	stepsFlag = flag.Int("sim.steps", 200, "actions in one run")
)

// shards is how many parts the runs of a test are dealt out to, so that they use
// all cores.
const shards = 4

// TestSim runs the core on a store in memory, without crashes of the disk: many
// short lives.
func TestSim(t *testing.T) {
	t.Parallel()
	simulate(t, tier.Pick(2000, 100), func(seed uint64) (settings, source) {
		rng := rand.New(rand.NewPCG(seed, 1))
		return randomSettings(rng), random(rng, *stepsFlag, false)
	})
}

// TestSimCrash runs the core on a disk that loses, at random moments or at every
// batch boundary, what was not synced.
func TestSimCrash(t *testing.T) {
	t.Parallel()
	simulate(t, tier.Pick(200, 12), func(seed uint64) (settings, source) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := randomSettings(rng)
		s.onDisk, s.logInMemory = true, rng.IntN(2) == 0
		if seed%2 == 0 {
			return s, crashing(rng, *stepsFlag)
		}
		return s, random(rng, *stepsFlag, true)
	})
}

// randomSettings makes memory so small that lists are refilled all the time.
func randomSettings(rng *rand.Rand) settings {
	window := 1 + rng.IntN(5)
	if rng.IntN(4) == 0 {
		window += 20 // lists long enough to be read by one scan
	}
	work := stepWork(rng)
	timers := 1 + rng.IntN(4)
	if work < 256 {
		timers = 1000 // all that are due go before those who are left over, in the model too
	}
	return settings{
		options: engine.CoreOptions{
			Window: window, Resident: 1 + rng.IntN(16), BodyBytes: 1 + rng.IntN(30),
			Horizon: time.Duration(1+rng.IntN(4)) * time.Second, TimersPerLoad: 1 + rng.IntN(4), TimersPerStep: timers,
			Few: 1 + rng.IntN(4), SweepStep: 1 + rng.IntN(4), GroupWindow: 1 + rng.IntN(3), Groups: 1 + rng.IntN(3),
			Keys: 2 + rng.IntN(8), KeptHolders: 1 + rng.IntN(3), StepWork: work, NamesPerStep: 1 + rng.IntN(6),
			Gated: rng.IntN(4) == 0,
		},
		every: 5, checks: 2,
	}
}

// stepWork is mostly so little that steps leave work over.
func stepWork(rng *rand.Rand) int {
	if rng.IntN(4) == 0 {
		return 256
	}
	return 1 + rng.IntN(3)
}

// simulate makes runs from consecutive seeds and reports the first that fails.
func simulate(t *testing.T, runs int, setup func(seed uint64) (settings, source)) {
	t.Helper()
	runs = max(1, runs/slowdown)
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	for shard := range min(shards, runs) {
		t.Run(fmt.Sprint("shard", shard), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < runs && !t.Failed(); i += shards {
				seed := *seedFlag + uint64(i)
				s, next := setup(seed)
				if trace, err := execute(s, next); err != nil {
					report(t, seed, s, trace, err)
				}
			}
		})
	}
}

// report shows a failed run, made as short as is quickly done.
func report(t *testing.T, seed uint64, s settings, trace []action, err error) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	short, shortErr := shrink(s, trace, err)
	var b strings.Builder
	for _, a := range short {
		fmt.Fprintf(&b, "  %s\n", a)
	}
	t.Errorf("seed %d, step %d of a run with %+v: %v\n\nshrunk to %d steps: %v\n%s\nrepeat with\n"+
		"  go test ./internal/sim -count=1 -run '^%s$' -sim.seed=%d -sim.runs=1 -sim.steps=%d",
		seed, len(trace), s, err, len(short), shortErr, b.String(), name, seed, *stepsFlag)
}
