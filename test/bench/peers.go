package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
)

// peers says how Millrace is compared with other people's servers.
type peers struct {
	wire
	only  string
	bins  string // where the programs are that Debian does not have
	sizes string

	found []peerFigures
}

// peerFigures is what one server did beside Millrace, or Millrace beside it.
type peerFigures struct {
	Server     string  `json:"server"`
	Ours       bool    `json:"ours,omitempty"`
	Push       float64 `json:"push_rate"`
	Cycle      float64 `json:"cycle_rate"`
	PushRatio  float64 `json:"push_ratio"` // of Millrace's rate to this one
	CycleRatio float64 `json:"cycle_ratio"`
}

func peersFlags(f *flag.FlagSet) *peers {
	b := &peers{}
	f.StringVar(&b.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.StringVar(&b.bins, "bin", "bin/peers", "where the programs are that test/peers/install.sh has made")
	f.StringVar(&b.only, "peers", peerNames(), "which of them, separated by commas")
	f.StringVar(&b.sizes, "sizes", strconv.Itoa(payloadSize), "sizes of payloads in bytes")
	f.IntVar(&b.rounds, "rounds", 3, "alternating runs, of which the median counts")
	f.DurationVar(&b.duration, "duration", time.Second, "length of one run")
	f.StringVar(&b.scenarios, "scenarios", "push,roundtrip", "what is done")
	f.StringVar(&b.conns, "conns", "1,32,128", "over how many connections, for round trips of each side")
	return b
}

// peer is a server of other people, in its default durability and in its safest.
type peer struct {
	name  string
	title string
	// protocol is what it speaks, unless a variant says so.
	protocol *bench.Protocol
	// ours is the protocol through which Millrace does the same.
	ours     *bench.Protocol
	programs []string
	variants []variant
}

// variant is a durability of a peer.
type variant struct {
	name     string
	start    func(ctx context.Context, b *peers, dir string) (*processes, error)
	protocol *bench.Protocol // nil is that of the peer
}

var allPeers = []*peer{
	{
		name: "faktory", title: "Faktory 1.9.3", protocol: bench.Faktory, ours: bench.Faktory,
		programs: []string{"faktory", "redis-server"},
		variants: []variant{
			{"Faktory, default: snapshots", startFaktory(false), nil},
			{"Faktory, safest: Redis appendfsync always", startFaktory(true), nil},
		},
	},
	{
		name: "lmstfy", title: "LMSTFY 1.0.15", protocol: bench.Lmstfy, ours: bench.Lmstfy,
		programs: []string{"lmstfy", "redis-server"},
		variants: []variant{
			// LMSTFY refuses a Redis without a log; how often that is synced is left to Redis, whose default is a
			// second.
			{"LMSTFY, default: Redis appendfsync everysec", startLmstfy("--appendonly", "yes"), nil},
			{
				"LMSTFY, safest: Redis appendfsync always",
				startLmstfy("--appendonly", "yes", "--appendfsync", "always"), nil,
			},
		},
	},
	{
		name: "beanstalkd", title: "beanstalkd", protocol: bench.Beanstalkd, ours: bench.Beanstalkd,
		programs: []string{"beanstalkd"},
		variants: []variant{
			{"beanstalkd, default: memory", startBeanstalkd(false), nil},
			{"beanstalkd, safest: -b -f 0", startBeanstalkd(true), nil},
		},
	},
	{
		name: "tarantool", title: "Tarantool with a queue in Lua", protocol: bench.Tarantool, ours: bench.Tarantool,
		programs: []string{"tarantool", "queue.lua"},
		variants: []variant{
			{"Tarantool, default: wal_mode write", startTarantool("write"), nil},
			{"Tarantool, safest: wal_mode fsync", startTarantool("fsync"), nil},
		},
	},
	{
		name: "nats", title: "NATS JetStream 2.15.2", protocol: natsProtocol, ours: bench.Masenko,
		programs: []string{"nats-server", othersLoad},
		variants: []variant{
			{"NATS JetStream, default: synced every 2 minutes", startNATS(false), nil},
			{"NATS JetStream, safest: sync always", startNATS(true), nil},
		},
	},
	{
		name: "postgres", title: "PostgreSQL with SKIP LOCKED", protocol: postgresProtocol, ours: bench.Masenko,
		programs: []string{"postgres", "initdb", othersLoad},
		variants: []variant{
			{"PostgreSQL, synchronous_commit off", startPostgres("synchronous_commit=off"), nil},
			{"PostgreSQL, default and safest", startPostgres(), nil},
		},
	},
	{
		name: "rabbitmq", title: "RabbitMQ", ours: bench.Masenko,
		programs: []string{"rabbitmq-server", "epmd", othersLoad},
		variants: []variant{
			{"RabbitMQ, default: classic queue, confirms", startRabbit, classicProtocol},
			{"RabbitMQ, safest: quorum queue, confirms", startRabbit, quorumProtocol},
		},
	},
}

// peerNames lists all peers, separated by commas.
func peerNames() string {
	var names []string
	for _, p := range allPeers {
		names = append(names, p.name)
	}
	return strings.Join(names, ",")
}

// benchPeers compares Millrace, synced, with each of the peers in turn.
func benchPeers(ctx context.Context, out report, b *peers) error {
	remove, err := b.prepare(ctx, out)
	if err != nil {
		return err
	}
	defer remove()
	if _, err := os.Stat(faktoryRedis); err == nil {
		out.printf("\nFaktory's Redis is configured by the %s that was there before.", faktoryRedis)
	} else {
		defer os.Remove(faktoryRedis) //nolint:errcheck // Faktory may not have written it
	}
	out.printf("\nOne request at a time per connection; round trips (push, fetch, ack) have as "+
		"many workers as producers and at most %d jobs in flight per producer. "+
		"Each figure is the median of %d runs of %v, the servers taking turns. Millrace syncs everything that it "+
		"acknowledges. Latencies are of one push, in round trips of fetch and ack; "+
		"processor time is that of all processes of a server, Redis included, until they are at rest "+
		"again. PostgreSQL has a process for each connection, whose time is not counted.",
		perProducer, b.rounds, b.duration)
	for _, p := range allPeers {
		if !slices.Contains(list(b.only), p.name) {
			continue
		}
		out.heading("%s", p.title)
		if missing := b.missing(p); missing != "" {
			out.printf("Not measured: there is no %s here.", missing)
			continue
		}
		if err := b.compare(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// missing returns the first program that a peer needs and is not there.
func (b *peers) missing(p *peer) string {
	for _, name := range p.programs {
		if b.program(name) == "" {
			return name
		}
	}
	return ""
}

// program returns the path of a program, built or installed, or nothing.
func (b *peers) program(name string) string {
	for _, path := range []string{filepath.Join(b.bins, name), name} {
		found, err := exec.LookPath(path)
		if err != nil {
			continue
		}
		if found, err = filepath.Abs(found); err == nil { // it is started elsewhere
			return found
		}
	}
	return ""
}

// oursPrefix is before the protocol in the name of ours.
const oursPrefix = "Millrace through "

// compare measures one peer in both durabilities next to Millrace, and prints the table.
func (b *peers) compare(ctx context.Context, p *peer) error {
	ours, err := b.startOne(ctx, p.ours, "fsync")
	if err != nil {
		return err
	}
	ours.name = oursPrefix + shownNames[p.ours.Name]
	targets := []*target{ours}
	defer func() { stopAll(targets) }()
	for _, v := range p.variants {
		t, err := b.startPeer(ctx, p, v)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		targets = append(targets, t)
	}
	b.out.printf("%s\n", b.versions(ctx, p))
	t := b.out.table("", "bytes", "connections", "server", "jobs/s", "Millrace is", "p50", "p99", "p99.9",
		"CPU per job")
	kept := make([]peerFigures, len(targets))
	for _, text := range list(b.sizes) {
		if b.size, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("sizes: %w", err)
		}
		err = b.sweep(ctx, targets, func(scenario string, conns int, found []figures) {
			for i, f := range found {
				if conns == shownConns && b.size == payloadSize {
					kept[i].Server, kept[i].Ours = targets[i].name, i == 0
					kept[i].keep(scenario, f.Rate, found[0].Rate/f.Rate)
				}
				faster, cpu := "", ""
				if i > 0 {
					faster = ratio(found[0].Rate/f.Rate) + " times as fast"
				}
				if len(targets[i].pids) > 0 {
					cpu = f.CPU.String()
				}
				t.row(scenario, b.size, conns, targets[i].name, rate(f.Rate), faster, f.P50, f.P99, f.P999, cpu)
			}
		})
		if err != nil {
			return err
		}
	}
	b.found = append(b.found, kept...)
	return nil
}

// keep keeps the rate of a scenario, and the ratio of Millrace's to it.
func (p *peerFigures) keep(scenario string, rate, ratio float64) {
	if scenario == scenarioPush {
		p.Push, p.PushRatio = rate, ratio
	} else {
		p.Cycle, p.CycleRatio = rate, ratio
	}
}

// versions tells which programs are measured, as far as they tell themselves.
func (b *peers) versions(ctx context.Context, p *peer) string {
	var parts []string
	for _, name := range p.programs {
		flag := map[string]string{
			"redis-server": "--version", "beanstalkd": "-v", "tarantool": "--version", "postgres": "--version",
		}[name]
		if flag == "" {
			continue // its version is in the heading
		}
		text, err := exec.CommandContext(ctx, b.program(name), flag).Output() //nolint:gosec // what was found
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(text), "\n")
		words := strings.Fields(line)
		parts = append(parts, strings.Join(words[:min(3, len(words))], " "))
	}
	if parts == nil {
		return ""
	}
	return "With " + strings.Join(parts, ", ") + "."
}

func (b *peers) startPeer(ctx context.Context, p *peer, v variant) (*target, error) {
	dir, err := os.MkdirTemp(b.tmp, p.name+"-")
	if err != nil {
		return nil, err
	}
	s, err := v.start(ctx, b, dir)
	if err != nil {
		_ = os.RemoveAll(dir) // the directory around it goes, too
		return nil, err
	}
	protocol := cmp.Or(v.protocol, p.protocol)
	t := &target{
		name: v.name, protocol: protocol, addr: s.addr, pids: s.pids, stderr: s.output,
		stop: func() {
			s.stop()
			_ = os.RemoveAll(dir) // the directory around it goes, too
		},
	}
	if slices.Contains(p.programs, othersLoad) {
		t.load = b.program(othersLoad)
	}
	return t, nil
}
