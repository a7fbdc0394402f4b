package clustersim

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"millrace/test/tier"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 1, "seed of the first run")
	runsFlag  = flag.Int("sim.runs", 0, "number of runs; zero is what the test does by itself")
	stepsFlag = flag.Int("sim.steps", 400, "steps in one run")
)

// shards is how many parts the runs are dealt out to, so that they use all cores.
const shards = 4

// TestSimCluster simulates whole lifetimes of clusters.
func TestSimCluster(t *testing.T) {
	t.Parallel()
	runs := tier.Pick(2000, 400) / slowdown
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	var mu sync.Mutex
	var seen sights
	t.Run("lifetimes", func(t *testing.T) {
		for shard := range min(shards, runs) {
			t.Run(fmt.Sprint("shard", shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < runs && !t.Failed(); i += shards {
					seed := *seedFlag + uint64(i)
					s, err := lifetime(seed, &fault{}, *stepsFlag, nil)
					if err != nil {
						report(t, seed, err)
					}
					mu.Lock()
					seen.add(s)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d lifetimes: %+v", runs, seen)
	if runs >= 1000 && !t.Failed() {
		for what, n := range map[string]int{
			"unknown answers": seen.unknown, "terms": seen.terms, "crashes": seen.crashes, "copies": seen.copies,
			"void entries":           seen.voids,
			"batches cut by a crash": seen.cut, "commands of lost terms": seen.stale,
			"steps with two leaders": seen.both, "full pipelines": seen.deep,
			"deliveries from queues with limits": seen.limited,
			"changes":                            seen.answered[kindChange], "deliveries": seen.answered[kindDelivery],
			"refusals": seen.answered[kindRefusal], "reads": seen.answered[kindRead],
		} {
			if n < 100 {
				t.Errorf("only %d %s", n, what)
			}
		}
	}
}

// TestSimRepeats asserts that a seed decides everything, so that what was found once is found again.
func TestSimRepeats(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		var first string
		for range 2 {
			r, err := newRun(seed, &fault{})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.live(300); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%+v %+v", r.log[r.end()].state, r.seen)
			if first == "" {
				first = got
			}
			if got != first {
				t.Fatalf("seed %d ends with\n%s and with\n%s", seed, first, got)
			}
		}
	}
}

// lifetime simulates a cluster.
func lifetime(seed uint64, f *fault, steps int, trace *[]string) (*sights, error) {
	r, err := newRun(seed, f)
	if err != nil {
		return &sights{}, err
	}
	r.trace = trace
	err = guard(func() error { return r.live(steps) })
	return &r.seen, err
}

// guard turns a panic into an error.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// report shows a failed run, as short as a run from its seed can be.
func report(t *testing.T, seed uint64, err error) {
	t.Helper()
	var trace []string
	_, again := lifetime(seed, &fault{}, *stepsFlag, &trace)
	if len(trace) > 120 {
		trace = trace[len(trace)-120:]
	}
	t.Errorf("seed %d: %v\n\nthe end of it:\n  %s\nand again: %v\nrepeat with\n"+
		"  go test ./internal/sim/clustersim -count=1 -run '^TestSimCluster$' -sim.seed=%d -sim.runs=1 -sim.steps=%d",
		seed, err, strings.Join(trace, "\n  "), again, seed, *stepsFlag)
}
