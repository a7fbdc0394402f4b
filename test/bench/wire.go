package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/test/harness"
)

// bench says what is measured.
type bench struct {
	dir       string
	callers   int
	rounds    int
	duration  time.Duration
	protocols string
	scenarios string
	conns     string
	modes     string
	special   string
	tasks     int
	drain     time.Duration

	out   report
	tmp   string
	self  string // this very program
	bin   string // the server
	ports []string
}

func benchFlags(f *flag.FlagSet) *bench {
	b := &bench{}
	f.StringVar(&b.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&b.callers, "callers", 256, "callers of the engine in this process")
	f.IntVar(&b.rounds, "rounds", 3, "alternating runs, of which the median counts")
	f.DurationVar(&b.duration, "duration", time.Second, "length of one run")
	f.StringVar(&b.protocols, "protocols", "masenko,workq,faktory,tarantool,lmstfy", "which protocols, separated by commas")
	f.StringVar(&b.scenarios, "scenarios", "push,roundtrip,bulk", "what is done over them")
	f.StringVar(&b.conns, "conns", "1,32,128", "over how many connections, for round trips of each side")
	f.StringVar(&b.modes, "modes", "fsync,interval,none", "in which durabilities")
	f.StringVar(&b.special, "special", "wakeup,pipelined,subqueues", "which special figures")
	f.IntVar(&b.tasks, "tasks", 150_000, "tasks in each of the busy sub-queues")
	f.DurationVar(&b.drain, "drain", 10*time.Second, "how long they are drained")
	return b
}

// list splits what a flag names.
func list(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
}

// prepare builds the server.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.bin, err = harness.Build(ctx, b.tmp); err != nil {
		return err
	}
	b.ports, err = harness.FreePorts(ctx, b.bin)
	return err
}

