package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// results is what was measured of one commit on one machine: the one source of the tables in the documents.
type results struct {
	Version  string          `json:"version"`
	Date     string          `json:"date"`
	Short    bool            `json:"short,omitempty"` // only to see that all parts work
	Machine  bench.Machine   `json:"machine"`
	Rounds   int             `json:"rounds"`
	Duration string          `json:"duration"`
	Socket   []socketFigures `json:"socket"`
	Backlog  backlogFigures  `json:"backlog"`
	Fair     fairFigures     `json:"fair"`
	Cluster  []socketFigures `json:"cluster"`
	Changes  changeFigures   `json:"leader_changes"`
	Peers    []peerFigures   `json:"peers"`
}

// socketFigures is one row of what was measured over sockets.
type socketFigures struct {
	Protocol  string  `json:"protocol"`
	Scenario  string  `json:"scenario"`
	Conns     int     `json:"connections"`
	Server    string  `json:"server"` // a durability, or the server that does nothing
	OfCeiling float64 `json:"of_ceiling"`

	figures

	CPUPerJob    bench.Seconds `json:"cpu_per_job"`
	AllocsPerJob float64       `json:"allocations_per_job"` // negative: not told
}

// backlogFigures is what was measured of a large backlog.
type backlogFigures struct {
	Jobs       int           `json:"jobs"`
	Body       int           `json:"body_bytes"`
	Fill       float64       `json:"fill_rate"`
	SmallFill  float64       `json:"small_fill_rate"`
	Drain      float64       `json:"drain_rate"`
	SmallDrain float64       `json:"small_drain_rate"`
	Peak       uint64        `json:"peak_bytes"` // of memory, while it is filled
	DrainPeak  uint64        `json:"drain_peak_bytes"`
	Disk       int64         `json:"disk_bytes"`
	AfterStop  bench.Seconds `json:"ready_after_stop"`
	AfterKill  bench.Seconds `json:"ready_after_kill"`
}

// resultsOptions says what becomes of the results.
type resultsOptions struct {
	in, out, publish string
	again            string
	short            bool
	wire             *wire
	scale            *scale
	group            *group
	peers            *peers
}

func resultsFlags(f *flag.FlagSet) *resultsOptions {
	none := func() *flag.FlagSet { return flag.NewFlagSet("", flag.ContinueOnError) }
	o := &resultsOptions{
		wire: wireFlags(none()), scale: scaleFlags(none()), group: groupFlags(none()),
		peers: peersFlags(none()),
	}
	f.StringVar(&o.in, "in", "", "results to make tables from, instead of measuring")
	f.StringVar(&o.again, "again", "", "of the results of -in: protocols whose rows of a single node "+
		"are measured again, "+
		"because something disturbed them")
	f.StringVar(&o.out, "out", "", "file to write the results into")
	f.StringVar(&o.publish, "publish", "", "root of the repository whose documents get the tables; without "+
		"it they are printed")
	f.BoolVar(&o.short, "short", false, "measure for a moment only, to see that all parts work")
	f.StringVar(&o.wire.dir, "dir", o.wire.dir, "where the data goes: name a directory on the disk to be measured")
	f.IntVar(&o.wire.rounds, "rounds", o.wire.rounds, "alternating runs, of which the median counts")
	f.DurationVar(&o.wire.duration, "duration", o.wire.duration, "length of one run")
	f.StringVar(&o.wire.protocols, "protocols", o.wire.protocols, "which protocols, separated by commas")
	f.StringVar(&o.wire.conns, "conns", o.wire.conns, "over how many connections a single node is measured")
	f.IntVar(&o.scale.jobs, "jobs", o.scale.jobs, "ready jobs of the backlog")
	f.IntVar(&o.scale.fair.large, "large", o.scale.fair.large, "jobs of the large tenant of a fair queue")
	f.IntVar(&o.group.kills, "kills", o.group.kills, "how often the leader of a cluster is killed")
	f.StringVar(&o.peers.bins, "bin", o.peers.bins, "where the programs are that test/peers/install.sh has made")
	return o
}

