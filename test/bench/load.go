package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"millrace/internal/bench"
)

const (
	// payloadSize is the size of a job's payload, a JSON string, in bytes.
	payloadSize = 100
	// bulkSize is how many jobs a bulk has.
	bulkSize = 64
	// perProducer is how many jobs a producer may have in flight in a round trip.
	perProducer = 4
	// lossPatience is how long a job may take until it counts as lost.
	lossPatience = 30 * time.Second
)

// payload is what jobs carry that need no number.
var payload = bench.Blank(payloadSize)

// load says what the load generator does.
type load struct {
	protocol string
	addr     string
	scenario string
	queue    string
	conns    int
	size     int
	duration time.Duration
	rate     float64
	nothing  bool
	keys     int
	tasks    int
}

func loadFlags(f *flag.FlagSet) *load {
	l := &load{}
	f.StringVar(&l.protocol, "protocol", "masenko", "protocol")
	f.StringVar(&l.addr, "addr", "", "address of the server")
	f.StringVar(&l.scenario, "scenario", scenarioPush, "push, bulk, roundtrip, paced, wakeup, fill or drain")
	f.StringVar(&l.queue, "queue", "q", "queue")
	f.IntVar(&l.conns, "conns", 32, "connections that push, and as many that work in a round trip")
	f.IntVar(&l.size, "size", payloadSize, "size of a payload in bytes")
	f.DurationVar(&l.duration, "duration", time.Second, "how long")
	f.Float64Var(&l.rate, "rate", 0, "paced: jobs per second")
	f.BoolVar(&l.nothing, "nothing", false, "the server is one that does nothing")
	f.IntVar(&l.keys, "keys", 0, "fill and drain: sub-queues; 0 is a plain queue")
	f.IntVar(&l.tasks, "tasks", 0, "fill: how many tasks")
	return l
}

// args returns the arguments that say the same. What is not needed is left out: peers have a load generator of their
// own, which does not know all of it.
func (l *load) args() []string {
	args := []string{
		"load", "-protocol", l.protocol, "-addr", l.addr, "-scenario", l.scenario, "-queue", l.queue,
		"-conns", fmt.Sprint(l.conns), "-size", fmt.Sprint(cmp.Or(l.size, payloadSize)),
		"-duration", l.duration.String(),
	}
	if l.rate > 0 {
		args = append(args, "-rate", fmt.Sprint(l.rate))
	}
	if l.nothing {
		args = append(args, "-nothing")
	}
	if l.keys > 0 || l.tasks > 0 {
		args = append(args, "-keys", fmt.Sprint(l.keys), "-tasks", fmt.Sprint(l.tasks))
	}
	return args
}

// The scenarios that are plain load. The others are in load_special.go.
const (
	scenarioPush      = "push"
	scenarioBulk      = "bulk"
	scenarioRoundTrip = "roundtrip"
	scenarioPaced     = "paced" // round trips at a rate
)

// figures is what a run of the load generator found.
type figures struct {
	Jobs int     `json:"jobs"`
	Rate float64 `json:"rate"` // jobs per second
	// Of one push or bulk, of fetch and ack, of push to fetch if paced, or of a wake-up.
	P50  bench.Seconds `json:"p50"`
	P99  bench.Seconds `json:"p99"`
	P999 bench.Seconds `json:"p999"`

	CPU    time.Duration `json:"-"` // of the server, per job
	Allocs float64       `json:"-"` // of the server, per job; negative if it does not tell
}

// runLoad runs one scenario and prints its figures as JSON.
func runLoad(ctx context.Context, l *load) error {
	p, err := bench.Find(l.protocol)
	if err != nil {
		return err
	}
	f, err := l.run(ctx, p)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (l *load) run(ctx context.Context, p *bench.Protocol) (figures, error) {
	o := bench.Options{
		Protocol: p, Addr: l.addr, Queue: l.queue, Producers: l.conns, Batch: 1,
		Sizes:    []int{cmp.Or(l.size, payloadSize)},
		Duration: l.duration, InFlight: perProducer, Patience: lossPatience, Unchecked: l.nothing,
	}
	switch l.scenario {
	case scenarioPush:
		o.Keep, o.Rate = true, l.rate
	case scenarioBulk:
		o.Keep, o.Batch = true, bulkSize
	case scenarioRoundTrip:
		o.Workers = l.conns
	case scenarioPaced:
		o.Workers, o.Rate = l.conns, l.rate
	default:
		return l.runSpecial(p)
	}
	r, err := bench.Run(ctx, o)
	if err != nil {
		return figures{}, err
	}
	if r.Lost > 0 {
		return figures{}, fmt.Errorf("%d jobs were lost", r.Lost)
	}
	switch l.scenario {
	case scenarioRoundTrip:
		return summary(int(r.Fetched), r.FetchRate, r.Cycle), nil //nolint:gosec // far less
	case scenarioPaced:
		return summary(int(r.Fetched), r.FetchRate, r.PushToFetch), nil //nolint:gosec // far less
	}
	return summary(int(r.Pushed), r.PushRate, r.Push), nil //nolint:gosec // far less
}

func summary(jobs int, rate float64, l bench.Latency) figures {
	return figures{Jobs: jobs, Rate: rate, P50: l.P50, P99: l.P99, P999: l.P999}
}

// tally is what a special scenario has done.
type tally struct {
	start     time.Time
	last      time.Time // when the last operation was done
	jobs      int
	latencies bench.Histogram
}

// done counts jobs whose operation began at a time and has just ended.
func (n *tally) done(jobs int, began time.Time) {
	n.last = time.Now()
	n.jobs += jobs
	n.latencies.Add(n.last.Sub(began))
}

func (n *tally) figures() (figures, error) {
	if n.jobs == 0 {
		return figures{}, errors.New("nothing was done")
	}
	return summary(n.jobs, float64(n.jobs)/n.last.Sub(n.start).Seconds(), n.latencies.Latency()), nil
}
