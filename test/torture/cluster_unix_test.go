//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
)

// clusterElection is how long a leader may be silent. On a machine that is busy with other tests the usual time is too
// short for connections not to break between faults.
const clusterElection = 2 * time.Second

// nodes are a cluster of three servers.
type nodes struct {
	t     *testing.T
	dir   string
	names []string
	hosts []string   // where they listen
	ports []string   // where they listen for each other
	peers []string   // where they reach each other
	in    [][]string // what runs a command where a node is
	webs  []string
	args  []string // for all of them
	bins  []string // what each runs; nil: the server under test
	// election is how long a leader may be silent.
	election time.Duration
	up       []*harness.Server

	wires // between them
	disks []*disk
	fault string // that they have, or had last
	led   uint64 // the term in which they last agreed on a leader
}

// wires are what nodes reach each other by. Nil means that they cannot be cut.
type wires interface {
	// cut stops what a node sends to another one. Nobody is told. Mend ends all cuts.
	cut(from, to int)
	mend()
}

// disk is what one node has its data on.
type disk struct {
	node int
	what string // happens to the node when the disk is spoilt
	// spoil spoils it, and mend lets the node use it again, which has ended.
	spoil, mend func()
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	c := &nodes{
		t: t, dir: suite.DataDir(t), names: []string{"a", "b", "c"}, up: make([]*harness.Server, 3),
		in: make([][]string, 3), election: clusterElection,
	}
	for range c.names {
		c.hosts, c.ports, c.webs = append(c.hosts, "127.0.0.1"), append(c.ports,
			freePort(t)), append(c.webs, freePort(t))
	}
	c.peers = c.ports
	t.Cleanup(func() {
		for i, s := range c.up {
			if t.Failed() && s != nil {
				t.Logf("the log of node %s:\n%s", c.names[i], s.Stderr())
			}
		}
	})
	return c
}

// freePort returns an address that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	addr, err := harness.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// start starts the nodes that do not run, all at once.
func (c *nodes) start() {
	c.t.Helper()
	var peers []string
	for i, name := range c.names {
		peers = append(peers, name+"="+c.peers[i])
	}
	var starts sync.WaitGroup
	errs := make([]error, len(c.names))
	for i, name := range c.names {
		if c.up[i] != nil {
			continue
		}
		starts.Go(func() {
			o := options(c.data(i), "--cluster-node", name, "--cluster-addr", c.ports[i], "--cluster-peers",
				strings.Join(peers, ","),
				"--cluster-election", c.election.String(), "--web-addr", c.webs[i], "--cluster-insecure",
				"--listen-insecure")
			if c.bins != nil {
				o.Bin = c.bins[i]
			}
			o.Args = append(append(slices.Clone(c.in[i]), o.Bin), append(o.Args, c.args...)...)
			o.Bin, o.Args = o.Args[0], o.Args[1:]
			o.Env = slices.Clone(o.Env)
			for k, listener := range o.Env {
				o.Env[k] = strings.Replace(listener, "=127.0.0.1:", "="+c.hosts[i]+":", 1)
			}
			c.up[i], errs[i] = harness.Start(c.t.Context(), o)
		})
	}
	starts.Wait()
	if err := errors.Join(errs...); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.up {
		c.t.Cleanup(s.Kill)
	}
}

// data returns the directory of a node.
func (c *nodes) data(i int) string { return filepath.Join(c.dir, c.names[i]) }

// kill kills nodes.
func (c *nodes) kill(which ...int) {
	var kills sync.WaitGroup
	for _, i := range which {
		kills.Go(c.up[i].Kill)
	}
	kills.Wait()
	for _, i := range which {
		c.up[i] = nil
	}
}

// clusterStatus is what a node says about the cluster.
type clusterStatus struct {
	Leader string
	Term   uint64
	Format uint64
	Nodes  []clusterNode
}

type clusterNode struct {
	Name       string
	Reachable  bool
	Format     uint64
	LagEntries uint64 `json:"lag_entries"`
	LogBytes   uint64 `json:"log_bytes"`
	Received   int64  `json:"catchup_received_bytes"`
	Receives   int64  `json:"catchup_size_bytes"`
}