// benchWire measures the server over its sockets, in its durabilities, against a server that does
// nothing.
func benchWire(ctx context.Context, out report, b *bench) (err error) {
	b.out = out
	if b.tmp, err = os.MkdirTemp(b.dir, "millrace-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp) //nolint:errcheck // a temporary directory
	if err := b.prepare(ctx); err != nil {
		return err
	}
	out.printf("\nOver a socket: payloads of %d bytes, one request at a time per connection; round trips have as many workers as producers and at most %d jobs in flight per producer; "+
		"a bulk is %d jobs. Each figure is the median of %d runs of %v, the servers taking turns. The ceiling is a server that answers with constants. Latencies are of one request, in round trips of fetch and ack; "+
		"processor time is that of the server process until it is at rest again.", payloadSize, perProducer, bulkSize, b.rounds, b.duration)
	for _, name := range list(b.protocols) {
		p, err := findProtocol(name)
		if err != nil {
			return err
		}
		if err := b.measureProtocol(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return b.specials(ctx)
}

// measureProtocol measures all scenarios of one protocol and prints its table.
func (b *bench) measureProtocol(ctx context.Context, p *protocol) error {
	if len(list(b.scenarios)) == 0 {
		return nil
	}
	targets, err := b.start(ctx, p, append([]string{ceiling}, list(b.modes)...))
	if err != nil {
		return err
	}
	defer stopAll(targets)
	b.out.heading("%s", p.name)
	b.out.printf("A bulk is %s.\n", p.bulk)
	t := b.out.table("", "connections", "server", "jobs/s", "of ceiling", "p50", "p99", "p99.9", "CPU per job")
	for _, scenario := range list(b.scenarios) {
		for _, text := range list(b.conns) {
			conns, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("connections: %w", err)
			}
			found, err := b.rotate(ctx, targets, load{protocol: p.name, scenario: scenario, conns: conns, duration: b.duration})
			if err != nil {
				return err
			}
			for i, f := range found {
				t.row(scenario, text, targets[i].name, rate(f.Rate), ratio(f.Rate/found[0].Rate), f.P50, f.P99, f.P999, f.CPU)
			}
		}
	}
	return b.memory(targets)
}

// memory prints the most memory that the servers have had.
func (b *bench) memory(targets []*target) error {
	var parts []string
	for _, t := range targets {
		m, err := harness.ReadMemory(t.server.Pid())
		if err != nil {
			return err
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB", t.name, m.Peak>>20))
	}
	b.out.printf("\nMemory at most: %s.", strings.Join(parts, ", "))
	return nil
}

// ceiling is the name of the server that does nothing.
const ceiling = "ceiling"

// target is a server to be measured: the ceiling, or ours in one durability.
type target struct {
	name   string
	dir    string
	server *harness.Server
	runs   int
}

// start starts servers for one protocol.
func (b *bench) start(ctx context.Context, p *protocol, names []string) (targets []*target, err error) {
	if env := "MILLRACE_" + strings.ToUpper(p.name) + "_ADDR=127.0.0.1:0"; !slices.Contains(b.ports, env) {
		return nil, errors.New("the server has no such listener")
	}
	for _, name := range names {
		t := &target{name: name}
		o := harness.Options{Bin: b.self, Args: []string{"ceiling", "-protocol", p.name}, Listener: p.name}
		if name != ceiling {
			if t.dir, err = os.MkdirTemp(b.tmp, p.name+"-"+name+"-"); err != nil {
				return nil, err
			}
			o.Bin, o.Env = b.bin, b.ports
			o.Args = serveArgs(filepath.Join(t.dir, "data"), "--store-durability", name)
		}
		if t.server, err = harness.Start(ctx, o); err != nil {
			stopAll(targets)
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// stopAll ends servers, whose data nobody needs.
func stopAll(targets []*target) {
	for _, t := range targets {
		t.server.Kill()
		if t.dir != "" {
			_ = os.RemoveAll(t.dir) // the directory around it goes, too
		}
	}
}

func serveArgs(dir string, args ...string) []string {
	return append([]string{"serve", "--data-dir", dir, "--log-level", "warn"}, args...)
}

// rotate runs a load against all targets, taking turns, and returns the medians in the order of the
// targets.
func (b *bench) rotate(ctx context.Context, targets []*target, l load) ([]figures, error) {
	runs := make([][]figures, len(targets))
	for range b.rounds {
		for i, t := range targets {
			f, err := b.measure(ctx, t, l)
			if err != nil {
				return nil, fmt.Errorf("%s, %d connections, %s: %w\n%s", l.scenario, l.conns, t.name, err, t.server.Stderr())
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
func (b *bench) measure(ctx context.Context, t *target, l load) (figures, error) {
	t.runs++
	l.addr = t.server.Addr
	if l.queue == "" {
		l.queue = "q" + strconv.Itoa(t.runs)
	}
	before, err := harness.CPUTime(t.server.Pid())
	if err != nil {
		return figures{}, err
	}
	cmd := exec.CommandContext(ctx, b.self, l.args()...) //nolint:gosec // this very program
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return figures{}, err
	}
	var f figures
	if err := json.Unmarshal(text, &f); err != nil {
		return figures{}, err
	}
	// What a server still has to compact belongs to its jobs, and must not disturb the next.
	if err := idle(ctx, t.server.Pid()); err != nil {
		return figures{}, err
	}
	after, err := harness.CPUTime(t.server.Pid())
	f.CPU = (after - before) / time.Duration(f.Jobs)
	return f, err
}

// medians returns the median of each figure.
func medians(runs []figures) figures {
	return figures{
		Jobs: median(each(runs, func(f figures) int { return f.Jobs })),
		Rate: median(each(runs, func(f figures) float64 { return f.Rate })),
		P50:  median(each(runs, func(f figures) time.Duration { return f.P50 })),
		P99:  median(each(runs, func(f figures) time.Duration { return f.P99 })),
		P999: median(each(runs, func(f figures) time.Duration { return f.P999 })),
		CPU:  median(each(runs, func(f figures) time.Duration { return f.CPU })),
	}
}

func each[T any](runs []figures, f func(figures) T) []T {
	out := make([]T, 0, len(runs))
	for _, v := range runs {
		out = append(out, f(v))
	}
	return out
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
