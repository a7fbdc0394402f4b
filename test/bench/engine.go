package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"millrace/internal/bench"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/pebblestore"
)

// benchEngine measures whole job lives, a push, a fetch and an ack, through the
// engine in this process: what the server could do if the wire cost nothing.
func benchEngine(ctx context.Context, out report, b *wire) error {
	out.printf("\nin one process, %d callers, body of %d bytes, %d runs of %v each, medians:", b.callers, payloadSize,
		b.rounds, b.duration)
	modes := []engine.Durability{engine.DurabilityFsync, engine.DurabilityInterval, engine.DurabilityNone}
	rates := make([][]float64, len(modes))
	batches := make([]float64, len(modes))
	for range b.rounds {
		for i, mode := range modes {
			rate, batch, err := b.lives(ctx, mode)
			if err != nil {
				return fmt.Errorf("%s: %w", mode, err)
			}
			rates[i] = append(rates[i], rate)
			batches[i] = batch
		}
	}
	unsynced := bench.Median(rates[len(modes)-1])
	out.printf("  %-10s %10s %8s %18s", "", "lives/s", "ratio", "commands/commit")
	for i, mode := range modes {
		rate := bench.Median(rates[i])
		out.printf("  %-10s %10.0f %8.2f %18.1f", mode, rate, rate/unsynced, batches[i])
	}
	return nil
}

// lives runs one engine on a fresh store and returns job lives per second and how
// many commands shared a commit.
func (b *wire) lives(ctx context.Context, mode engine.Durability) (rate, batch float64, err error) {
	tmp, err := os.MkdirTemp(b.dir, "millrace-engine-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary directory
	st, err := pebblestore.Open(pebblestore.Options{Dir: filepath.Join(tmp, "data")})
	if err != nil {
		return 0, 0, err
	}
	e, err := engine.Open(engine.Options{
		Store: st, Durability: mode, SyncInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Seed: 1,
	})
	if err != nil {
		return 0, 0, errors.Join(err, st.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, b.duration)
	defer cancel()
	counts := make([]int, b.callers)
	errs := make([]error, b.callers)
	var running sync.WaitGroup
	began := time.Now()
	for i := range b.callers {
		running.Go(func() { counts[i], errs[i] = liveOn(ctx, e) })
	}
	running.Wait()
	took := time.Since(began)
	stats := e.Stats()
	e.Drain()
	if err := errors.Join(errors.Join(errs...), e.Close(), st.Close()); err != nil {
		return 0, 0, err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / took.Seconds(), float64(stats.Commands) / float64(max(1, stats.Commits)), nil
}

// liveOn pushes, fetches and acks, one after the other, until ctx ends, and counts.
func liveOn(ctx context.Context, e *engine.Engine) (count int, err error) {
	const namespace, queue = "default", "q"
	caller := e.NewCaller()
	holder := e.NewHolder()
	push := &job.Push{Spec: job.Spec{
		Namespace: namespace, Queue: queue, Type: "t", Numbered: true,
		Body: []byte(strings.Repeat("x", payloadSize)), BodyKind: job.BodyBytes,
	}}
	fetch := &job.Fetch{
		Namespace: namespace, Queues: []string{queue}, Max: 1, Wait: job.WaitForever,
		Holder: holder, Exclusive: true, OnEnd: job.EndFail,
	}
	// A life that has begun is finished: ctx is looked at in between only.
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		if r := caller.Do(whole, push); r[0].Err != nil {
			return count, r[0].Err
		}
		r := caller.Do(whole, fetch)
		if r[0].Err != nil {
			return count, r[0].Err
		}
		ack := &job.Ack{Ref: job.ByID(namespace, queue, r[0].Jobs[0].ID), By: holder, Need: job.NeedHeld}
		if r := caller.Do(whole, ack); r[0].Err != nil {
			return count, r[0].Err
		}
		count++
	}
	return count, nil
}
