package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
)

// tenants are the groups of a queue: a large one, number 0, and small ones. Their jobs are numbered tenant by tenant.
type tenants struct {
	large int // jobs of the large one
	small int // how many small ones there are
	each  int // jobs of each of these
}

func (t *tenants) jobs() int { return t.large + t.small*t.each }

// of returns the tenant of a job, and which of its jobs it is.
func (t *tenants) of(job int) (tenant, at int) {
	if job < t.large {
		return 0, job
	}
	return 1 + (job-t.large)/t.each, (job - t.large) % t.each
}

// turn returns the tenant of a job, and how many jobs are given out before it at least if the tenants take turns.
func (t *tenants) turn(job int) (tenant, before int) {
	tenant, at := t.of(job)
	return tenant, min(at, t.large) + t.small*min(at, t.each)
}

// fair says how the fairness of a queue is measured, and what was found.
type fair struct {
	tenants

	rounds int
	found  fairFigures
}

// fairFigures is what the small tenants of a fair queue get beside a large one, and what fairness costs.
type fairFigures struct {
	Large  int `json:"large_jobs"`
	Small  int `json:"small_tenants"`
	Each   int `json:"jobs_each"`
	Rounds int `json:"rounds"`
	// How long jobs of small tenants wait while the queue is drained: beside the large one, and alone.
	P50      bench.Seconds `json:"p50"`
	P99      bench.Seconds `json:"p99"`
	AloneP50 bench.Seconds `json:"alone_p50"`
	AloneP99 bench.Seconds `json:"alone_p99"`
	// How fast all of it is drained, and a plain queue with the same jobs.
	Drain float64 `json:"drain_rate"`
	Plain float64 `json:"plain_drain_rate"`
}

// WaitRatio is how much longer small tenants wait beside the large one.
func (f *fairFigures) WaitRatio() float64 { return float64(f.P99) / float64(f.AloneP99) }

// DrainRatio is the part of a plain queue's rate that a fair queue has.
func (f *fairFigures) DrainRatio() float64 { return f.Drain / f.Plain }

// fairness measures a fair queue of all tenants, a plain one, and a fair one of the small tenants alone: in turns, each
// on a server of its own. All jobs are there before the first is fetched.
func (s *scale) fairness(ctx context.Context, dir string) error {
	f := &s.fair
	alone := tenants{small: f.small, each: f.each}
	plain := tenants{large: f.jobs()}
	var beside, apart []bench.Latency
	var drain, plainDrain []float64
	for round := range f.rounds {
		waits, rate, err := s.drainTenants(ctx, filepath.Join(dir, "fair"+strconv.Itoa(round)), &f.tenants, true)
		if err != nil {
			return fmt.Errorf("all tenants: %w", err)
		}
		beside, drain = append(beside, waits), append(drain, rate)
		if _, rate, err = s.drainTenants(ctx, filepath.Join(dir, "plain"+strconv.Itoa(round)), &plain,
			false); err != nil {
			return fmt.Errorf("a plain queue: %w", err)
		}
		plainDrain = append(plainDrain, rate)
		if waits, _, err = s.drainTenants(ctx, filepath.Join(dir, "alone"+strconv.Itoa(round)), &alone,
			true); err != nil {
			return fmt.Errorf("small tenants alone: %w", err)
		}
		apart = append(apart, waits)
	}
	p50 := func(l bench.Latency) bench.Seconds { return l.P50 }
	p99 := func(l bench.Latency) bench.Seconds { return l.P99 }
	f.found = fairFigures{
		Large: f.large, Small: f.small, Each: f.each, Rounds: f.rounds,
		P50: medianOf(beside, p50), P99: medianOf(beside, p99),
		AloneP50: medianOf(apart, p50), AloneP99: medianOf(apart, p99),
		Drain: bench.Median(drain), Plain: bench.Median(plainDrain),
	}
	s.out.printf("%s", f.found.table())
	return nil
}

func medianOf(waits []bench.Latency, of func(bench.Latency) bench.Seconds) bench.Seconds {
	values := make([]time.Duration, 0, len(waits))
	for _, l := range waits {
		values = append(values, time.Duration(of(l)))
	}
	return bench.Seconds(bench.Median(values))
}

// drainTenants fills a queue of a new server, fair or not, lets the server come to rest, and drains the queue.
func (s *scale) drainTenants(ctx context.Context, dir string, t *tenants, fair bool) (bench.Latency, float64, error) {
	r, err := s.start(ctx, dir)
	if err != nil {
		return bench.Latency{}, 0, err
	}
	defer r.Kill()
	d := &draining{r: r, queue: "tenants", n: t.jobs()}
	if fair {
		d.tenants = t
		//nolint:gosec // the server that was built
		cmd := exec.CommandContext(ctx, s.bin, "queue", "fair", d.queue, "on", "--api", "http://"+r.Addrs["web"])
		if text, err := cmd.CombinedOutput(); err != nil {
			return bench.Latency{}, 0, fmt.Errorf("%w: %s", err, text)
		}
	}
	_, err = r.transactions("fill", d.n, func(i int) {
		if !fair {
			r.client.QueuePush(d.queue, r.numbered(i))
			return
		}
		tenant, _ := t.of(i)
		r.client.Queue(fmt.Sprintf(`PUSH {"name":"t","queue":%q,"group":"tenant-%d","payload":%q}`, d.queue, tenant,
			r.numbered(i)))
	})
	if err == nil {
		err = idle(ctx, r.Pid())
	}
	if err != nil {
		return bench.Latency{}, 0, err
	}
	rate, err := d.run()
	if err != nil {
		return bench.Latency{}, 0, err
	}
	return d.waits.Latency(), rate, errors.Join(r.stop(), os.RemoveAll(dir))
}

// table makes the table of fairness.
func (f *fairFigures) table() string {
	var b strings.Builder
	t := report{&b}.table(fmt.Sprintf("%s small tenants with %d jobs each in one fair queue", grouped(f.Small), f.Each),
		fmt.Sprintf("beside one with %s jobs", grouped(f.Large)), "alone", "ratio")
	t.row("median wait of their jobs", f.P50, f.AloneP50, ratio(float64(f.P50)/float64(f.AloneP50)))
	t.row("p99 wait of their jobs", f.P99, f.AloneP99, ratio(f.WaitRatio()))
	report{&b}.printf("\nAll of it is drained at %s jobs/s, which is %s of the rate of a plain queue "+
		"with the same jobs.",
		rounded(f.Drain), ratio(f.DrainRatio()))
	return b.String()
}
