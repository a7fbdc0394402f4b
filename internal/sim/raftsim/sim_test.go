package raftsim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/test/tier"
)

var (
	seedFlag = flag.Uint64("sim.seed", 1, "seed of the first run")
	runsFlag = flag.Int("sim.runs", 0, "number of runs; zero is what the test does by itself")
	timeFlag = flag.Duration("sim.time", 15*time.Second,
		"how long things go wrong in one run, by the clock of its bubble")
)

// shards is how many parts the runs are dealt out to, so that they use all cores.
const shards = 4

// TestSimRaft simulates whole lifetimes of clusters.
func TestSimRaft(t *testing.T) {
	t.Parallel()
	runs := max(1, tier.Pick(50, 8)/slowdown)
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
					r := lifetime(t, seed, &fault{}, *timeFlag)
					if r.err != nil {
						report(t, r)
					}
					mu.Lock()
					seen.add(&r.seen)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d lifetimes: %+v", runs, seen)
	if runs >= 50 && !t.Failed() {
		for what, n := range map[string]int{
			"terms": seen.terms, "kills": seen.kills, "copies": seen.copies, "resumed copies": seen.resumed,
			"cuts": seen.cuts, "hangs": seen.hangs, "pauses": seen.pauses,
			"transfers": seen.transfers, "unknown answers": seen.unknown, "pushes": seen.answered[opPush],
			"firm deliveries": seen.answered[opFirm],
			"reads":           seen.answered[opRead], "refusals": seen.refused,
		} {
			if n < 20 {
				t.Errorf("only %d %s", n, what)
			}
		}
		if seen.wipes == 0 {
			t.Error("no node has lost its disk")
		}
	}
}

// lifetime simulates a cluster in a bubble of its own.
func lifetime(t *testing.T, seed uint64, f *fault, length time.Duration) (r *run) {
	t.Helper()
	r = &run{
		t: t, number: seed, fault: f, rng: rand.New(rand.NewPCG(seed, 2)),
		ids: map[job.ID]string{}, holders: map[job.Holder]bool{},
	}
	// Where something was found goroutines may be left that wait for a node which has stopped.
	defer func() {
		if p := recover(); p != nil && r.err == nil {
			panic(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		r.t, r.began = t, time.Now()
		r.over, r.found = make(chan struct{}), make(chan struct{})
		r.net = newNetwork(rand.New(rand.NewPCG(seed, 3)))
		r.truth = newTruth(version{data: memstore.New()})
		r.live(length)
	})
	return r
}

// report shows a failed run.
func report(t *testing.T, r *run) {
	t.Helper()
	trace := r.trace[max(0, len(r.trace)-150):]
	t.Errorf("seed %d: %v\n\nthe end of it:\n  %s\nrepeat with (the seed decides what goes wrong when, but not the "+
		"order of goroutines: it may take several runs)\n"+
		"  go test ./internal/sim/raftsim -count=20 -run '^TestSimRaft$' -sim.seed=%d -sim.runs=1 -sim.time=%v",
		r.number, r.err, strings.Join(trace, "\n  "), r.number, *timeFlag)
}
