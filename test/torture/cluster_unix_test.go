//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// clusterElection is how long a leader may be silent. On a machine that is busy with other tests the usual time is too short
// for connections not to break between faults.
const clusterElection = 2 * time.Second

// nodes are a cluster of three servers.
type nodes struct {
	t     *testing.T
	dir   string
	names []string
	ports []string // at which they reach each other
	webs  []string
	args  []string // for all of them
	up    []*harness.Server
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	c := &nodes{t: t, dir: suite.DataDir(t), names: []string{"a", "b", "c"}, up: make([]*harness.Server, 3)}
	for range c.names {
		c.ports, c.webs = append(c.ports, freePort(t)), append(c.webs, freePort(t))
	}
	return c
}

// freePort returns an address that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start starts the nodes that do not run, all at once.
func (c *nodes) start() {
	c.t.Helper()
	var peers []string
	for i, name := range c.names {
		peers = append(peers, name+"="+c.ports[i])
	}
	var starts sync.WaitGroup
	errs := make([]error, len(c.names))
	for i, name := range c.names {
		if c.up[i] != nil {
			continue
		}
		starts.Go(func() {
			o := options(filepath.Join(c.dir, name), "--cluster-node", name, "--cluster-addr", c.ports[i], "--cluster-peers", strings.Join(peers, ","),
				"--cluster-election", clusterElection.String(), "--web-addr", c.webs[i])
			o.Args = append(o.Args, c.args...)
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
	Nodes  []clusterNode
}

type clusterNode struct {
	Reachable  bool
	LagEntries uint64 `json:"lag_entries"`
	LogBytes   uint64 `json:"log_bytes"`
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
		agreed := ""
		for i := range c.names {
			if c.up[i] == nil {
				continue
			}
			st, err := c.status(i)
			if err != nil || st.Leader == "" || agreed != "" && st.Leader != agreed {
				agreed = ""
				break
			}
			agreed = st.Leader
		}
		if agreed != "" {
			return slices.Index(c.names, agreed)
		}
		if time.Now().After(until) {
			var logs strings.Builder
			for i, s := range c.up {
				if s != nil {
					fmt.Fprintf(&logs, "%s:\n%s\n", c.names[i], s.Stderr())
				}
			}
			c.t.Fatalf("the nodes do not agree on a leader within a minute:\n%s", logs.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// nodeFault does something bad to nodes and returns when it is over.
type nodeFault struct {
	name string
	do   func(c *nodes, leader int, rnd *rand.Rand)
}

func pause(i int, longest time.Duration) func(c *nodes, leader int, rnd *rand.Rand) {
	return func(c *nodes, leader int, rnd *rand.Rand) {
		s := c.up[(leader+i)%len(c.up)]
		_ = s.Signal(syscall.SIGSTOP) // it runs
		<-time.After(100*time.Millisecond + time.Duration(rnd.Int64N(int64(longest))))
		_ = s.Signal(syscall.SIGCONT)
	}
}

var nodeFaults = []nodeFault{
	{"leader killed", func(c *nodes, leader int, _ *rand.Rand) { c.kill(leader) }},
	{"standby killed", func(c *nodes, leader int, _ *rand.Rand) { c.kill((leader + 1) % 3) }},
	{"two killed", func(c *nodes, leader int, _ *rand.Rand) { c.kill(leader, (leader+2)%3) }},
	{"all killed", func(c *nodes, _ int, _ *rand.Rand) { c.kill(0, 1, 2) }},
	{"leader paused", pause(0, 5*time.Second)},
	{"standby paused", pause(1, 5*time.Second)},
	{"leader paused for a moment", pause(0, 300*time.Millisecond)},
	{"leadership given away", func(c *nodes, leader int, _ *rand.Rand) {
		out, err := exec.CommandContext(c.t.Context(), program.Bin, "cluster", "transfer", "--api", "http://"+c.webs[leader]).CombinedOutput()
		if err != nil {
			c.t.Errorf("cluster transfer: %v: %s", err, out)
		}
	}},
	{"leader stopped", func(c *nodes, leader int, _ *rand.Rand) {
		if err := c.up[leader].Stop(20 * time.Second); err != nil {
			c.t.Error(err)
		}
		c.up[leader] = nil
	}},
}

// TestCluster does bad things to the nodes of a cluster under the load of all protocols, through all addresses: what was acknowledged is not
// lost, what a worker has acknowledged does not come back, every body is the one that was pushed, and in the end all nodes have the same.
func TestCluster(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newNodes(t)
	c.start()
	y := killYard()
	y.book.slewed = true
	rnd := random("cluster")
	c.leader()
	y.prepare(t, c.up[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	counts := map[string]int{}
	after := time.Duration(0)
	for number := range *faultCount {
		leader := c.leader()
		l := y.stage.BeginCluster(number+1, slices.Clone(c.up), after, false)
		<-time.After(300*time.Millisecond + time.Duration(rnd.Int64N(int64(*killAfter))))
		f := nodeFaults[number%len(nodeFaults)]
		counts[f.name]++
		close(l.Ending)
		struck := time.Now()
		f.do(c, leader, rnd)
		c.start()
		c.leader()
		after = time.Since(struck)
	}
	c.leader()
	y.stage.BeginCluster(*faultCount+1, slices.Clone(c.up), after, true)
	y.drain(t, c.up[0])
	<-done
	c.leader()
	for i := range c.up {
		if err := c.up[i].Stop(20 * time.Second); err != nil {
			t.Errorf("node %s: %v", c.names[i], err)
		}
	}
	lost, unknown := y.book.verdict()
	t.Logf("%d faults %v in %v: %d of %d pushes acknowledged, %d deliveries, %d lost, %d unknown", *faultCount, counts, time.Since(began).Round(time.Second),
		y.book.acknowledged, y.book.attempted, y.book.deliveries, lost, unknown)
	for _, v := range y.book.violations {
		t.Error(v)
	}
	if y.book.acknowledged < 20**faultCount {
		t.Errorf("only %d pushes were acknowledged beside %d faults: this was no load", y.book.acknowledged, *faultCount)
	}
	c.same()
	if t.Failed() {
		for i, s := range c.up {
			t.Logf("the log of node %s:\n%s", c.names[i], s.Stderr())
		}
	}
}

// same checks the data of all nodes, which have been stopped, and that it is the same.
func (c *nodes) same() {
	c.t.Helper()
	var first string
	for i, name := range c.names {
		dir := filepath.Join(c.dir, name, "store")
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

// A node that is further behind than the log of the others reaches back is sent all data, and goes on with the log from there.
func TestClusterCatchUp(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	c.args = []string{"--cluster-log-keep", "1MiB"}
	c.start()
	behind := (c.leader() + 1) % 3
	c.kill(behind)
	leader := c.leader()
	client := connect[*masenkoClient](t, masenko, c.up[leader])
	const pushes, size = 60, 100
	for i := range pushes {
		tokens := make([]string, size)
		for k := range tokens {
			tokens[k] = tokenOf(masenko, fmt.Sprintf("%d.%d", i, k)) + strings.Repeat("x", 1000)
		}
		if err := client.push("q", tokens...); err != nil {
			t.Fatal(err)
		}
	}
	// Until the log has been cut it has all that the node needs.
	c.await("the log is not cut", func(st clusterStatus) bool {
		return !slices.ContainsFunc(st.Nodes, func(n clusterNode) bool { return n.Reachable && n.LogBytes > 2<<20 })
	})
	c.start()
	c.leader()
	c.await("a node is behind", func(st clusterStatus) bool {
		return !slices.ContainsFunc(st.Nodes, func(n clusterNode) bool { return n.LagEntries > 0 || !n.Reachable })
	})
	if !strings.Contains(c.up[behind].Stderr(), "data of another node received") {
		t.Error("the node caught up without the data of another one: this was no test")
	}
	for i := range c.up {
		if err := c.up[i].Stop(20 * time.Second); err != nil {
			t.Errorf("node %s: %v", c.names[i], err)
		}
	}
	c.same()
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
			c.t.Fatalf("%s after a minute: %+v, %v", otherwise, st, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
