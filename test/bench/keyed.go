package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/bench"
	client "millrace/internal/wire"
)

// keyed says how the fail-over of a cluster with many keyed jobs is measured. Every job of Faktory has a key, its jid,
// and a push must not find that in use: a new leader has to know all keys.
type keyed struct {
	group
	jobs          int
	pushers       int
	before, after time.Duration
	least         float64
}

func keyedFlags(f *flag.FlagSet) *keyed {
	k := &keyed{}
	f.StringVar(&k.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&k.jobs, "jobs", 1_000_000, "jobs with keys that are there before")
	f.IntVar(&k.pushers, "conns", 32, "connections that push one job at a time")
	f.DurationVar(&k.before, "before", 10*time.Second, "how long they push before the leader is killed")
	f.DurationVar(&k.after, "after", 15*time.Second, "how long they push afterwards")
	f.Float64Var(&k.least, "least", 0.8, "the part of the rate before that must be reached again")
	return k
}

// benchKeyed fills a cluster of three nodes with keyed jobs, kills the leader, and prints how many pushes were
// acknowledged through the other two nodes in each second before and after.
func benchKeyed(ctx context.Context, out report, k *keyed) error {
	if k.before < time.Second || k.after < time.Second || k.pushers < 1 {
		return errors.New("before and after must be a second at least, and conns one")
	}
	remove, err := k.prepare(ctx, out)
	if err != nil {
		return err
	}
	defer remove()
	defer k.killAll()
	if err := k.form(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := k.fill(ctx); err != nil {
		return err
	}
	leader, err := k.leader(ctx)
	if err != nil {
		return err
	}
	out.printf("\n%d jobs with keys were pushed to three nodes in %v.", k.jobs, time.Since(began).Round(time.Second))
	first := k.other(leader)
	addrs := []string{first.Addrs[bench.Faktory.Name], k.other(first).Addrs[bench.Faktory.Name]}
	counts := make([]atomic.Int64, int((k.before+k.after)/time.Second))
	var pushing sync.WaitGroup
	lasts, end := context.WithCancel(ctx)
	defer end()
	began = time.Now()
	for i := range k.pushers {
		pushing.Go(func() {
			_ = k.pushOn(lasts, addrs[i%len(addrs)], 1, func(n int) bool {
				if at := int(time.Since(began) / time.Second); at < len(counts) {
					counts[at].Add(int64(n))
				}
				return lasts.Err() == nil
			}) // it ends when it is told to
		})
	}
	<-time.After(time.Until(began.Add(k.before)))
	leader.Kill()
	<-time.After(time.Until(began.Add(k.before + k.after)))
	end()
	pushing.Wait()
	return k.tell(counts)
}

// tell prints the rates. It fails if what was there before is not reached again.
func (k *keyed) tell(counts []atomic.Int64) error {
	killed := int(k.before / time.Second)
	seconds := make([]float64, killed)
	for i := range seconds {
		seconds[i] = float64(counts[i].Load())
	}
	usual := bench.Median(seconds)
	t := k.out.table("second", "pushes/s", "of the rate before")
	reached := 0
	for i := range counts {
		n := float64(counts[i].Load())
		if i >= killed && reached == 0 && n >= k.least*usual {
			reached = i - killed + 1
		}
		t.row(fmt.Sprintf("%+d", i-killed), rate(n), ratio(n/math.Max(usual, 1)))
	}
	if reached == 0 {
		return fmt.Errorf("pushes do not reach %.2f of their rate within %v of the kill", k.least, k.after)
	}
	k.out.printf("\nThe leader was killed at second 0. %.2f of the rate before (median %.0f/s) is reached in second "+
		"%d after the kill.", k.least, usual, reached)
	return nil
}

// fill pushes the jobs that are there before, in bulks.
func (k *keyed) fill(ctx context.Context) error {
	const fillers = 4
	var left atomic.Int64
	left.Store(int64(k.jobs))
	errs := make(chan error, fillers)
	for i := range fillers {
		go func() {
			errs <- k.pushOn(ctx, k.nodes[i%len(k.nodes)].Addrs[bench.Faktory.Name], bulkSize, func(n int) bool {
				return left.Add(-int64(n)) > 0
			})
		}()
	}
	var failed error
	for range fillers {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

// pushOn pushes jobs until goesOn, which is told how many were acknowledged, returns false. It connects again when its
// connection is closed.
func (k *keyed) pushOn(ctx context.Context, addr string, bulk int, goesOn func(n int) bool) error {
	jobs := make([]client.Job, bulk)
	for i := range jobs {
		jobs[i].Body = bench.Blank(bench.SizeMin)
	}
	const patience = time.Minute
	for since := time.Now(); ; {
		c, err := bench.Faktory.Dial(bench.DialOptions{Addr: addr})
		if err == nil {
			for err == nil {
				if err = errors.Join(c.SetDeadline(time.Now().Add(patience)), c.Push("keyed", jobs...)); err == nil {
					since = time.Now()
					if !goesOn(bulk) {
						return c.Close()
					}
				}
			}
			_ = c.Close() // it has failed
		}
		if time.Since(since) > patience {
			return fmt.Errorf("no push was acknowledged within %v: %w", patience, err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
