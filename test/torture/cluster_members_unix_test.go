//go:build unix

package torture

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
)

// grow adds a node, which is not started yet.
func (c *nodes) grow(name string) (added int) {
	c.names, c.up, c.in = append(c.names, name), append(c.up, (*harness.Server)(nil)), append(c.in, nil)
	c.hosts, c.ports, c.webs = append(c.hosts, "127.0.0.1"), append(c.ports,
		freePort(c.t)), append(c.webs, freePort(c.t))
	c.peers = c.ports
	return len(c.names) - 1
}

// members runs a command about the members at a node until it succeeds: while the leader changes it cannot.
func (c *nodes) members(at int, args ...string) {
	c.t.Helper()
	args = append([]string{"cluster", args[0], "--api", "http://" + c.webs[at]}, args[1:]...)
	for until := time.Now().Add(2 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		out, err := exec.CommandContext(c.t.Context(), program.Bin, args...).CombinedOutput()
		// The answer to an attempt before was lost.
		if err == nil || strings.Contains(string(out), "has no node "+args[len(args)-2]) {
			return
		}
		if strings.Contains(string(out), "leads: have another one lead first") {
			// it may be in vain, too
			_ = exec.CommandContext(c.t.Context(), program.Bin, "cluster", "transfer", "--api",
				"http://"+c.webs[at]).Run()
		}
		if time.Now().After(until) {
			c.t.Errorf("%s: %v: %s", strings.Join(args, " "), err, out)
			return
		}
	}
}

// join adds a node, of which some others are killed meanwhile.
func (c *nodes) join(i int, killed ...int) {
	c.t.Helper()
	at := 0
	for at == i || slices.Contains(killed, at) {
		at++
	}
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		c.members(at, "join", c.names[i]+"="+c.peers[i], "--timeout", "30s")
	}()
	for _, k := range killed {
		<-time.After(300 * time.Millisecond)
		c.kill(k)
		c.start()
	}
	<-joined
}

// wipe kills a node and starts it without its data.
func (c *nodes) wipe(i int) {
	c.t.Helper()
	c.kill(i)
	if err := os.RemoveAll(c.data(i)); err != nil {
		c.t.Fatal(err)
	}
	c.start()
}

// memberChanges are what happens to the members of a cluster of four, the last of which is added by the first of them.
// Nodes are counted from the leader.
var memberChanges = []struct {
	name   string
	change func(c *nodes, leader int)
}{
	{"a node is added, and killed meanwhile", func(c *nodes, _ int) {
		added := c.grow("d")
		c.start()
		c.join(added, added)
	}},
	{"a standby is removed and added again", func(c *nodes, leader int) {
		i := (leader + 1) % len(c.names)
		c.members(leader, "remove", c.names[i], "--yes")
		c.join(i)
	}},
	{"a standby loses its data, and is replaced while the leader is killed", func(c *nodes, leader int) {
		i := (leader + 2) % len(c.names)
		c.wipe(i)
		c.members(i, "remove", c.names[i], "--yes")
		c.join(i, c.leader())
	}},
	{"the leader loses its data, and is replaced", func(c *nodes, leader int) {
		c.wipe(leader)
		c.members((leader+1)%len(c.names), "remove", c.names[leader], "--yes")
		c.join(leader)
	}},
}

// TestClusterMembers adds, removes and replaces nodes under the load of all protocols, and kills some of them
// meanwhile: what was acknowledged is not lost, what a worker has acknowledged does not come back, and in the end all
// nodes have the same.
func TestClusterMembers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newNodes(t)
	c.args = []string{"--cluster-log-keep", "1MiB"} // so that new nodes are sent all data
	c.start()
	y := clusterYard(t)
	c.leader()
	y.prepare(t, c.up[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	number, after := 1, time.Duration(0)
	for _, m := range memberChanges {
		leader := c.leader()
		calm := y.stage.BeginCluster(number, slices.Clone(c.up), after, false)
		c.calm(y, calm, time.Second)
		storm := y.stage.BeginStorm(number+1, slices.Clone(c.up))
		struck := time.Now()
		c.fault = m.name
		m.change(c, leader)
		y.goesOn(t, m.name, time.Now())
		c.leader()
		after = time.Since(struck)
		close(storm.Ending)
		t.Logf("%s: %v", m.name, after.Round(time.Millisecond))
		number += 2
	}
	c.leader()
	last := y.stage.BeginCluster(number, slices.Clone(c.up), after, true)
	y.drain(t, c.up[0])
	<-done
	c.excuse(y, last)
	c.stop()
	for _, row := range y.figures(time.Since(began)) {
		t.Logf("%s: %s", row[0], row[1])
	}
	for _, v := range y.book.violations {
		t.Error(v)
	}
	if y.book.acknowledged < 200 {
		t.Errorf("only %d pushes were acknowledged: this was no load", y.book.acknowledged)
	}
	c.same()
}
