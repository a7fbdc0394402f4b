package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"millrace/test/harness"
)

// bench says what is measured.
type bench struct {
	dir      string
	conns    int
	callers  int
	rounds   int
	duration time.Duration
}

func benchFlags(f *flag.FlagSet) *bench {
	b := &bench{}
	f.StringVar(&b.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&b.conns, "conns", 32, "connections that push, and as many that work in a round trip")
	f.IntVar(&b.callers, "callers", 256, "callers of the engine in this process")
	f.IntVar(&b.rounds, "rounds", 3, "alternating runs, of which the median counts")
	f.DurationVar(&b.duration, "duration", 3*time.Second, "length of one run")
	return b
}

// target is a server to be measured.
type target struct {
	name   string
	server *harness.Server
	rates  map[string][]figures // by scenario
}

// benchWire measures the server over its socket, in two durabilities, against the
// ceiling, taking turns.
func benchWire(ctx context.Context, out report, b *bench) error {
	tmp, err := os.MkdirTemp(b.dir, "millrace-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary directory
	bin, err := harness.Build(ctx, tmp)
	if err != nil {
		return err
	}
	ports, err := harness.FreePorts(ctx, bin)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	targets := []*target{{name: "ceiling"}, {name: "fsync"}, {name: "interval"}}
	for _, t := range targets {
		o := harness.Options{Bin: self, Args: []string{"ceiling"}}
		if t.name != "ceiling" {
			o = harness.Options{Bin: bin, Env: ports, Args: serveArgs(filepath.Join(tmp, t.name), "--store-durability", t.name)}
		}
		if t.server, err = harness.Start(ctx, o); err != nil {
			return err
		}
		defer t.server.Kill()
		t.rates = map[string][]figures{}
	}
	out.printf("\nover the socket (Masenko), %d connections, payload of %d bytes, %d runs of %v each, medians:",
		b.conns, payloadSize, b.rounds, b.duration)
	scenarios := []string{"produce", "roundtrip"}
	for round := range b.rounds {
		for _, scenario := range scenarios {
			for _, t := range targets {
				f, err := b.loadProcess(ctx, self, t.server.Addr, scenario, "q"+strconv.Itoa(round)+scenario)
				if err != nil {
					return fmt.Errorf("%s, %s: %w\n%s", t.name, scenario, err, t.server.Stderr())
				}
				t.rates[scenario] = append(t.rates[scenario], f)
				// What a server still has to compact must not disturb the next.
				if err := idle(ctx, t.server.Pid()); err != nil {
					return err
				}
			}
		}
	}
	out.printf("  %-10s %-9s %10s %8s %12s %12s %8s", "", "", "jobs/s", "ratio", "p50", "p99", "peak")
	for _, scenario := range scenarios {
		var ceiling float64
		for _, t := range targets {
			rate := median(each(t.rates[scenario], func(f figures) float64 { return f.Rate }))
			if t.name == "ceiling" {
				ceiling = rate
			}
			memory, err := harness.ReadMemory(t.server.Pid())
			if err != nil {
				return err
			}
			out.printf("  %-10s %-9s %10.0f %8.2f %12v %12v %5d MiB", scenario, t.name, rate, rate/ceiling,
				median(each(t.rates[scenario], func(f figures) time.Duration { return f.P50 })).Round(time.Microsecond),
				median(each(t.rates[scenario], func(f figures) time.Duration { return f.P99 })).Round(time.Microsecond),
				memory.Peak>>20)
		}
	}
	return nil
}

func serveArgs(dir string, args ...string) []string {
	return append([]string{"serve", "--data-dir", dir, "--log-level", "warn"}, args...)
}

func each[T any](list []figures, f func(figures) T) []T {
	out := make([]T, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// loadProcess runs the load generator as a process of its own.
func (b *bench) loadProcess(ctx context.Context, self, addr, scenario, queue string) (figures, error) {
	cmd := exec.CommandContext(ctx, self, "load", "-addr", addr, "-scenario", scenario, "-queue", queue, //nolint:gosec // this very program
		"-conns", strconv.Itoa(b.conns), "-duration", b.duration.String())
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return figures{}, err
	}
	var f figures
	return f, json.Unmarshal(text, &f)
}

// idle returns when the process has used next to no processor time for a while,
// or after a minute.
func idle(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	const window = 300 * time.Millisecond
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
