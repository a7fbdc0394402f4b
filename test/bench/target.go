package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// ceiling is the name of the server that does nothing.
const ceiling = "ceiling"

// target is a server to be measured.
type target struct {
	name     string
	protocol *bench.Protocol
	addr     string
	web      string // of ours: where its metrics are
	nothing  bool   // the ceiling
	load     string // the program that puts load on it; empty is this one
	pids     []int  // its processes
	stop     func() // ends it and removes its data
	stderr   func() string
	runs     int
}

// start starts servers for one protocol: the ceiling, or ours in one durability.
func (b *wire) start(ctx context.Context, p *bench.Protocol, names []string) (targets []*target, err error) {
	for _, name := range names {
		t, err := b.startOne(ctx, p, name)
		if err != nil {
			stopAll(targets)
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func (b *wire) startOne(ctx context.Context, p *bench.Protocol, name string) (*target, error) {
	if env := "MILLRACE_" + strings.ToUpper(p.Listener()) + "_ADDR=127.0.0.1:0"; !slices.Contains(b.ports, env) {
		return nil, errors.New("the server has no such listener")
	}
	o := harness.Options{Bin: b.self, Args: []string{"ceiling", "-protocol", p.Name}, Listener: p.Name}
	remove := func() {}
	if name != ceiling {
		dir, err := os.MkdirTemp(b.tmp, p.Name+"-"+name+"-")
		if err != nil {
			return nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) } // the directory around it goes, too
		o.Bin, o.Env, o.Listener, o.Also = b.bin, b.ports, p.Listener(), []string{"web"}
		o.Args = serveArgs(filepath.Join(dir, "data"), "--store-durability", name)
	}
	s, err := harness.Start(ctx, o)
	if err != nil {
		remove()
		return nil, err
	}
	t := &target{
		name: name, protocol: p, addr: s.Addr, nothing: name == ceiling,
		pids: []int{s.Pid()}, stderr: s.Stderr,
	}
	if !t.nothing {
		t.web = "http://" + s.Addrs["web"]
	}
	t.stop = func() {
		s.Kill()
		remove()
	}
	return t, nil
}

// stopAll ends servers, whose data nobody needs.
func stopAll(targets []*target) {
	for _, t := range targets {
		t.stop()
	}
}

func serveArgs(dir string, args ...string) []string {
	return append([]string{"serve", "--data-dir", dir, "--log-level", "warn"}, args...)
}

// rotate runs a load against all targets, taking turns, and returns the medians in the order of the
// targets.
func (b *wire) rotate(ctx context.Context, targets []*target, l load) ([]figures, error) {
	return b.rotateEach(ctx, targets, func(int) load { return l })
}

// rotateEach is rotate with a load of its own for each target.
func (b *wire) rotateEach(ctx context.Context, targets []*target, loads func(i int) load) ([]figures, error) {
	runs := make([][]figures, len(targets))
	for range b.rounds {
		for i, t := range targets {
			l := loads(i)
			f, err := b.measure(ctx, t, l)
			if err != nil {
				return nil, fmt.Errorf("%s, %d connections, %s: %w\n%s", l.scenario, l.conns, t.name, err, t.stderr())
			}
			runs[i] = append(runs[i], f)
		}
	}
	out := make([]figures, len(targets))
	for i := range runs {
		out[i] = medians(runs[i])
	}
	return out, nil
}

// measure runs a load against one target as a process of its own, on a queue of its own unless it
// names one.
func (b *wire) measure(ctx context.Context, t *target, l load) (figures, error) {
	t.runs++
	l.protocol, l.addr, l.nothing = t.protocol.Name, t.addr, t.nothing
	if l.queue == "" {
		l.queue = "q" + strconv.Itoa(t.runs)
	}
	mallocs, err := t.mallocs(ctx)
	if err != nil {
		return figures{}, err
	}
	before, err := t.cpu()
	if err != nil {
		return figures{}, err
	}
	profiled := b.profile(ctx, t, l)
	cmd := exec.CommandContext(ctx, cmp.Or(t.load, b.self), l.args()...) //nolint:gosec // this very program, or a peer's
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err = errors.Join(err, <-profiled); err != nil {
		return figures{}, err
	}
	var f figures
	if err := json.Unmarshal(text, &f); err != nil {
		return figures{}, err
	}
	// What a server still has to compact belongs to its jobs, and must not disturb the next.
	for _, pid := range t.pids {
		if err := idle(ctx, pid); err != nil {
			return figures{}, err
		}
	}
	after, err := t.cpu()
	if err != nil {
		return figures{}, err
	}
	f.CPU = (after - before) / time.Duration(f.Jobs)
	total, err := mallocs()
	f.Allocs = total / float64(f.Jobs)
	return f, err
}

// cpu returns the processor time of all its processes.
func (t *target) cpu() (sum time.Duration, err error) {
	for _, pid := range t.pids {
		d, err := harness.CPUTime(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// mallocs returns a function that tells how many allocations there have been since. They are negative if the
// server does not tell.
func (t *target) mallocs(ctx context.Context) (since func() (float64, error), err error) {
	if t.web == "" {
		return func() (float64, error) { return -1, nil }, nil
	}
	// The second question tells what a question costs.
	first, err := bench.ReadServer(ctx, bench.Web{URL: t.web})
	if err != nil {
		return nil, err
	}
	second, err := bench.ReadServer(ctx, bench.Web{URL: t.web})
	if err != nil {
		return nil, err
	}
	return func() (float64, error) {
		last, err := bench.ReadServer(ctx, bench.Web{URL: t.web})
		cost := second.Mallocs - first.Mallocs
		return max(0, last.Mallocs-second.Mallocs-cost), err
	}, nil
}

// medians returns the median of each figure.
func medians(runs []figures) figures {
	return figures{
		Jobs:   middle(runs, func(f figures) int { return f.Jobs }),
		Rate:   middle(runs, func(f figures) float64 { return f.Rate }),
		P50:    bench.Seconds(middle(runs, func(f figures) time.Duration { return time.Duration(f.P50) })),
		P99:    bench.Seconds(middle(runs, func(f figures) time.Duration { return time.Duration(f.P99) })),
		P999:   bench.Seconds(middle(runs, func(f figures) time.Duration { return time.Duration(f.P999) })),
		CPU:    middle(runs, func(f figures) time.Duration { return f.CPU }),
		Allocs: middle(runs, func(f figures) float64 { return f.Allocs }),
	}
}

func middle[T int | float64 | time.Duration](runs []figures, f func(figures) T) T {
	out := make([]T, 0, len(runs))
	for _, v := range runs {
		out = append(out, f(v))
	}
	return bench.Median(out)
}

// idle returns when the process has used next to no processor time for a while,
// or after a minute.
func idle(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	const window = 200 * time.Millisecond
	tick := time.NewTicker(window)
	defer tick.Stop()
	last, err := harness.CPUTime(pid)
	if err != nil {
		return err
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := harness.CPUTime(pid)
		if err != nil {
			return err
		}
		if now-last <= window/10 {
			return nil
		}
		last = now
	}
}
