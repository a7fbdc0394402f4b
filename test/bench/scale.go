package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// scale says how large the large backlog is.
type scale struct {
	dir       string
	only      string
	jobs      int
	body      int
	scheduled int
	small     int
	queues    int
	cycles    int
	cycle     int
	fair      fair

	out     report
	bin     string
	ports   []string
	version string // of the server
	found   backlogFigures
}

func scaleFlags(f *flag.FlagSet) *scale {
	s := &scale{}
	f.StringVar(&s.dir, "dir", os.TempDir(), "where the data goes")
	f.StringVar(&s.only, "only", "backlog,cluster,queues,cycles,fair,disk", "which parts, separated by commas")
	f.IntVar(&s.jobs, "jobs", 10_000_000, "ready jobs in one queue")
	f.IntVar(&s.body, "body", 200, "size of a job's payload in bytes")
	f.IntVar(&s.scheduled, "scheduled", -1, "scheduled jobs beside them; negative: a tenth of the jobs")
	f.IntVar(&s.small, "small", 100_000, "jobs in the small queue that the rates are compared with")
	f.IntVar(&s.queues, "queues", 100_000, "queues with one job each")
	f.IntVar(&s.cycles, "cycles", 1000, "times that a queue is filled and drained")
	f.IntVar(&s.cycle, "cycle", 10_000, "jobs in each such cycle")
	f.IntVar(&s.fair.large, "large", 1_000_000, "fair: jobs of the large tenant")
	f.IntVar(&s.fair.small, "tenants", 999, "fair: small tenants beside it")
	f.IntVar(&s.fair.each, "each", 10, "fair: jobs of each of them")
	f.IntVar(&s.fair.rounds, "rounds", 3, "fair: alternating runs, of which the median counts")
	return s
}