// runResults measures, or reads what was measured, and makes the tables.
func runResults(ctx context.Context, out report, o *resultsOptions) error {
	var r results
	if o.in != "" {
		text, err := os.ReadFile(o.in)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
		if err := o.repeat(ctx, out, &r); err != nil {
			return err
		}
	} else if err := o.measure(ctx, out, &r); err != nil {
		return err
	}
	if o.out != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err == nil {
			err = os.WriteFile(o.out, append(text, '\n'), 0o644) //nolint:gosec // a document that everybody may read
		}
		if err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	socket, errSocket := r.socket()
	speed, errSpeed := r.speed()
	cluster, errCluster := r.clusterTable()
	if err := errors.Join(errSocket, errSpeed, errCluster); err != nil {
		return err
	}
	if o.publish == "" {
		out.printf("\n%s\n%s\n%s\n%s\n%s\n%s", socket, r.peersTable(), r.scaleTable()+r.Fair.table(), cluster,
			speed, r.backlog())
		return nil
	}
	if r.Short {
		return errors.New("these results are of a short run and prove nothing: they are not published")
	}
	readme, performance := filepath.Join(o.publish, "README.md"), filepath.Join(o.publish, "docs", "performance.md")
	return errors.Join(
		harness.Publish(performance, "socket", socket),
		harness.Publish(performance, "peers", r.peersTable()),
		harness.Publish(performance, "scale", r.scaleTable()),
		harness.Publish(performance, "fair", r.Fair.table()),
		harness.Publish(performance, "cluster", cluster),
		harness.Publish(readme, "speed", speed),
		harness.Publish(readme, "backlog", r.backlog()),
	)
}

// measure does what the subcommands wire, peers, scale and cluster do.
func (o *resultsOptions) measure(ctx context.Context, out report, r *results) (err error) {
	o.wire.special, o.scale.only, o.scale.dir = "", "backlog,fair", o.wire.dir
	if o.short {
		o.wire.rounds, o.wire.duration, o.wire.conns = 1, 50*time.Millisecond, strconv.Itoa(shownConns)
		o.scale.jobs, o.scale.small, o.scale.fair.large = 20_000, 2000, 20_000
		o.group.kills, o.group.transfers = 1, 1
	}
	o.scale.fair.rounds = o.wire.rounds
	for _, w := range []*wire{&o.group.wire, &o.peers.wire} {
		w.dir, w.rounds, w.duration, w.conns = o.wire.dir, o.wire.rounds, o.wire.duration, strconv.Itoa(shownConns)
	}
	o.group.protocols = o.wire.protocols
	if r.Machine, err = bench.ReadMachine(o.wire.dir); err != nil {
		return err
	}
	out.printf("Machine: %s.", r.Machine)
	o.wire.keep = &r.Socket
	if err := benchWire(ctx, out, o.wire); err != nil {
		return err
	}
	if err := benchPeers(ctx, out, o.peers); err != nil {
		return err
	}
	if err := benchCluster(ctx, out, o.group); err != nil {
		return err
	}
	if err := benchScale(ctx, out, o.scale); err != nil {
		return err
	}
	r.Peers, r.Cluster, r.Changes = o.peers.found, o.group.speed, o.group.change
	r.Version, r.Short, r.Backlog, r.Fair = o.scale.version, o.short, o.scale.found, o.scale.fair.found
	r.Rounds, r.Duration = o.wire.rounds, o.wire.duration.String()
	r.Date = time.Now().UTC().Format(time.DateOnly)
	return nil
}

// repeat measures the rows of some protocols again and puts them in the place of what was there.
func (o *resultsOptions) repeat(ctx context.Context, out report, r *results) error {
	if o.again == "" {
		return nil
	}
	var rows []socketFigures
	o.wire.protocols, o.wire.special, o.wire.keep = o.again, "", &rows
	var err error
	if r.Machine, err = bench.ReadMachine(o.wire.dir); err != nil {
		return err
	}
	if err := benchWire(ctx, out, o.wire); err != nil {
		return err
	}
	for _, f := range rows {
		i := slices.IndexFunc(r.Socket, func(old socketFigures) bool {
			return old.Protocol == f.Protocol && old.Scenario == f.Scenario && old.Conns == f.Conns &&
				old.Server == f.Server
		})
		if i < 0 {
			return fmt.Errorf("the results have no %s of %s with %d connections, %s", f.Scenario, f.Protocol,
				f.Conns, f.Server)
		}
		r.Socket[i] = f
	}
	return nil
}

