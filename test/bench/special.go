package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/internal/bench"
)

// specials measures what is asked of single protocols besides their rates.
func (b *wire) specials(ctx context.Context) error {
	special, wanted := list(b.special), list(b.protocols)
	if slices.Contains(special, scenarioPaced) {
		if err := b.pacedTrips(ctx, wanted); err != nil {
			return fmt.Errorf("paced: %w", err)
		}
	}
	if slices.Contains(special, "wakeup") {
		if err := b.wakeups(ctx, wanted); err != nil {
			return fmt.Errorf("wakeup: %w", err)
		}
	}
	if !slices.Contains(wanted, bench.Tarantool.Name) {
		return nil
	}
	if slices.Contains(special, "pipelined") {
		if err := b.pipelined(ctx); err != nil {
			return fmt.Errorf("pipelined: %w", err)
		}
	}
	if slices.Contains(special, "subqueues") {
		if err := b.subqueues(ctx); err != nil {
			return fmt.Errorf("subqueues: %w", err)
		}
	}
	return nil
}

// pacedTrips measures how long a job is on its way at half of the highest rate, which it looks for first.
func (b *wire) pacedTrips(ctx context.Context, wanted []string) error {
	b.out.heading("from push to fetch at half of the maximum rate")
	b.out.printf("%d producers and as many workers. The maximum is that of round trips; at half of it pushes are due "+
		"at fixed times, from which the latencies count. "+
		"What the machine itself makes of such a load shows the ceiling, with pushes and their answers alone: it "+
		"does not deliver what was pushed.\n", b.paced)
	t := b.out.table("protocol", "server", "maximum jobs/s", "jobs/s", "p50", "p99", "p99.9")
	servers := append([]string{ceiling}, list(b.modes)...)
	return b.eachProtocol(ctx, wanted, servers, func(name string, targets []*target) error {
		most, found, err := b.halfRate(ctx, targets)
		if err != nil {
			return err
		}
		for i, f := range found {
			t.row(name, targets[i].name, rate(most[i].Rate), rate(f.Rate), f.P50, f.P99, f.P999)
		}
		return nil
	})
}

// eachProtocol starts servers of each protocol, the ceiling or ours in some durability, and does something to them.
func (b *wire) eachProtocol(
	ctx context.Context, wanted, servers []string, do func(name string, targets []*target) error,
) error {
	for _, name := range wanted {
		p, err := bench.Find(name)
		if err != nil {
			return err
		}
		targets, err := b.start(ctx, p, servers)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = do(name, targets)
		stopAll(targets)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// halfRate measures the highest rates, and then what half of them gives.
func (b *wire) halfRate(ctx context.Context, targets []*target) (most, half []figures, err error) {
	do := func(scenario string, i int) load {
		if targets[i].nothing {
			scenario = scenarioPush
		}
		return load{scenario: scenario, conns: b.paced, duration: b.duration}
	}
	most, err = b.rotateEach(ctx, targets, func(i int) load { return do(scenarioRoundTrip, i) })
	if err != nil {
		return nil, nil, err
	}
	half, err = b.rotateEach(ctx, targets, func(i int) load {
		l := do(scenarioPaced, i)
		l.rate = most[i].Rate / 2
		return l
	})
	return most, half, err
}

// wakeups measures how soon a waiting fetch has a job that is pushed. The server that does nothing
// lets no fetch wait.
func (b *wire) wakeups(ctx context.Context, wanted []string) error {
	b.out.heading("from a push to a fetch that waits for it")
	t := b.out.table("protocol", "server", "wake-ups", "p50", "p99", "p99.9")
	return b.eachProtocol(ctx, wanted, list(b.modes), func(name string, targets []*target) error {
		found, err := b.rotate(ctx, targets, load{scenario: "wakeup", duration: b.duration})
		if err != nil {
			return err
		}
		for i, f := range found {
			t.row(name, targets[i].name, fmt.Sprint(f.Jobs), f.P50, f.P99, f.P999)
		}
		return nil
	})
}

// fewConns is how many connections the figures of Tarantool want.
const fewConns = 8

// pipelined measures bulks over few connections.
func (b *wire) pipelined(ctx context.Context) error {
	targets, err := b.start(ctx, bench.Tarantool, append([]string{ceiling}, list(b.modes)...))
	if err != nil {
		return err
	}
	defer stopAll(targets)
	found, err := b.rotate(ctx, targets, load{scenario: "bulk", conns: fewConns, duration: b.duration})
	if err != nil {
		return err
	}
	b.out.heading("%s: %d %s on each of %d connections", bench.Tarantool.Name, bulkSize, bench.Tarantool.Bulk, fewConns)
	t := b.out.table("server", "tasks/s", "of ceiling", "p50", "p99", "p99.9", "CPU per task")
	for i, f := range found {
		t.row(targets[i].name, rate(f.Rate), ratio(f.Rate/found[0].Rate), f.P50, f.P99, f.P999, f.CPU)
	}
	return nil
}

const (
	busyKeys = 10               // sub-queues
	fillTime = 10 * time.Minute // is enough to fill them
)

// subqueues compares how a tube with busy sub-queues drains with how a plain one does.
func (b *wire) subqueues(ctx context.Context) error {
	modes := list(b.modes)
	if len(modes) == 0 {
		return nil
	}
	b.out.heading("%s: %d sub-queues of %d tasks each, drained for at most %v over %d connections, %s",
		bench.Tarantool.Name, busyKeys, b.tasks, b.drain, fewConns, modes[0])
	t := b.out.table("tube", "filled/s", "drained/s", "of plain", "p50", "p99", "p99.9", "tasks taken")
	var plain float64
	for _, keys := range []int{0, busyKeys} {
		filled, drained, err := b.fillAndDrain(ctx, modes[0], keys)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d sub-queues", keys)
		if keys == 0 {
			name, plain = "plain fifo", drained.Rate
		}
		t.row(name, rate(filled.Rate), rate(drained.Rate), ratio(drained.Rate/plain), drained.P50, drained.P99,
			drained.P999, fmt.Sprint(drained.Jobs))
	}
	return nil
}

// fillAndDrain fills a tube, lets the server come to rest and drains it, with one task at a time per
// connection.
func (b *wire) fillAndDrain(ctx context.Context, mode string, keys int) (filled, drained figures, err error) {
	targets, err := b.start(ctx, bench.Tarantool, []string{mode})
	if err != nil {
		return filled, drained, err
	}
	defer stopAll(targets)
	l := load{queue: "busy", conns: fewConns, keys: keys, tasks: busyKeys * b.tasks}
	l.scenario, l.duration = "fill", fillTime
	if filled, err = b.measure(ctx, targets[0], l); err != nil {
		return filled, drained, fmt.Errorf("fill: %w", err)
	}
	l.scenario, l.duration = "drain", b.drain
	drained, err = b.measure(ctx, targets[0], l)
	return filled, drained, err
}