// status asks a node about the cluster.
func (c *nodes) status(i int) (st clusterStatus, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.webs[i]+"/api/v1/cluster", nil)
	if err != nil {
		return st, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return st, err
	}
	defer func() { _ = resp.Body.Close() }()
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

// leader waits until all nodes that run agree on a leader, and returns it.
func (c *nodes) leader() int {
	c.t.Helper()
	until := time.Now().Add(time.Minute)
	for {
		agreed, term := "", uint64(0)
		for i := range c.names {
			if c.up[i] == nil {
				continue
			}
			st, err := c.status(i)
			if err != nil || st.Leader == "" || agreed != "" && st.Leader != agreed {
				agreed = ""
				break
			}
			agreed, term = st.Leader, max(term, st.Term)
		}
		if agreed != "" {
			c.led = term
			return slices.Index(c.names, agreed)
		}
		if time.Now().After(until) {
			c.t.Fatalf("%s: the nodes do not agree on a leader within a minute", c.fault)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// calm lets clients work for a while without a fault. It ends the life, and the ledger takes back what a change of the
// leader since leader was asked explains.
func (c *nodes) calm(y *yard, l *suite.Life, d time.Duration) {
	<-time.After(d)
	close(l.Ending)
	c.excuse(y, l)
}

// excuse has the ledger take back what a change of the leader in a life explains, if there was one.
func (c *nodes) excuse(y *yard, l *suite.Life) {
	for i, s := range c.up {
		if s == nil {
			continue
		}
		if st, err := c.status(i); err != nil || st.Leader == "" || st.Term != c.led {
			y.book.excuse(l.Number)
			return
		}
	}
}

// nodeFault is something bad that happens to nodes.
type nodeFault struct {
	name string
	// shortest and longest are how long it lasts.
	shortest, longest time.Duration
	// minor: two of the three are well, and can reach each other.
	minor bool
	// strike begins it, and returns what ends it, nil if there is nothing to end. Nodes that do not run are started
	// afterwards.
	strike func(c *nodes, leader int, rnd *rand.Rand) (end func())
}

func killed(which ...int) func(*nodes, int, *rand.Rand) func() {
	return func(c *nodes, leader int, _ *rand.Rand) func() {
		list := make([]int, len(which))
		for k, i := range which {
			list[k] = (leader + i) % 3
		}
		c.kill(list...)
		return nil
	}
}

func paused(i int) func(*nodes, int, *rand.Rand) func() {
	return func(c *nodes, leader int, _ *rand.Rand) func() {
		s := c.up[(leader+i)%3]
		_ = s.Signal(syscall.SIGSTOP) // it runs
		return func() { _ = s.Signal(syscall.SIGCONT) }
	}
}

// cutOff cuts some of the ways between nodes, each given as from and to, counted from the leader.
func cutOff(ways ...[2]int) func(*nodes, int, *rand.Rand) func() {
	return func(c *nodes, leader int, _ *rand.Rand) func() {
		for _, way := range ways {
			c.cut((leader+way[0])%3, (leader+way[1])%3)
		}
		return c.mend
	}
}

// The nodes of a fault are counted from the leader: 0 leads, 1 and 2 stand by.
var nodeFaults = []nodeFault{
	{"leader killed", 0, 3 * time.Second, true, killed(0)},
	{"standby killed", 0, 3 * time.Second, true, killed(1)},
	{"two killed", 0, 3 * time.Second, false, killed(0, 2)},
	{"all killed", 0, time.Second, false, killed(0, 1, 2)},
	{"leader paused", 100 * time.Millisecond, 20 * time.Second, true, paused(0)},
	{"standby paused", 100 * time.Millisecond, 20 * time.Second, true, paused(1)},
	{"leadership given away", 0, 100 * time.Millisecond, false, func(c *nodes, leader int, _ *rand.Rand) func() {
		args := append(slices.Clone(c.in[leader]), program.Bin, "cluster", "transfer", "--api",
			"http://"+c.webs[leader])
		// It returns when another node leads. That one may not be ready in time, or may not have been heard of since
		// the fault before: then nothing is given away.
		for give := time.Now().Add(time.Minute); ; {
			out, err := exec.CommandContext(c.t.Context(), args[0], args[1:]...).CombinedOutput()
			if err == nil {
				return nil
			}
			if time.Now().After(give) {
				c.t.Errorf("cluster transfer: %v: %s", err, out)
				return nil
			}
		}
	}},
	{"leader stopped", 0, time.Second, true, func(c *nodes, leader int, _ *rand.Rand) func() {
		if err := c.up[leader].Stop(20 * time.Second); err != nil {
			c.t.Error(err)
		}
		c.up[leader] = nil
		return nil
	}},
}

const (
	cutShortest = 500 * time.Millisecond
	cutLongest  = 10 * time.Second
)

// cutFaults are those of the network between nodes.
var cutFaults = []nodeFault{
	{"leader cut off", cutShortest, cutLongest, true, cutOff([2]int{0, 1}, [2]int{1, 0}, [2]int{0, 2}, [2]int{2, 0})},
	{"standby cut off", cutShortest, cutLongest, true, cutOff([2]int{1, 0}, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 1})},
	{
		"all cut off", cutShortest, cutLongest, false,
		cutOff([2]int{0, 1}, [2]int{1, 0}, [2]int{0, 2}, [2]int{2, 0}, [2]int{1, 2}, [2]int{2, 1}),
	},
	{"leader hears nobody", cutShortest, cutLongest, true, cutOff([2]int{1, 0}, [2]int{2, 0})},
	{"nobody hears the leader", cutShortest, cutLongest, true, cutOff([2]int{0, 1}, [2]int{0, 2})},
	{"standby hears nobody", cutShortest, cutLongest, true, cutOff([2]int{0, 1}, [2]int{2, 1})},
	{"nobody hears a standby", cutShortest, cutLongest, true, cutOff([2]int{1, 0}, [2]int{1, 2})},
	{"leader and a standby cut off from each other", cutShortest, cutLongest, true, cutOff([2]int{0, 1}, [2]int{1, 0})},
	{"standby does not hear the leader", cutShortest, cutLongest, true, cutOff([2]int{0, 1})},
	{"leader does not hear a standby", cutShortest, cutLongest, true, cutOff([2]int{1, 0})},
	{"standbys cut off from each other", cutShortest, cutLongest, true, cutOff([2]int{1, 2}, [2]int{2, 1})},
}

// diskFault spoils the disk of a node, which ends because of that.
func diskFault(d *disk) nodeFault {
	return nodeFault{d.what, 0, 3 * time.Second, true, func(c *nodes, _ int, _ *rand.Rand) func() {
		d.spoil()
		select {
		case <-c.up[d.node].Done():
			c.ends(d.node)
		case <-time.After(diskPatience):
			c.t.Logf("node %s has needed nothing more of its disk for %v", c.names[d.node], diskPatience)
			c.kill(d.node)
		}
		return d.mend
	}}
}

// diskPatience is how long a node with a full disk may find space in what it has.
const diskPatience = 10 * time.Second

// ends waits until a node has ended by itself, as one must that cannot write.
func (c *nodes) ends(i int) {
	s := c.up[i]
	select {
	case <-s.Done():
		if code := s.ExitCode(); code <= 0 {
			c.t.Errorf("node %s, which cannot write, has ended with status %d:\n%s", c.names[i], code, s.Stderr())
		}
	case <-time.After(time.Minute):
		c.t.Errorf("node %s goes on although it cannot write:\n%s", c.names[i], s.Stderr())
		s.Kill()
	}
	c.up[i] = nil
}

// faults returns what can happen to these nodes.
func (c *nodes) faults() []nodeFault {
	list := slices.Clone(nodeFaults)
	if c.wires != nil {
		list = append(list, cutFaults...)
	}
	for _, d := range c.disks {
		list = append(list, diskFault(d))
	}
	list = append(list, writeFaults...)
	return slices.DeleteFunc(list, func(f nodeFault) bool { return !strings.Contains(f.name, *faultKind) })
}

// lasts draws how long a fault lasts: short ones are as likely as long ones.
func (f *nodeFault) lasts(rnd *rand.Rand, most time.Duration) time.Duration {
	from, to := max(f.shortest, 50*time.Millisecond), min(f.longest, most)
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), rnd.Float64()))
}

