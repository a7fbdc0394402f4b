// Command load puts load on servers whose protocols Millrace does not speak, through the client libraries that people
// use with them. The benchmark starts it in place of its own load generator and reads the same figures.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"millrace/internal/bench"
	"millrace/internal/wire"
)

// protocols are how to connect, by name.
var protocols = map[string]func(bench.DialOptions) (wire.Client, error){
	"nats":            dialNATS,
	"postgres":        dialPostgres,
	"rabbitmq":        dialRabbit("classic"),
	"rabbitmq-quorum": dialRabbit("quorum"),
}

const (
	perProducer = 4                // jobs in flight, as the benchmark's own load has them
	patience    = 30 * time.Second // until a job counts as lost
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return errors.New("the benchmark starts this program: make bench-peers")
	}
	o := bench.Options{Batch: 1, Patience: patience, InFlight: perProducer}
	f := flag.NewFlagSet("load", flag.ExitOnError)
	name := f.String("protocol", "", "protocol")
	scenario := f.String("scenario", "push", "push or roundtrip")
	size := f.Int("size", 100, "of a body")
	f.StringVar(&o.Addr, "addr", "", "address of the server")
	f.StringVar(&o.Queue, "queue", "q", "queue")
	f.IntVar(&o.Producers, "conns", 32, "connections that push, and as many that work in a round trip")
	f.DurationVar(&o.Duration, "duration", time.Second, "how long")
	if err := f.Parse(os.Args[2:]); err != nil { // the first argument is "load", as for the benchmark itself
		return err
	}
	dial := protocols[*name]
	if dial == nil {
		return fmt.Errorf("there is no protocol %q", *name)
	}
	o.Protocol, o.Sizes = &bench.Protocol{Name: *name, Connect: dial}, []int{*size}
	if *scenario == "roundtrip" {
		o.Workers = o.Producers
	} else {
		o.Keep = true
	}
	r, err := bench.Run(context.Background(), o)
	if err != nil {
		return err
	}
	if r.Lost > 0 {
		return errors.New("jobs were lost")
	}
	jobs, rate, took := r.Pushed, r.PushRate, r.Push
	if o.Workers > 0 {
		jobs, rate, took = r.Fetched, r.FetchRate, r.Cycle
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"jobs": jobs, "rate": rate, "p50": took.P50, "p99": took.P99, "p999": took.P999,
	})
}

// client is what is common to the clients here: a context that ends what waits. The rest of wire.Client is not called.
type client struct {
	wire.Client
	ctx context.Context //nolint:containedctx // wire.Client has deadlines instead
	end context.CancelFunc
}

func newClient() client {
	ctx, end := context.WithCancel(context.Background())
	return client{ctx: ctx, end: end}
}

// SetDeadline ends what waits for the server: the benchmark calls it with the present time only.
//
//nolint:unparam // an interface wants the error
func (c client) SetDeadline(time.Time) error {
	c.end()
	return nil
}