// benchScale runs the parts, each on a data directory of its own.
func benchScale(ctx context.Context, out report, s *scale) error {
	if s.scheduled < 0 {
		s.scheduled = s.jobs / 10
	}
	if s.body < numberSize {
		return fmt.Errorf("a payload of %d bytes has no room for its number: -body is at least %d", s.body, numberSize)
	}
	s.out = out
	tmp, err := os.MkdirTemp(s.dir, "millrace-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary directory
	if s.bin, err = harness.Build(ctx, tmp); err != nil {
		return err
	}
	if s.ports, err = harness.FreePorts(ctx, s.bin); err != nil {
		return err
	}
	if s.version, err = harness.Version(ctx, s.bin); err != nil {
		return err
	}
	parts := []struct {
		name string
		run  func(ctx context.Context, dir string) error
	}{
		{"backlog", s.backlog},
		{"cluster", s.cluster},
		{"queues", s.manyQueues},
		{"cycles", s.manyCycles},
		{"fair", s.fairness},
		{"disk", s.fullDisk},
	}
	for _, p := range parts {
		if !slices.Contains(strings.Split(s.only, ","), p.name) {
			continue
		}
		out.printf("\n%s", p.name)
		dir := filepath.Join(tmp, p.name)
		if err := p.run(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// backlog fills a queue far beyond what memory should hold, restarts the server on
// it, and drains it in order.
func (s *scale) backlog(ctx context.Context, dir string) error {
	r, err := s.start(ctx, filepath.Join(dir, "small"))
	if err != nil {
		return err
	}
	defer r.Kill()
	smallFill, err := r.fill("small", s.small)
	if err != nil {
		return err
	}
	smallDrain, err := r.drain("small", 0, s.small)
	if err != nil {
		return err
	}
	s.out.printf("  small queue of %d jobs: filled at %.0f/s, drained at %.0f/s", s.small, smallFill, smallDrain)
	if err := errors.Join(r.memory("after the small queue"), r.stop()); err != nil {
		return err
	}

	large := filepath.Join(dir, "large")
	if r, err = s.start(ctx, large); err != nil {
		return err
	}
	defer func() { r.Kill() }()
	fill, err := r.fill("large", s.jobs)
	if err != nil {
		return err
	}
	s.out.printf("  %d ready jobs of %d bytes: filled at %.0f/s, %.2f of the small queue's rate", s.jobs, s.body, fill,
		fill/smallFill)
	s.found = backlogFigures{Jobs: s.jobs, Body: s.body, Fill: fill, SmallFill: smallFill, SmallDrain: smallDrain}
	if err := errors.Join(s.look(r), r.memory("after filling")); err != nil {
		return err
	}
	if err := s.schedule(r); err != nil {
		return err
	}
	if err := errors.Join(idle(ctx, r.Pid()), r.memory("standing")); err != nil {
		return err
	}
	if r, err = s.restarts(ctx, r, large); err != nil {
		return err
	}
	drain, err := r.drain("large", 1, s.jobs-1)
	if err != nil {
		return err
	}
	m, err := harness.ReadMemory(r.Pid())
	if err != nil {
		return err
	}
	s.found.Drain, s.found.DrainPeak = drain, m.Peak
	s.out.printf("  drained in order at %.0f/s, %.2f of the small queue's rate", drain, drain/smallDrain)
	if err := errors.Join(r.memory("after draining"), idle(ctx, r.Pid()), r.memory("at rest")); err != nil {
		return err
	}
	info, err := r.client.Do("INFO")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"name":"later","ready":0,"delayed":%d,"to_ack":0`, s.scheduled); s.scheduled > 0 &&
		!strings.Contains(info, want) {
		return fmt.Errorf("INFO lacks %s: %s", want, info)
	}
	return r.stop()
}

// look notes the memory that filling has taken at most, and the space on disk.
func (s *scale) look(r *running) error {
	m, err := harness.ReadMemory(r.Pid())
	if err != nil {
		return err
	}
	size, err := harness.DirSize(r.dir)
	s.found.Peak, s.found.Disk = m.Peak, size
	return err
}

// schedule adds jobs that are due from tomorrow on, not in the order of their times.
func (s *scale) schedule(r *running) error {
	if s.scheduled == 0 {
		return nil
	}
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	rate, err := r.transactions("schedule", s.scheduled, func(i int) {
		at := tomorrow.Add(time.Duration(i*7919%86400) * time.Second)
		r.client.Queue(`PUSH {"name":"t","queue":"later","execute_at":"` + at.Format(time.RFC3339) + `","payload":"` +
			r.numbered(i) + `"}`)
	})
	if err != nil {
		return err
	}
	s.out.printf("  %d scheduled jobs: filled at %.0f/s", s.scheduled, rate)
	return r.memory("after scheduling")
}

// restarts measures how long the server takes until it delivers the first job of
// the queue large, after a proper stop and after a kill. It returns the server,
// with that job acked.
func (s *scale) restarts(ctx context.Context, r *running, dir string) (*running, error) {
	if err := r.stop(); err != nil {
		return r, err
	}
	for _, after := range []string{"a stop", "a kill"} {
		began := time.Now()
		next, err := s.start(ctx, dir)
		if err != nil {
			return r, err
		}
		r = next
		j, ok, err := r.client.Fetch("large", time.Second)
		if err != nil {
			return r, err
		}
		took := time.Since(began)
		if !ok || j.Payload != r.numbered(0) {
			return r, fmt.Errorf("the first job after %s is %q", after, j.Payload[:min(numberSize, len(j.Payload))])
		}
		s.out.printf("  restart after %s: listening after %v, first job after %v", after,
			r.Ready.Round(time.Millisecond), took.Round(time.Millisecond))
		if err := r.memory("after the restart"); err != nil {
			return r, err
		}
		if after == "a kill" {
			s.found.AfterKill = bench.Seconds(r.Ready)
			return r, r.client.Ack(j.ID)
		}
		s.found.AfterStop = bench.Seconds(r.Ready)
		// The job is held: the restart gives it back to its place.
		r.Kill()
	}
	return r, nil
}

// manyQueues makes many queues with one job each.
func (s *scale) manyQueues(ctx context.Context, dir string) error {
	r, err := s.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { r.Kill() }()
	if err := r.memory("empty"); err != nil {
		return err
	}
	rate, err := r.transactions("make", s.queues,
		func(i int) { r.client.QueuePush("queue-"+strconv.Itoa(i), r.numbered(i)) })
	if err != nil {
		return err
	}
	s.out.printf("  %d queues with one job each: made at %.0f/s", s.queues, rate)
	if err := errors.Join(r.memory("full"), idle(ctx, r.Pid()), r.memory("at rest"), r.stop()); err != nil {
		return err
	}
	if r, err = s.start(ctx, dir); err != nil {
		return err
	}
	s.out.printf("  restart: listening after %v", r.Ready.Round(time.Millisecond))
	for _, i := range []int{0, s.queues / 2, s.queues - 1} {
		j, ok, err := r.client.Fetch("queue-"+strconv.Itoa(i), time.Second)
		if err != nil || !ok || j.Payload != r.numbered(i) {
			return fmt.Errorf("queue %d: %q, %v, %w", i, j.Payload, ok, err)
		}
	}
	return errors.Join(r.memory("after the restart"), r.stop())
}

// manyCycles fills and drains a queue many times: the directory must not grow with
// what has passed through, also if one old job stays.
func (s *scale) manyCycles(ctx context.Context, dir string) error {
	for _, old := range []bool{false, true} {
		name := "without an old job"
		if old {
			name = "with an old job"
		}
		r, err := s.start(ctx, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")))
		if err != nil {
			return err
		}
		defer r.Kill()
		if old {
			if err := oldJobs(r); err != nil {
				return err
			}
		}
		p := r.progress("cycle", s.cycles)
		for i := range s.cycles {
			if _, err := r.fill("cycle", s.cycle); err != nil {
				return err
			}
			if _, err := r.drain("cycle", 0, s.cycle); err != nil {
				return err
			}
			if err := p.at(i + 1); err != nil {
				return err
			}
		}
		rate := float64(s.cycles*s.cycle) / time.Since(p.began).Seconds()
		s.out.printf("  %d cycles of %d jobs %s: %.0f lives/s", s.cycles, s.cycle, name, rate)
		if err := errors.Join(r.memory("at the end"), idle(ctx, r.Pid()), r.memory("at rest"), r.stop()); err != nil {
			return err
		}
		size, err := harness.DirSize(r.dir)
		if err != nil {
			return err
		}
		s.out.printf("  stopped: %.1f MiB on disk", float64(size)/(1<<20))
	}
	return nil
}

// oldJobs leaves one ready job in a queue of its own and one scheduled job in the
// queue that the cycles use.
func oldJobs(r *running) error {
	if _, err := r.client.Push("old", r.numbered(0)); err != nil {
		return err
	}
	at := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	_, err := r.client.Do(`PUSH {"name":"t","queue":"cycle","execute_at":"` + at + `","payload":"` +
		r.numbered(0) + `"}`)
	return err
}

// fullDisk fills a small file system: pushes are refused in time, acks work, and
// the space comes back.
func (s *scale) fullDisk(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	unmount, err := mountSmall(dir)
	if err != nil {
		s.out.printf("  not measured: mounting a small file system is not permitted here: %v", err)
		return nil
	}
	defer unmount()
	r, err := s.start(ctx, dir) // with the default floor
	if err != nil {
		return err
	}
	defer func() { r.Kill() }()
	pushed := 0
	var no *harness.RefusedError
	for err == nil {
		if _, err = r.client.Push("q", random(pushed, 16<<10)); err == nil {
			pushed++
		}
	}
	if !errors.As(err, &no) {
		return fmt.Errorf("push %d: %w\n%s", pushed, err, r.Stderr())
	}
	s.out.printf("  refused after %d jobs of 16 KiB on a disk of 512 MiB: %v", pushed, no)
	for i := range pushed {
		j, ok, err := r.client.Fetch("q", time.Second)
		if err != nil || !ok {
			return fmt.Errorf("fetch %d of %d: %v, %w", i, pushed, ok, err)
		}
		if err := r.client.Ack(j.ID); err != nil {
			return fmt.Errorf("ack %d of %d: %w", i, pushed, err)
		}
	}
	began := time.Now()
	if err := untilAccepted(ctx, r.client); err != nil {
		return err
	}
	s.out.printf("  all %d acked on the full disk; pushes accepted again after %v", pushed,
		time.Since(began).Round(time.Millisecond))
	return r.stop()
}

// untilAccepted pushes until the server has noticed the space that it has again.
func untilAccepted(ctx context.Context, c *harness.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.Push("q", "again")
		if _, no := errors.AsType[*harness.RefusedError](err); !no {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pushes are still refused: %w", err)
		}
	}
}
