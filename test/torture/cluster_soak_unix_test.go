//go:build unix

package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/tier"
)

const (
	// clusterPace is how many pushes there are in a second: enough to fill the log many times over in an hour, and few
	// enough for the ledger, which forgets nothing.
	clusterPace = 300
	// clusterKeep is how much of the log nodes keep: little, so that they cut it from the first minutes on.
	clusterKeep = 64 << 20
)

// TestClusterSoak has one fault a minute strike a cluster under load for as long as it is told, and asks whether
// memory, log and disk stay flat. Of each the node that has most counts. How long clients wait follows from the faults,
// so it is told and not judged.
func TestClusterSoak(t *testing.T) {
	t.Parallel()
	length, most, judged := *soakTime, longFault, *soakTime >= 10*time.Minute
	if length == 0 {
		length, most = tier.Pick(4*time.Second, time.Second), shortFault
	}
	every := min(time.Minute, length/2)
	ticks := time.NewTicker(time.Second / clusterPace)
	defer ticks.Stop()
	c, y := newNodes(t), clusterYard(t)
	c.args, y.paced = []string{"--cluster-log-keep", fmt.Sprint(clusterKeep)}, ticks.C
	s := besiege(c, y)
	s.most = most
	var samples []sample
	for start, next := time.Now(), time.Now(); time.Since(start) < length && !t.Failed(); {
		s.strike(func(leader int) {
			// A fault that lasts long is followed by a short calm.
			next = next.Add(every)
			<-time.After(max(time.Until(next), every/10))
			samples = append(samples, s.sample(leader))
		})
	}
	s.end("cluster soak", append([][2]string{
		{"Load", fmt.Sprintf("%d pushes a second", clusterPace)},
		{"Log kept", fmt.Sprintf("%d MiB", clusterKeep>>20)},
	}, tellVerdict(t, samples, every, judged)...)...)
}

// sample measures all nodes, which run, tells what each has, and returns the largest of each figure.
func (s *siege) sample(leader int) (most sample) {
	s.t.Helper()
	var st clusterStatus
	s.await("a node does not tell how long its log is", func(now clusterStatus) bool {
		st = now
		return len(now.Nodes) == len(s.names) &&
			!slices.ContainsFunc(now.Nodes, func(n clusterNode) bool { return n.LogBytes == 0 })
	})
	var clients sample
	s.y.pace(&clients)
	var b strings.Builder
	for i, name := range s.names {
		m, err := harness.ReadMemory(s.up[i].Pid())
		if err != nil {
			s.t.Fatal(err)
		}
		disk, err := harness.DirSize(s.data(i))
		if err != nil {
			s.t.Fatal(err)
		}
		log := st.Nodes[i].LogBytes
		fmt.Fprintf(&b, "; %s: %d MiB resident, %d at most, %d log, %d disk", name, m.Resident>>20, m.Peak>>20, log>>20,
			disk>>20)
		most.resident, most.disk = max(most.resident, m.Resident), max(most.disk, disk)
		most.log = max(most.log, log)
	}
	s.t.Logf("%v: %d pushes, p99 %v, of fetches %v; %s leads%s", time.Since(s.began).Round(time.Second), clients.jobs,
		millis(clients.push), millis(clients.fetch), s.names[leader], &b)
	return most
}
