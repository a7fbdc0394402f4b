package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// group says what is measured of a cluster: its speed next to a single node, and how long a change of leader takes.
type group struct {
	wire
	kills     int
	transfers int

	nodes  []*member
	speed  []socketFigures
	change changeFigures
}

// changeFigures is how long clients had to wait for the next acknowledged push.
type changeFigures struct {
	Kills          int           `json:"kills"`
	FailoverMedian bench.Seconds `json:"failover_median"`
	FailoverWorst  bench.Seconds `json:"failover_worst"`
	Transfers      int           `json:"transfers"`
	TransferMedian bench.Seconds `json:"transfer_median"`
	TransferWorst  bench.Seconds `json:"transfer_worst"`
}

// member is one node, which may be restarted.
type member struct {
	name string
	args []string
	*harness.Server
}

func groupFlags(f *flag.FlagSet) *group {
	g := &group{}
	f.StringVar(&g.dir, "dir", os.TempDir(), "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&g.rounds, "rounds", 3, "alternating runs, of which the median counts")
	f.DurationVar(&g.duration, "duration", time.Second, "length of one run")
	f.StringVar(&g.protocols, "protocols", protocolNames(), "which protocols, separated by commas")
	f.StringVar(&g.scenarios, "scenarios", "push,roundtrip,bulk", "what is done over them")
	f.StringVar(&g.conns, "conns", "32,128", "over how many connections, for round trips of each side")
	f.IntVar(&g.kills, "kills", 100, "how often the leader is killed")
	f.IntVar(&g.transfers, "transfers", 20, "how often the leadership is given away")
	return g
}

// benchCluster measures a cluster of three nodes on this machine next to a single node.
func benchCluster(ctx context.Context, out report, g *group) error {
	remove, err := g.prepare(ctx, out)
	if err != nil {
		return err
	}
	defer remove()
	defer g.killAll()
	if err := g.form(ctx); err != nil {
		return err
	}
	out.printf("\nThree nodes, their clients and one disk on this machine, next to a single node that syncs. Each "+
		"figure is the median of %d runs of %v, the servers taking turns.", g.rounds, g.duration)
	for _, name := range list(g.protocols) {
		p, err := bench.Find(name)
		if err == nil {
			err = g.compare(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return g.changes(ctx)
}

// killAll ends all nodes.
func (g *group) killAll() {
	for _, n := range g.nodes {
		if n.Server != nil {
			n.Kill()
		}
	}
}

// form starts three nodes on empty directories, with more settings.
func (g *group) form(ctx context.Context, more ...string) error {
	names := []string{"a", "b", "c"}
	var addrs, peers []string
	for _, name := range names {
		addr, err := harness.FreeAddr(ctx)
		if err != nil {
			return err
		}
		addrs, peers = append(addrs, addr), append(peers, name+"="+addr)
	}
	for i, name := range names {
		g.nodes = append(g.nodes, &member{name: name, args: append(serveArgs(g.dataDir(name),
			"--cluster-node", name, "--cluster-addr", addrs[i], "--cluster-peers", strings.Join(peers, ",")), more...)})
	}
	for _, n := range g.nodes {
		if err := g.startNode(ctx, n); err != nil {
			return err
		}
	}
	_, err := g.leader(ctx)
	return err
}

func (g *group) startNode(ctx context.Context, n *member) (err error) {
	also := []string{"web"}
	for _, p := range bench.Protocols() {
		also = append(also, p.Listener())
	}
	n.Server, err = harness.Start(ctx, harness.Options{
		Bin: g.bin, Args: n.args, Env: g.ports, Listener: bench.Masenko.Name, Also: also,
	})
	return err
}

// leader waits until all nodes name the same leader, reach each other and have applied everything, and returns it.
func (g *group) leader(ctx context.Context) (*member, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if name := g.agreed(ctx); name != "" {
			return g.nodes[slices.IndexFunc(g.nodes, func(n *member) bool { return n.name == name })], nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.New("the nodes do not agree on a leader within a minute")
		}
	}
}

func (g *group) agreed(ctx context.Context) (leader string) {
	for i, n := range g.nodes {
		var status struct {
			Leader string
			Nodes  []struct {
				Reachable  bool
				LagEntries uint64 `json:"lag_entries"`
			}
		}
		if err := getJSON(ctx, "http://"+n.Addrs["web"]+"/api/v1/cluster", &status); err != nil || i > 0 &&
			status.Leader != leader {
			return ""
		}
		for _, other := range status.Nodes {
			if !other.Reachable || other.LagEntries > 0 {
				return ""
			}
		}
		leader = status.Leader
	}
	return leader
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	return json.NewDecoder(resp.Body).Decode(into)
}

// The servers that a cluster is compared by.
const (
	serverSingle  = "single"
	serverLeader  = "leader"
	serverStandby = "standby"
)

// compare measures one protocol through the leader and through a standby, next to a single node, and prints the table.
func (g *group) compare(ctx context.Context, p *bench.Protocol) error {
	leader, err := g.leader(ctx)
	if err != nil {
		return err
	}
	single, err := g.startOne(ctx, p, "fsync")
	if err != nil {
		return err
	}
	defer single.stop()
	single.name = serverSingle
	targets := []*target{single, g.target(p, serverLeader, leader), g.target(p, serverStandby, g.other(leader))}
	g.out.heading("%s", p.Name)
	t := g.out.table("", "connections", "server", "jobs/s", "of a single node", "p50", "p99", "CPU per job")
	return g.sweep(ctx, targets, func(scenario string, conns int, found []figures) {
		for i, f := range found {
			g.speed = append(g.speed, socketFigures{
				Protocol: p.Name, Scenario: scenario, Conns: conns, Server: targets[i].name, figures: f,
				CPUPerJob: bench.Seconds(f.CPU), AllocsPerJob: f.Allocs,
			})
			t.row(scenario, conns, targets[i].name, rate(f.Rate), ratio(f.Rate/found[0].Rate), f.P50, f.P99,
				f.CPU)
		}
	})
}

// other returns a node other than this one.
func (g *group) other(n *member) *member {
	return g.nodes[(slices.Index(g.nodes, n)+1)%len(g.nodes)]
}

// target is the cluster through one of its nodes.
func (g *group) target(p *bench.Protocol, name string, n *member) *target {
	t := &target{name: name, protocol: p, addr: n.Addrs[p.Listener()], stop: func() {}, stderr: n.Stderr}
	for _, each := range g.nodes {
		t.pids = append(t.pids, each.Pid())
	}
	return t
}

// changes kills the leader and gives the leadership away, again and again, and measures from then on until a push is
// acknowledged through another node.
func (g *group) changes(ctx context.Context) error {
	g.out.heading("Changes of leader")
	took, err := repeat(ctx, g.kills, g.failover)
	if err != nil {
		return fmt.Errorf("fail-over: %w", err)
	}
	c := &g.change
	c.Kills = len(took)
	c.FailoverMedian, c.FailoverWorst = spread(took)
	g.out.printf("%d kills -9 of the leader: the first push was acknowledged through another node after %v (median), "+
		"%v (worst).", c.Kills, c.FailoverMedian, c.FailoverWorst)
	if took, err = repeat(ctx, g.transfers, g.transfer); err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	c.Transfers = len(took)
	c.TransferMedian, c.TransferWorst = spread(took)
	g.out.printf("%d planned transfers: the longest gap between two acknowledged pushes was %v (median), %v (worst).",
		c.Transfers, c.TransferMedian, c.TransferWorst)
	return nil
}

// repeat measures something a number of times.
func repeat(
	ctx context.Context, n int, measure func(context.Context) (time.Duration, error),
) (list []time.Duration, err error) {
	for range n {
		took, err := measure(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, took)
	}
	return list, nil
}

func spread(list []time.Duration) (median, worst bench.Seconds) {
	if len(list) == 0 {
		return 0, 0
	}
	return bench.Seconds(bench.Median(list)), bench.Seconds(slices.Max(list))
}

// failover kills the leader and returns how long it took until a push was acknowledged through another node.
func (g *group) failover(ctx context.Context) (time.Duration, error) {
	leader, err := g.leader(ctx)
	if err != nil {
		return 0, err
	}
	pusher := pusher{addr: g.other(leader).Addr}
	defer pusher.close()
	if err := pusher.pushes(ctx); err != nil { // the connection is there already
		return 0, err
	}
	began := time.Now()
	leader.Kill()
	err = pusher.pushes(ctx)
	took := time.Since(began)
	return took, errors.Join(err, g.startNode(ctx, leader))
}

// transfer gives the leadership away while a client pushes through a node, and returns the longest gap between two
// acknowledged pushes.
func (g *group) transfer(ctx context.Context) (longest time.Duration, err error) {
	leader, err := g.leader(ctx)
	if err != nil {
		return 0, err
	}
	pusher := pusher{addr: g.other(leader).Addr}
	defer pusher.close()
	if err := pusher.pushes(ctx); err != nil {
		return 0, err
	}
	given := make(chan error, 1)
	// The connection that asks for it may end with the leadership, before the answer.
	go func() { given <- post(ctx, "http://"+leader.Addrs["web"]+"/api/v1/cluster/transfer") }()
	for last, after := time.Now(), 0; after < 100; { // some pushes more when it is done
		if err := pusher.pushes(ctx); err != nil {
			return 0, err
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		if after > 0 {
			after++
			continue
		}
		select {
		case err := <-given:
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, err
			}
			after = 1
		default:
		}
	}
	return longest, nil
}

func post(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // nothing is read
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// pusher is a client that connects again when its connection is closed.
type pusher struct {
	addr   string
	client *harness.Client
}

func (p *pusher) close() {
	if p.client != nil {
		_ = p.client.Close() // nothing is in flight
		p.client = nil
	}
}

// pushes returns when a push was acknowledged, after as many tries as that takes within a minute.
func (p *pusher) pushes(ctx context.Context) error {
	until := time.Now().Add(time.Minute)
	for {
		err := p.try()
		if err == nil {
			return nil
		}
		p.close()
		if time.Now().After(until) {
			return fmt.Errorf("no push was acknowledged within a minute: %w", err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pusher) try() (err error) {
	if p.client == nil {
		if p.client, err = harness.Dial(p.addr); err != nil {
			p.client = nil
			return err
		}
	}
	_, err = p.client.Push("changes", "x")
	return err
}
