//go:build unix

package torture

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/tier"
)

// How long faults last at most in the long form of the tests and in the short one, and how long that one goes on with
// others.
const (
	longFault  = 20 * time.Second
	shortFault = time.Second
	shortTime  = 30 * time.Second
	quickTime  = 5 * time.Second // in the quick tier
)

// siege is a cluster that one fault after another strikes under the load of all protocols, through all addresses.
type siege struct {
	*nodes
	y      *yard
	rnd    *rand.Rand
	began  time.Time
	faults []nodeFault
	most   time.Duration // how long a fault lasts at most
	counts map[string]int
	struck int           // faults so far
	after  time.Duration // how long it took after the last one until all was well again
	done   chan struct{} // closed when all clients have ended
}

// clusterYard is the load of a cluster. In the quick tier its clients do not push as fast as they can: the processors
// are left to the tests that run beside it.
func clusterYard(t *testing.T) *yard {
	t.Helper()
	y := killYard(holding)
	y.book.slewed = true
	if !tier.Full() {
		ticks := time.NewTicker(2 * time.Millisecond)
		t.Cleanup(ticks.Stop)
		y.paced = ticks.C
	}
	return y
}

// besiege starts nodes and their clients.
func besiege(c *nodes, y *yard) *siege {
	c.t.Helper()
	s := &siege{
		nodes: c, y: y, rnd: random("cluster"), began: time.Now(), most: longFault, counts: map[string]int{},
		done: make(chan struct{}),
	}
	c.wire()
	c.furnish()
	c.start()
	s.faults = c.faults()
	c.leader()
	y.prepare(c.t, c.up[0])
	go func() {
		defer close(s.done)
		y.run()
	}()
	return s
}

// strike has the next fault happen, after a time of calm.
func (s *siege) strike(calm func(leader int)) {
	s.t.Helper()
	leader := s.leader()
	number := 2*s.struck + 1
	life := s.y.stage.BeginCluster(number, slices.Clone(s.up), s.after, false)
	calm(leader)
	s.calm(s.y, life, 0)
	if s.struck%len(s.faults) == 0 {
		s.rnd.Shuffle(len(s.faults), func(i, j int) { s.faults[i], s.faults[j] = s.faults[j], s.faults[i] })
	}
	f := &s.faults[s.struck%len(s.faults)]
	s.struck++
	s.counts[f.name]++
	storm := s.y.stage.BeginStorm(number+1, slices.Clone(s.up))
	struck := time.Now()
	length := f.lasts(s.rnd, s.most)
	s.fault = f.name
	end := f.strike(s.nodes, leader, s.rnd)
	<-time.After(length)
	if f.minor && s.rnd.IntN(2) == 0 {
		s.y.goesOn(s.t, f.name, struck)
	}
	if end != nil {
		end()
	}
	s.start()
	s.leader()
	s.after = time.Since(struck) - length
	close(storm.Ending)
	s.t.Logf("%d: %s for %v, and %v until all was well again", s.struck, f.name, length.Round(time.Millisecond),
		s.after.Round(time.Millisecond))
}

// end drains what is left, reports, and checks what the clients saw and what the nodes have.
func (s *siege) end(report string, more ...[2]string) {
	s.t.Helper()
	s.leader()
	last := s.y.stage.BeginCluster(2*s.struck+1, slices.Clone(s.up), s.after, true)
	s.y.drain(s.t, s.up[0])
	<-s.done
	s.excuse(s.y, last)
	s.stop()
	writeReport(s.t, report, append(append([][2]string{
		{"Faults", fmt.Sprintf("%d: %s", s.struck, told(s.counts))},
		{"Nodes", s.about()},
		{"Clients", fmt.Sprintf("%d producers, %d workers, six protocols on %d shared queues, through all three nodes",
			killProducers, killWorkers, killQueues)},
	}, s.y.figures(time.Since(s.began))...), more...))
	for _, v := range s.y.book.violations {
		s.t.Error(v)
	}
	if s.y.book.acknowledged < 20*s.struck {
		s.t.Errorf("only %d pushes were acknowledged beside %d faults: this was no load", s.y.book.acknowledged,
			s.struck)
	}
	s.same()
}

// TestCluster does bad things to the nodes of a cluster under the load of all protocols, through all addresses, which
// goes on meanwhile: what was acknowledged is not lost, what a worker has acknowledged does not come back, every body
// is the one that was pushed, and in the end all nodes have the same.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := besiege(newNodes(t), clusterYard(t))
	count, enough := *faultCount, time.Duration(math.MaxInt64)
	if count == 0 {
		count, s.most, enough = len(s.faults), shortFault, tier.Pick(shortTime, quickTime)
	}
	for s.struck < count && time.Since(s.began) < enough && !t.Failed() {
		s.strike(func(int) {
			<-time.After(100*time.Millisecond + time.Duration(s.rnd.Int64N(int64(*killAfter))))
		})
	}
	s.end("cluster")
}

// told lists how often something happened.
func told(counts map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}

// goesOn waits until a push is acknowledged that was sent after a moment.
func (y *yard) goesOn(t *testing.T, despite string, since time.Time) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		y.book.mu.Lock()
		latest := y.book.latest
		y.book.mu.Unlock()
		if latest.After(since) {
			return
		}
		if time.Now().After(until) {
			t.Errorf("%s: the others acknowledge nothing for a minute", despite)
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}
