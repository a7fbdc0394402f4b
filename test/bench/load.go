package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/test/harness"
)

// payloadSize is the size of a job's payload as JSON text, in bytes.
const payloadSize = 100

// perProducer is how many jobs a producer may have in flight in a round trip.
const perProducer = 4

// load says what the load generator does.
type load struct {
	addr     string
	scenario string
	queue    string
	conns    int
	duration time.Duration
}

func loadFlags(f *flag.FlagSet) *load {
	l := &load{}
	f.StringVar(&l.addr, "addr", "", "address of the server")
	f.StringVar(&l.scenario, "scenario", "produce", "produce or roundtrip")
	f.StringVar(&l.queue, "queue", "q", "queue")
	f.IntVar(&l.conns, "conns", 32, "connections that push, and as many that work in a round trip")
	f.DurationVar(&l.duration, "duration", 3*time.Second, "how long")
	return l
}

// figures is what a run of the load generator found.
type figures struct {
	Jobs int           `json:"jobs"`
	Rate float64       `json:"rate"` // jobs per second
	P50  time.Duration `json:"p50"`  // of one push, or of fetch and ack
	P99  time.Duration `json:"p99"`
}

// runLoad runs one scenario and prints its figures as JSON.
func runLoad(ctx context.Context, l *load) error {
	ctx, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	var f figures
	var err error
	switch l.scenario {
	case "produce":
		f, err = l.produce(ctx)
	case "roundtrip":
		f, err = l.roundtrip(ctx)
	default:
		err = fmt.Errorf("unknown scenario %q", l.scenario)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// produce pushes over all connections, one at a time on each.
func (l *load) produce(ctx context.Context) (figures, error) {
	payload := strings.Repeat("x", payloadSize-2)
	return l.drive(l.conns, func(_ int, c *harness.Client, done func(time.Time)) error {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := c.Push(l.queue, payload); err != nil {
				return err
			}
			done(began)
		}
		return nil
	})
}

// roundtrip has as many workers as producers; a bound on the jobs in flight makes
// it a steady state.
func (l *load) roundtrip(ctx context.Context) (figures, error) {
	payload := strings.Repeat("x", payloadSize-2)
	room := make(chan struct{}, perProducer*l.conns)
	return l.drive(2*l.conns, func(i int, c *harness.Client, done func(time.Time)) error {
		if i < l.conns {
			for {
				select {
				case room <- struct{}{}:
				case <-ctx.Done():
					return nil
				}
				if _, err := c.Push(l.queue, payload); err != nil {
					return err
				}
			}
		}
		for ctx.Err() == nil {
			began := time.Now()
			j, ok, err := c.Fetch(l.queue, 500*time.Millisecond)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := c.Ack(j.ID); err != nil {
				return err
			}
			done(began)
			// The ceiling delivers jobs that nobody pushed.
			select {
			case <-room:
			default:
			}
		}
		return nil
	})
}

// drive connects, runs all clients until they return and counts what they report
// as done.
func (l *load) drive(conns int, run func(i int, c *harness.Client, done func(began time.Time)) error) (figures, error) {
	clients := make([]*harness.Client, conns)
	for i := range clients {
		c, err := harness.Dial(l.addr)
		if err != nil {
			return figures{}, err
		}
		defer c.Close() //nolint:errcheck // nothing is in flight
		clients[i] = c
	}
	latencies := make([][]time.Duration, conns)
	errs := make([]error, conns)
	var last atomic.Int64
	var running sync.WaitGroup
	start := time.Now()
	for i, c := range clients {
		running.Go(func() {
			errs[i] = run(i, c, func(began time.Time) { latencies[i] = append(latencies[i], time.Since(began)) })
			last.Store(int64(time.Since(start)))
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return figures{}, err
	}
	all := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	if len(all) == 0 {
		return figures{}, errors.New("nothing was done")
	}
	// Clients that wait in a fetch outlive the time given by up to its timeout.
	took := min(time.Duration(last.Load()), l.duration)
	return figures{
		Jobs: len(all), Rate: float64(len(all)) / took.Seconds(),
		P50: all[len(all)/2], P99: all[len(all)*99/100],
	}, nil
}
