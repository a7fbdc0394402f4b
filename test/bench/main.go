// Command bench measures the server and prints figures as ratios to a server
// that does nothing, taken in the same run on the same machine: absolute figures
// of a shared machine mean little.
//
//	go run ./test/bench all       the engine in this process, then the wire
//	go run ./test/bench engine    whole job lives per second through the engine
//	go run ./test/bench wire      pushes, round trips and bulks over the sockets of all protocols
//	go run ./test/bench peers     Millrace, synced, next to Faktory, LMSTFY and beanstalkd
//	go run ./test/bench cluster   three nodes next to a single one, and how long a change of leader takes
//	go run ./test/bench keyed     pushes per second around the death of a leader that has many jobs with keys
//	go run ./test/bench scale     memory, order, restart and disk with a large backlog; fairness
//	go run ./test/bench results   the figures of the documents, as data and as tables
//
// Flags choose protocols, connections, durabilities and the length of a run; each subcommand prints
// them with -h. A quick look at one protocol:
//
//	go run ./test/bench wire -protocols workq -conns 32 -modes fsync -rounds 1
//
// Server, ceiling and load generator are processes of their own, as they are in
// life. The subcommands ceiling and load are what it starts itself as.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"millrace/internal/bench"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"all"}
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	out := report{os.Stdout}
	switch args[0] {
	case "ceiling":
		name := flags.String("protocol", bench.Masenko.Name, "protocol")
		_ = flags.Parse(args[1:]) // ends the process itself
		p, err := bench.Find(*name)
		if err != nil {
			return err
		}
		return runCeiling(ctx, p)
	case "load":
		l := loadFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		return runLoad(ctx, l)
	case "engine", "wire", "all":
		b := wireFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		if err := out.facts(b.dir); err != nil {
			return err
		}
		if args[0] != "wire" {
			if err := benchEngine(ctx, out, b); err != nil {
				return err
			}
		}
		if args[0] != "engine" {
			return benchWire(ctx, out, b)
		}
		return nil
	case "peers":
		b := peersFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		if err := out.facts(b.dir); err != nil {
			return err
		}
		return benchPeers(ctx, out, b)
	case "cluster":
		g := groupFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		if err := out.facts(g.dir); err != nil {
			return err
		}
		return benchCluster(ctx, out, g)
	case "keyed":
		k := keyedFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		if err := out.facts(k.dir); err != nil {
			return err
		}
		return benchKeyed(ctx, out, k)
	case "scale":
		s := scaleFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		if err := out.facts(s.dir); err != nil {
			return err
		}
		return benchScale(ctx, out, s)
	case "results":
		o := resultsFlags(flags)
		_ = flags.Parse(args[1:]) // ends the process itself
		return runResults(ctx, out, o)
	default:
		return fmt.Errorf("unknown subcommand %q: want all, engine, wire, peers, cluster, keyed, scale or results",
			args[0])
	}
}
