package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// perProducer is how many jobs a producer may have in flight in a round trip.
const perProducer = 4

// load says what the load generator does.
type load struct {
	protocol string
	addr     string
	scenario string
	queue    string
	conns    int
	duration time.Duration
	keys     int
	tasks    int
}

func loadFlags(f *flag.FlagSet) *load {
	l := &load{}
	f.StringVar(&l.protocol, "protocol", "masenko", "protocol")
	f.StringVar(&l.addr, "addr", "", "address of the server")
	f.StringVar(&l.scenario, "scenario", "push", "push, bulk, roundtrip, wakeup, fill or drain")
	f.StringVar(&l.queue, "queue", "q", "queue")
	f.IntVar(&l.conns, "conns", 32, "connections that push, and as many that work in a round trip")
	f.DurationVar(&l.duration, "duration", time.Second, "how long")
	f.IntVar(&l.keys, "keys", 0, "fill and drain: sub-queues; 0 is a plain queue")
	f.IntVar(&l.tasks, "tasks", 0, "fill: how many tasks")
	return l
}

func (l *load) args() []string {
	return []string{
		"load", "-protocol", l.protocol, "-addr", l.addr, "-scenario", l.scenario, "-queue", l.queue, "-conns", fmt.Sprint(l.conns),
		"-duration", l.duration.String(), "-keys", fmt.Sprint(l.keys), "-tasks", fmt.Sprint(l.tasks),
	}
}

// figures is what a run of the load generator found.
type figures struct {
	Jobs int           `json:"jobs"`
	Rate float64       `json:"rate"` // jobs per second
	P50  time.Duration `json:"p50"`  // of one push or bulk, of fetch and ack, or of a wake-up
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	CPU  time.Duration `json:"-"` // of the server, per job
}

// runLoad runs one scenario and prints its figures as JSON.
func runLoad(l *load) error {
	p, err := findProtocol(l.protocol)
	if err != nil {
		return err
	}
	f, err := l.run(p)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (l *load) run(p *protocol) (figures, error) {
	dial := func() (client, error) { return p.dial(l.addr, l.queue) }
	switch l.scenario {
	case "push":
		return l.drive(dial, slices.Repeat([]actor{pusher(1)}, l.conns))
	case "bulk":
		return l.drive(dial, slices.Repeat([]actor{pusher(bulkSize)}, l.conns))
	case "roundtrip":
		return l.drive(dial, l.pairs())
	case "wakeup":
		return l.wakeup(dial)
	case "fill":
		return l.subqueues(l.fill)
	case "drain":
		return l.subqueues(drain)
	}
	return figures{}, fmt.Errorf("unknown scenario %q", l.scenario)
}

// actor is what one connection does until its deadline. It tells of each operation how many jobs
// it was and when it began.
type actor func(ctx context.Context, c client, done func(jobs int, began time.Time)) error

// pusher pushes n jobs at a time.
func pusher(n int) actor {
	return func(_ context.Context, c client, done func(int, time.Time)) error {
		for {
			began := time.Now()
			var err error
			if n == 1 {
				err = c.push()
			} else {
				err = c.pushMany(n)
			}
			if err != nil {
				return err
			}
			done(n, began)
		}
	}
}

// pairs are as many workers as producers. A bound on the jobs in flight makes it a steady state.
func (l *load) pairs() []actor {
	room := make(chan struct{}, perProducer*l.conns)
	produce := func(ctx context.Context, c client, _ func(int, time.Time)) error {
		for {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			if err := c.push(); err != nil {
				return err
			}
		}
	}
	work := func(ctx context.Context, c client, done func(int, time.Time)) error {
		for {
			began := time.Now()
			ok, err := c.fetch()
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := c.ack(); err != nil {
				return err
			}
			done(1, began)
			// A job that was fetched is in flight, so this waits only for the server that does nothing, which
			// delivers jobs that nobody has pushed.
			select {
			case <-room:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return append(slices.Repeat([]actor{produce}, l.conns), slices.Repeat([]actor{work}, l.conns)...)
}

// count is what one connection has done.
type count struct {
	jobs      int
	latencies []time.Duration
	last      time.Time // when the last operation was done
	err       error
}

// drive is the measuring loop: it connects, lets every actor run until the time is up and
// counts what was done by then.
func (l *load) drive(dial func() (client, error), actors []actor) (figures, error) {
	clients := make([]client, len(actors))
	for i := range clients {
		c, err := dial()
		if err != nil {
			return figures{}, err
		}
		defer c.Close() //nolint:errcheck // nothing that counts is in flight
		clients[i] = c
	}
	start := time.Now()
	end := start.Add(l.duration)
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	counts := make([]count, len(actors))
	var running sync.WaitGroup
	for i, c := range clients {
		if err := c.SetDeadline(end); err != nil {
			return figures{}, err
		}
		running.Go(func() {
			n := &counts[i]
			n.err = actors[i](ctx, c, func(jobs int, began time.Time) {
				n.last = time.Now()
				n.jobs += jobs
				n.latencies = append(n.latencies, n.last.Sub(began))
			})
			if errors.Is(n.err, os.ErrDeadlineExceeded) {
				n.err = nil
			}
		})
	}
	running.Wait()
	return summary(start, counts)
}

// errNothingDone means that the time was too short for a single job.
var errNothingDone = errors.New("nothing was done")

// summary makes the figures of what was done since start.
func summary(start time.Time, counts []count) (figures, error) {
	var f figures
	var all []time.Duration
	var errs []error
	last := start
	for i := range counts {
		n := &counts[i]
		f.Jobs += n.jobs
		all = append(all, n.latencies...)
		errs = append(errs, n.err)
		if n.last.After(last) {
			last = n.last
		}
	}
	if err := errors.Join(errs...); err != nil {
		return figures{}, err
	}
	if f.Jobs == 0 {
		return figures{}, errNothingDone
	}
	slices.Sort(all)
	f.Rate = float64(f.Jobs) / last.Sub(start).Seconds()
	f.P50, f.P99, f.P999 = all[len(all)/2], all[len(all)*99/100], all[len(all)*999/1000]
	return f, nil
}
