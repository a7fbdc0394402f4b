//go:build unix

package torture

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"millrace/internal/wire"
	"millrace/test/tier"
)

// historyOps is what each client of a history does. Fewer than on one server: each that was connected leaves something
// open when the leader changes.
const historyOps = 12

// historyElection is how long a leader may be silent while histories are made. It is short, so that there is another
// one while they last.
const historyElection = 500 * time.Millisecond

// shortRounds is how many rounds the short form has at most.
const shortRounds = 8

// TestClusterLinearizable is TestLinearizable for a cluster, whose nodes are killed, paused and cut off: clients ask
// whichever node they like, and what that answers must fit to what all others have answered.
func TestClusterLinearizable(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newNodes(t)
	c.args, c.election = []string{"--workq-default-ttr", linearLease.String()}, historyElection
	c.proxies()
	c.start()
	r := &linearRun{t: t}
	rnd := random("cluster histories")
	faults := c.faults()
	rnd.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	counts := map[string]int{}
	count, most, enough := *clusterRounds, longFault, time.Duration(math.MaxInt64)
	if count == 0 {
		count, most, enough = tier.Pick(shortRounds, 1), shortFault, shortTime
	}
	// A busy machine leaves more histories undecided: a few more rounds are made then.
	more := func(round int) bool {
		return round < count && time.Since(began) < enough || r.vague() && round < shortRounds
	}
	for round := 0; more(round) && !t.Failed(); round++ {
		f := &faults[round%len(faults)]
		counts[f.name]++
		r.clusterRound(c, round, f, most)
	}
	c.stop()
	writeReport(t, "cluster histories", [][2]string{
		{"Histories", fmt.Sprintf("%d, of %d clients each", r.checked, linearActors)},
		{"Operations attempted", strconv.Itoa(r.totals.total)},
		{"Answered yes, no", fmt.Sprintf("%d, %d", r.totals.answered, r.totals.refused)},
		{"Ambiguous", strconv.Itoa(r.totals.open)},
		{"Not linearizable", "0"},
		{"Undecided within " + linearPatience.String(), strconv.Itoa(r.undecided)},
		{"Longest search", r.longest.Round(time.Millisecond).String()},
		{"Faults", told(counts)},
		{"Nodes", c.about()},
		{"Changes of the leader", strconv.Itoa(r.kills)},
		{"Took", time.Since(began).Round(time.Second).String()},
	})
	if r.vague() {
		t.Errorf("%d of %d histories could not be decided", r.undecided, r.checked)
	}
	if r.totals.answered < 10*r.checked {
		t.Errorf("%d operations were answered in %d histories: this was no load", r.totals.answered, r.checked)
	}
}

// clusterRound makes some histories side by side, during which something happens to the nodes, and checks them.
func (r *linearRun) clusterRound(c *nodes, round int, f *nodeFault, most time.Duration) {
	r.t.Helper()
	rnd := random("cluster round", strconv.Itoa(round))
	leader := c.leader()
	term := c.term(leader)
	r.server = c.up[leader]
	histories := make([]*history, linearQueues)
	for i := range histories {
		histories[i] = newHistory(fmt.Sprintf("c%dx%d", round, i), true)
		persist(r.t, tarantool, r.server, func(tube *wire.Tarantool) error {
			return tube.Create(histories[i].queue, "fifottl")
		})
	}
	addrs := make([]map[string]string, len(c.up))
	for i, s := range c.up {
		addrs[i] = maps.Clone(s.Addrs)
	}
	length := f.lasts(rnd, most)
	pace := 2 * (length + 2*time.Second) / historyOps // so that histories are longer than the fault
	var playing sync.WaitGroup
	var actors []*actor
	for i, h := range histories {
		for k := range linearActors {
			a := &actor{
				history: h, proto: proto((i + k) % int(modelled)),
				rnd: random("actor", h.queue, strconv.Itoa(k)),
			}
			actors = append(actors, a)
			playing.Go(func() { a.roam(addrs, pace) })
		}
	}
	<-time.After(time.Duration(rnd.Int64N(int64(time.Second))))
	struck := make([]int64, len(histories))
	for i, h := range histories {
		struck[i] = h.now()
	}
	c.fault = f.name
	end := f.strike(c, leader, rnd)
	<-time.After(length)
	if end != nil {
		end()
	}
	c.start()
	c.leader()
	playing.Wait()
	leader = c.leader()
	r.server = c.up[leader]
	changes := int(c.term(leader) - term)
	r.kills += changes
	r.t.Logf("%d: %s for %v, %d changes of the leader", round+1, f.name, length.Round(time.Millisecond), changes)
	for i, h := range histories {
		for range changes {
			h.record(input{verb: doRestart}, output{}, struck[i])
		}
		r.finish(h)
	}
	for _, a := range actors { // not before: the end of a connection would be one more event
		if a.c != nil {
			_ = a.c.Close() // nothing is asked of it any more
		}
	}
	for _, h := range histories {
		r.check(h)
	}
}

// term returns the term in which a node leads.
func (c *nodes) term(leader int) uint64 {
	c.t.Helper()
	st, err := c.status(leader)
	if err != nil {
		c.t.Fatal(err)
	}
	return st.Term
}

// roam lets an actor act, at whichever node it likes each time that it connects, and wait up to pace before.
func (a *actor) roam(nodes []map[string]string, pace time.Duration) {
	for range historyOps {
		<-time.After(time.Duration(a.rnd.Int64N(int64(pace))))
		if a.c == nil && a.join(nodes[a.rnd.IntN(len(nodes))][a.proto.String()]) != nil {
			continue
		}
		if err := a.act(); err != nil {
			a.leave()
		}
	}
}