// shownConns is the number of connections of which the documents show figures. Others are in the data.
const shownConns = 32

// find returns a row.
func find(rows []socketFigures, protocol, scenario, server string) (socketFigures, error) {
	i := slices.IndexFunc(rows, func(f socketFigures) bool {
		return f.Protocol == protocol && f.Scenario == scenario && f.Server == server && f.Conns == shownConns
	})
	if i < 0 {
		return socketFigures{}, fmt.Errorf("the results have no %s through %s with %s and %d connections", scenario,
			protocol, server, shownConns)
	}
	return rows[i], nil
}

// protocolsOf returns the protocols of rows, in their order.
func protocolsOf(rows []socketFigures) (names []string) {
	for _, f := range rows {
		if !slices.Contains(names, f.Protocol) {
			names = append(names, f.Protocol)
		}
	}
	return names
}

// shownNames are the protocols as documents write them.
var shownNames = map[string]string{
	"masenko": "Masenko", "faktory": "Faktory", "workq": "Workq", "tarantool": "Tarantool Queue", "lmstfy": "LMSTFY",
	"beanstalkd": "beanstalkd", "rest": "REST",
}

// socket makes the table of all protocols.
func (r *results) socket() (string, error) {
	var b strings.Builder
	t := report{&b}.table("protocol", "push/s", "p50, p99 of a push", "full cycles/s",
		fmt.Sprintf("bulk push/s (%d a request)", bulkSize),
		"with `interval`: push/s, cycles/s")
	for _, protocol := range protocolsOf(r.Socket) {
		var found [5]socketFigures
		var errs [5]error
		for i, want := range [5][2]string{
			{scenarioPush, "fsync"},
			{scenarioRoundTrip, "fsync"},
			{scenarioBulk, "fsync"},
			{scenarioPush, "interval"},
			{scenarioRoundTrip, "interval"},
		} {
			found[i], errs[i] = find(r.Socket, protocol, want[0], want[1])
		}
		if err := errors.Join(errs[:]...); err != nil {
			return "", err
		}
		push := found[0]
		t.row(shownNames[protocol], rounded(push.Rate),
			fmt.Sprintf("%.1f, %.1f ms", millis(push.P50), millis(push.P99)), rounded(found[1].Rate),
			rounded(found[2].Rate), rounded(found[3].Rate)+", "+rounded(found[4].Rate))
	}
	report{&b}.printf("\n(%s; %s, %s; medians of %d runs of %s)", r.Version, r.Machine, r.Date, r.Rounds, r.Duration)
	return b.String(), nil
}

func millis(s bench.Seconds) float64 { return float64(time.Duration(s)) / float64(time.Millisecond) }

// scaleTable makes the table of a large backlog.
func (r *results) scaleTable() string {
	l := r.Backlog
	var b strings.Builder
	t := report{&b}.table(fmt.Sprintf("%s jobs of %d bytes, through Masenko, synced", grouped(l.Jobs), l.Body), "")
	t.row("pushed in transactions", fmt.Sprintf("%s/s, %d MiB of memory at most, %.1f GiB on disk", rounded(l.Fill),
		l.Peak>>20, float64(l.Disk)/(1<<30)))
	t.row("ready after a stop, after a `kill -9`", fmt.Sprintf("%.2f s, %.2f s", millis(l.AfterStop)/1000,
		millis(l.AfterKill)/1000))
	t.row("worked off, order checked", fmt.Sprintf("%s/s, %d MiB at most", rounded(l.Drain), l.DrainPeak>>20))
	return b.String()
}

