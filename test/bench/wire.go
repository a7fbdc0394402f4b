package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// wire says what is measured.
type wire struct {
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
	paced     int
	size      int // of a payload; zero is the usual
	profiles  string
	keep      *[]socketFigures // gets what is measured; nil: it is printed only

	out   report
	tmp   string
	self  string // this very program
	bin   string // the server
	ports []string
}

func wireFlags(f *flag.FlagSet) *wire {
	b := &wire{}
	f.StringVar(&b.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&b.callers, "callers", 256, "callers of the engine in this process")
	f.IntVar(&b.rounds, "rounds", 3, "alternating runs, of which the median counts")
	f.DurationVar(&b.duration, "duration", time.Second, "length of one run")
	f.StringVar(&b.protocols, "protocols", protocolNames(), "which protocols, separated by commas")
	f.StringVar(&b.scenarios, "scenarios", "push,roundtrip,bulk", "what is done over them")
	f.StringVar(&b.conns, "conns", "1,32,128", "over how many connections, for round trips of each side")
	f.StringVar(&b.modes, "modes", "fsync,interval,none", "in which durabilities")
	f.StringVar(&b.special, "special", "paced,wakeup,pipelined,subqueues", "which special figures")
	f.IntVar(&b.tasks, "tasks", 150_000, "subqueues: tasks in each of them")
	f.DurationVar(&b.drain, "drain", 10*time.Second, "subqueues: how long they are drained")
	f.IntVar(&b.paced, "paced", 32, "paced: producers, and as many workers")
	f.StringVar(&b.profiles, "profiles", "", "a directory for a processor profile of each run of ours")
	return b
}

// protocolNames lists all protocols, separated by commas.
func protocolNames() string {
	var names []string
	for _, p := range bench.Protocols() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ",")
}

// list splits what a flag names.
func list(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
}

// prepare makes a directory and builds the server. The directory is to be removed.
func (b *wire) prepare(ctx context.Context, out report) (remove func(), err error) {
	b.out = out
	if b.tmp, err = os.MkdirTemp(b.dir, "millrace-bench-"); err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(b.tmp) } // a temporary directory
	if b.self, err = os.Executable(); err == nil {
		b.bin, err = harness.Build(ctx, b.tmp)
	}
	if err == nil {
		b.ports, err = harness.FreePorts(ctx, b.bin)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// benchWire measures the server over its sockets, in its durabilities, against a server that does
// nothing.
func benchWire(ctx context.Context, out report, b *wire) error {
	remove, err := b.prepare(ctx, out)
	if err != nil {
		return err
	}
	defer remove()
	out.printf("\nOver a socket: payloads of %d bytes, one request at a time per connection; round trips have as "+
		"many workers as producers and at most %d jobs in flight per producer; "+
		"a bulk is %d jobs. Each figure is the median of %d runs of %v, the servers taking turns. The ceiling is a "+
		"server that answers with constants. Latencies are of one request, in round trips of fetch and ack; "+
		"processor time and allocations are those of the server process until it is at rest "+
		"again.", payloadSize, perProducer, bulkSize, b.rounds, b.duration)
	for _, name := range list(b.protocols) {
		p, err := bench.Find(name)
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
func (b *wire) measureProtocol(ctx context.Context, p *bench.Protocol) error {
	if len(list(b.scenarios)) == 0 {
		return nil
	}
	targets, err := b.start(ctx, p, append([]string{ceiling}, list(b.modes)...))
	if err != nil {
		return err
	}
	defer stopAll(targets)
	b.out.heading("%s", p.Name)
	b.out.printf("A bulk of %d jobs is %s.\n", bulkSize, p.Bulk)
	t := b.out.table("", "connections", "server", "jobs/s", "of ceiling", "p50", "p99", "p99.9", "CPU per job",
		"allocations per job")
	err = b.sweep(ctx, targets, func(scenario string, conns int, found []figures) {
		for i, f := range found {
			if b.keep != nil {
				*b.keep = append(*b.keep, socketFigures{
					Protocol: p.Name, Scenario: scenario, Conns: conns, Server: targets[i].name,
					OfCeiling: f.Rate / found[0].Rate,
					figures:   f, CPUPerJob: bench.Seconds(f.CPU), AllocsPerJob: f.Allocs,
				})
			}
			t.row(scenario, conns, targets[i].name, rate(f.Rate), ratio(f.Rate/found[0].Rate), f.P50, f.P99, f.P999,
				f.CPU, allocs(f.Allocs))
		}
	})
	if err != nil {
		return err
	}
	return b.memory(targets)
}

// sweep measures all scenarios over all numbers of connections.
func (b *wire) sweep(
	ctx context.Context, targets []*target, done func(scenario string, conns int, found []figures),
) error {
	for _, scenario := range list(b.scenarios) {
		for _, text := range list(b.conns) {
			conns, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("connections: %w", err)
			}
			found, err := b.rotate(ctx, targets, load{
				scenario: scenario, conns: conns, size: cmp.Or(b.size, payloadSize), duration: b.duration,
			})
			if err != nil {
				return err
			}
			done(scenario, conns, found)
		}
	}
	return nil
}

// memory prints the most memory that the servers have had.
func (b *wire) memory(targets []*target) error {
	var parts []string
	for _, t := range targets {
		var peak uint64
		for _, pid := range t.pids {
			m, err := harness.ReadMemory(pid)
			if err != nil {
				return err
			}
			peak += m.Peak
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB", t.name, peak>>20))
	}
	b.out.printf("\nMemory at most: %s.", strings.Join(parts, ", "))
	return nil
}
