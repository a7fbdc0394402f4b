//go:build unix

package torture

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
)

var previousFlag = flag.String("previous", "",
	"the commit whose server the nodes run that are upgraded; empty: the last but one, or where there is none this one")

// buildPrevious builds the server of an earlier commit.
func buildPrevious(t *testing.T) string {
	t.Helper()
	dir, revision := t.TempDir(), *previousFlag
	if revision == "" {
		revision = "HEAD~1"
	}
	archive := exec.CommandContext(t.Context(), "git", "-C", "../..", "archive", "--format=tar", "--output",
		filepath.Join(dir, "source.tar"), revision)
	if out, err := archive.CombinedOutput(); err != nil {
		if *previousFlag != "" {
			t.Fatalf("git archive %s: %v: %s", revision, err, out)
		}
		t.Logf("there is no earlier commit, so nodes are only restarted: git archive %s: %v: %s", revision, err, out)
		return program.Bin
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o750); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", filepath.Join(dir, "source.tar"), "-C",
		source).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	bin, err := harness.BuildFrom(t.Context(), source, dir)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// upgradeOrders are all orders in which three nodes can be upgraded.
var upgradeOrders = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestClusterUpgrade upgrades the nodes of a cluster from the previous commit to this one under the load of all
// protocols, one after the other, in every order. In the short form it takes two of the orders. Nothing that was
// acknowledged is lost, whichever of the two leads, and a node that falls back in between to the earlier one still
// takes part.
func TestClusterUpgrade(t *testing.T) {
	t.Parallel()
	previous := buildPrevious(t)
	orders := slices.Clone(upgradeOrders)
	if *faultCount == 0 {
		rnd := random("upgrade")
		rnd.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
		orders = orders[:2]
	}
	for _, order := range orders {
		upgrade(t, previous, order, random("upgrade", fmt.Sprint(order)))
	}
}

// upgrade upgrades a new cluster in an order that counts from the leader of the beginning.
func upgrade(t *testing.T, previous string, order []int, rnd *rand.Rand) {
	t.Helper()
	began := time.Now()
	c := newNodes(t)
	c.bins = []string{previous, previous, previous}
	c.start()
	y := clusterYard(t)
	first := c.leader()
	known := c.gated()
	y.prepare(t, c.up[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	number, after := 1, time.Duration(0)
	restart := func(i int, bin, what string) {
		t.Helper()
		calm := y.stage.BeginCluster(number, slices.Clone(c.up), after, false)
		c.calm(y, calm, 500*time.Millisecond)
		storm := y.stage.BeginStorm(number+1, slices.Clone(c.up))
		struck := time.Now()
		c.fault = what + " node " + c.names[i]
		if rnd.IntN(2) == 0 {
			c.kill(i)
		} else {
			if err := c.up[i].Stop(20 * time.Second); err != nil {
				t.Error(err)
			}
			c.up[i] = nil
		}
		c.bins[i] = bin
		c.start()
		c.leader()
		y.goesOn(t, c.fault, time.Now())
		after = time.Since(struck)
		close(storm.Ending)
		number += 2
	}
	for k, i := range order {
		i = (first + i) % len(c.names)
		c.gated()
		restart(i, program.Bin, "upgrade of")
		if k == 1 { // while one is still of the earlier release there is a way back
			restart(i, previous, "fall-back of")
			restart(i, program.Bin, "upgrade of")
		}
	}
	c.await("the format that all know is not used", func(st clusterStatus) bool {
		return !slices.ContainsFunc(st.Nodes, func(n clusterNode) bool { return n.Format > st.Format })
	})
	knows := c.gated()
	last := y.stage.BeginCluster(number, slices.Clone(c.up), after, true)
	y.drain(t, c.up[0])
	<-done
	c.excuse(y, last)
	c.stop()
	if known < knows {
		c.noWayBack(previous)
	}
	lost, _ := y.book.verdict()
	t.Logf("order %v from leader %s, format %d to %d: %d pushes acknowledged, %d lost, %v", order,
		c.names[first], known,
		knows, y.book.acknowledged, lost, time.Since(began).Round(time.Second))
	for _, v := range y.book.violations {
		t.Error(v)
	}
	if y.book.acknowledged < 100 {
		t.Errorf("only %d pushes were acknowledged: this was no load", y.book.acknowledged)
	}
	c.same()
}

// gated waits until the leader has heard of all nodes, and checks that the data has no format that one of them does not
// know. It returns the newest format that all know.
func (c *nodes) gated() (known uint64) {
	c.t.Helper()
	c.await("not all nodes are heard of, or the data has a format that one of them does not know",
		func(st clusterStatus) bool {
			known = math.MaxUint64
			for _, n := range st.Nodes {
				if !n.Reachable {
					return false
				}
				known = min(known, n.Format)
			}
			return st.Format <= known
		})
	return known
}

// noWayBack starts a release that knows only an earlier format with the data of a node, which it must refuse.
func (c *nodes) noWayBack(previous string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	o := options(c.data(0), "--cluster-node", c.names[0], "--cluster-addr", c.ports[0], "--cluster-peers",
		c.names[0]+"="+c.ports[0])
	cmd := exec.CommandContext(ctx, previous, o.Args...)
	cmd.Env = append(os.Environ(), o.Env...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "run the newer release") {
		c.t.Errorf("the earlier release starts with data of a later format: %v: %s", err, out)
	}
}