// peersTable makes the table of other servers, each beside what Millrace did in the same runs.
func (r *results) peersTable() string {
	var b strings.Builder
	t := report{&b}.table("", "push/s, full cycles/s", "Millrace, synced, through the protocol", "which is")
	var ours *peerFigures
	for i := range r.Peers {
		p := &r.Peers[i]
		if p.Ours {
			ours = p
			continue
		}
		t.row(p.Server, rounded(p.Push)+", "+rounded(p.Cycle),
			fmt.Sprintf("%s, %s, %s", rounded(ours.Push), rounded(ours.Cycle),
				strings.TrimPrefix(ours.Server, oursPrefix)),
			fmt.Sprintf("%s and %s times as fast", ratio(p.PushRatio), ratio(p.CycleRatio)))
	}
	return b.String()
}

// clusterTable makes the table of a cluster next to a single node.
func (r *results) clusterTable() (string, error) {
	var b strings.Builder
	t := report{&b}.table("protocol", "push/s through the leader, a standby",
		"full cycles/s through the leader, a standby",
		"of a single node's pushes", "of its cycles")
	var errs []error
	rates := func(protocol, scenario string) (list [3]float64) {
		for i, server := range []string{serverSingle, serverLeader, serverStandby} {
			f, err := find(r.Cluster, protocol, scenario, server)
			errs = append(errs, err)
			list[i] = f.Rate
		}
		return list
	}
	for _, protocol := range protocolsOf(r.Cluster) {
		push, cycle := rates(protocol, scenarioPush), rates(protocol, scenarioRoundTrip)
		t.row(shownNames[protocol], rounded(push[1])+", "+rounded(push[2]), rounded(cycle[1])+", "+rounded(cycle[2]),
			ratio(push[1]/push[0])+", "+ratio(push[2]/push[0]), ratio(cycle[1]/cycle[0])+", "+ratio(cycle[2]/cycle[0]))
	}
	c := &r.Changes
	report{&b}.printf("\nAfter a `kill -9` of the leader the next push was acknowledged after %.2f s (median of %d "+
		"kills), %.2f s at worst.\n"+
		"A planned transfer paused pushes for %.2f s (median of %d), %.2f s at worst.",
		millis(c.FailoverMedian)/1000, c.Kills, millis(c.FailoverWorst)/1000, millis(c.TransferMedian)/1000,
		c.Transfers, millis(c.TransferWorst)/1000)
	return b.String(), errors.Join(errs...)
}

// losses is what crashes lose, by durability: of the process, and of the machine.
var losses = []struct{ mode, process, machine string }{
	{"`fsync` (default)", "nothing", "nothing"},
	{"`interval`", "up to the last 100 ms", "up to the last 100 ms"},
	{"`none`", "up to the last 100 ms", "what was not written yet, often half a minute"},
}

// speed makes the table of the README.
func (r *results) speed() (string, error) {
	var b strings.Builder
	t := report{&b}.table("`store.durability`", "pushes/s", "full cycles/s", "a crash of the process loses",
		"a crash of the machine loses")
	for i, mode := range []string{"fsync", "interval", "none"} {
		push, errPush := find(r.Socket, bench.Masenko.Name, scenarioPush, mode)
		trip, errTrip := find(r.Socket, bench.Masenko.Name, scenarioRoundTrip, mode)
		if err := errors.Join(errPush, errTrip); err != nil {
			return "", err
		}
		l := losses[i]
		t.row(l.mode, rounded(push.Rate), rounded(trip.Rate), l.process, l.machine)
	}
	return b.String(), nil
}

// backlog says in words what a large backlog takes.
func (r *results) backlog() string {
	l := r.Backlog
	return fmt.Sprintf("With %d jobs in a request, %s synced pushes/s. %s jobs take %d MiB of memory while "+
		"they are pushed and\n"+
		"%d MiB while they are worked off; a server with them is ready %.2f s after its start.\n",
		bulkSize, rounded(r.bulk()), grouped(l.Jobs), l.Peak>>20, l.DrainPeak>>20, millis(l.AfterStop)/1000)
}

// bulk returns the rate of synced pushes in bulk, zero if they were not measured.
func (r *results) bulk() float64 {
	f, err := find(r.Socket, bench.Masenko.Name, scenarioBulk, "fsync")
	if err != nil {
		return 0
	}
	return f.Rate
}

// rounded shows a rate with three digits that count.
func rounded(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.2f", v)
	}
	unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(v))-2))
	return grouped(int(math.Round(v/unit) * unit))
}

// grouped writes a number with commas between its thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
