package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// specials measures what is asked of single protocols besides their rates.
func (b *bench) specials(ctx context.Context) error {
	special, wanted := list(b.special), list(b.protocols)
	if slices.Contains(special, "wakeup") {
		if err := b.wakeups(ctx, wanted); err != nil {
			return fmt.Errorf("wakeup: %w", err)
		}
	}
	if !slices.Contains(wanted, tarantool.name) {
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

// wakeups measures how soon a waiting fetch has a job that is pushed. The server that does nothing
// lets no fetch wait.
func (b *bench) wakeups(ctx context.Context, wanted []string) error {
	b.out.heading("from a push to a fetch that waits for it")
	t := b.out.table("protocol", "server", "wake-ups", "p50", "p99", "p99.9")
	for _, name := range wanted {
		p, err := findProtocol(name)
		if err != nil {
			return err
		}
		targets, err := b.start(ctx, p, list(b.modes))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found, err := b.rotate(ctx, targets, load{protocol: name, scenario: "wakeup", duration: b.duration})
		stopAll(targets)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, f := range found {
			t.row(name, targets[i].name, fmt.Sprint(f.Jobs), f.P50, f.P99, f.P999)
		}
	}
	return nil
}

// fewConns is how many connections the figures of Tarantool want.
const fewConns = 8

// pipelined measures bulks over few connections.
func (b *bench) pipelined(ctx context.Context) error {
	targets, err := b.start(ctx, &tarantool, append([]string{ceiling}, list(b.modes)...))
	if err != nil {
		return err
	}
	defer stopAll(targets)
	found, err := b.rotate(ctx, targets, load{protocol: tarantool.name, scenario: "bulk", conns: fewConns, duration: b.duration})
	if err != nil {
		return err
	}
	b.out.heading("%s: %s on each of %d connections", tarantool.name, tarantool.bulk, fewConns)
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
func (b *bench) subqueues(ctx context.Context) error {
	modes := list(b.modes)
	if len(modes) == 0 {
		return nil
	}
	b.out.heading("%s: %d sub-queues of %d tasks each, drained for at most %v over %d connections, %s", tarantool.name, busyKeys, b.tasks, b.drain, fewConns, modes[0])
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
		t.row(name, rate(filled.Rate), rate(drained.Rate), ratio(drained.Rate/plain), drained.P50, drained.P99, drained.P999, fmt.Sprint(drained.Jobs))
	}
	return nil
}

// fillAndDrain fills a tube, lets the server come to rest and drains it, with one task at a time per
// connection.
func (b *bench) fillAndDrain(ctx context.Context, mode string, keys int) (filled, drained figures, err error) {
	targets, err := b.start(ctx, &tarantool, []string{mode})
	if err != nil {
		return filled, drained, err
	}
	defer stopAll(targets)
	l := load{protocol: tarantool.name, queue: "busy", conns: fewConns, keys: keys, tasks: busyKeys * b.tasks}
	l.scenario, l.duration = "fill", fillTime
	if filled, err = b.measure(ctx, targets[0], l); err != nil {
		return filled, drained, fmt.Errorf("fill: %w", err)
	}
	l.scenario, l.duration = "drain", b.drain
	drained, err = b.measure(ctx, targets[0], l)
	return filled, drained, err
}