// stop stops all nodes once none is behind.
func (c *nodes) stop() {
	c.t.Helper()
	c.level()
	for i := range c.up {
		if err := c.up[i].Stop(20 * time.Second); err != nil {
			c.t.Errorf("node %s: %v", c.names[i], err)
		}
	}
}

// same checks the data of all nodes, which have been stopped, and that it is the same.
func (c *nodes) same() {
	c.t.Helper()
	var first string
	for i, name := range c.names {
		dir := filepath.Join(c.data(i), "store")
		out, err := exec.CommandContext(c.t.Context(), program.Bin, "check", "--json", dir).Output()
		if err != nil {
			c.t.Errorf("check of node %s: %v: %s", name, err, out)
		}
		var found struct{ Queues json.RawMessage }
		if err := json.Unmarshal(out, &found); err != nil || len(found.Queues) == 0 {
			c.t.Fatalf("check of node %s says %s: %v", name, out, err)
		}
		if i == 0 {
			first = string(found.Queues)
		} else if string(found.Queues) != first {
			c.t.Errorf("node %s has %s, node %s has %s", c.names[0], first, name, found.Queues)
		}
	}
}

// leaveBehind kills a node and has the others do more than their log keeps: so many pushes of 100 jobs.
func (c *nodes) leaveBehind(behind, pushes int) {
	c.t.Helper()
	c.kill(behind)
	leader := c.leader()
	rnd := random("behind")
	for i := range pushes {
		tokens := make([]string, 100)
		for k := range tokens {
			body := make([]byte, 1000) // which cannot be made shorter
			for n := range body {
				body[n] = byte('0' + rnd.IntN(64))
			}
			tokens[k] = tokenOf(masenko, fmt.Sprintf("%d.%d", i, k)) + strings.ReplaceAll(string(body), "\\", "x")
		}
		persist(c.t, masenko, c.up[leader], func(m *wire.Masenko) error {
			return (&client{m, masenko}).push("q", tokens...)
		})
	}
	// Until the log has been cut it has all that the node needs.
	c.await("the log is not cut", func(st clusterStatus) bool {
		return !slices.ContainsFunc(st.Nodes, func(n clusterNode) bool { return n.Reachable && n.LogBytes > 2<<20 })
	})
}

// A node that is further behind than the log of the others reaches back is sent all data, and goes on with the log from
// there.
func TestClusterCatchUp(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	c.args = []string{"--cluster-log-keep", "1MiB"}
	c.start()
	behind := (c.leader() + 1) % 3
	c.leaveBehind(behind, 60)
	c.start()
	c.leader()
	c.level()
	if !strings.Contains(c.up[behind].Stderr(), "data of another node received") {
		t.Error("the node caught up without the data of another one: this was no test")
	}
	c.stop()
	c.same()
}

// level waits until all nodes have the same.
func (c *nodes) level() {
	c.t.Helper()
	c.await("a node is behind", func(st clusterStatus) bool {
		return !slices.ContainsFunc(st.Nodes, func(n clusterNode) bool { return n.LagEntries > 0 || !n.Reachable })
	})
}

// await waits until what a node says about the cluster is as it should be.
func (c *nodes) await(otherwise string, good func(clusterStatus) bool) {
	c.t.Helper()
	until := time.Now().Add(time.Minute)
	for {
		st, err := c.status(c.leader())
		if err == nil && good(st) {
			return
		}
		if time.Now().After(until) {
			c.t.Fatalf("%s: %s after a minute: %+v, %v", c.fault, otherwise, st, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
