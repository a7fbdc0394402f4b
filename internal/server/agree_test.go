package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/internal/api"
	"millrace/internal/config"
)

// A node with other settings than most is told of, and does not lead.
func TestSettingsDiffer(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 3, nil)
	flags[0]["masenko.max_payload"] = "1MiB"
	flags[1]["web.metrics_queues"] = "7" // which changes nothing for jobs
	c := startNodes(t, flags, 3)
	until(t, "a node leads that has the settings of most", func() bool { return c.leader() != "a" })
	leader := ""
	until(t, "the difference is told", func() bool {
		leader = c.leader()
		text := c.call(leader, http.MethodGet, "/api/v1/cluster", "", http.StatusOK)
		return strings.Contains(text, `"settings_differ":["masenko.max_payload"`) &&
			strings.Contains(text, "its settings differ: masenko.max_payload")
	})
	if text := c.up[leader].log.String(); !strings.Contains(text, "another node has other settings") {
		t.Errorf("its log: %s", text)
	}
	a := c.up["a"].server.node
	if err := c.up[leader].server.node.log.TransferTo(a.id, c.configs["a"].Cluster.Addr); err != nil {
		t.Logf("the leadership was not taken: %v", err)
	}
	until(t, "another node leads again", func() bool { return c.leader() != "a" && a.term.Load() == nil })
	push(t, c.up["a"].addr(0), "q", "n", "")
}

// Pushes are refused while fewer than a majority of the nodes have room for them.
func TestRoomOfMajority(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 3, map[string]string{"store.free_floor": "1MiB"})
	free := make([]atomic.Uint64, 3)
	c := &nodesOf{t, map[string]*config.Config{}, map[string]*running{}}
	numbers := map[string]int{}
	for i, f := range flags {
		name := f["cluster.node"]
		numbers[name], c.configs[name] = i, load(t, f)
		free[i].Store(1 << 40)
		c.up[name] = start(t, c.configs[name], Options{freeBytes: func() *uint64 { n := free[i].Load(); return &n }})
	}
	taken := func() bool {
		return strings.HasPrefix(tell(t, c.up["a"].addr(0), `PUSH {"name":"n","queue":"q"}`), "OK")
	}
	// A node that has too little space itself refuses pushes when it leads. So an attempt counts only if the same node
	// has led all the time.
	attempt := func(short int, want bool) (counts bool) {
		leader := c.leader()
		n := c.up[leader].server.node
		term := n.term.Load()
		left := short
		for name := range c.up {
			bytes := uint64(1 << 40)
			if name != leader && left > 0 {
				left--
				bytes = 1000
			}
			free[numbers[name]].Store(bytes)
		}
		over := func() bool { return term == nil || n.term.Load() != term }
		until(t, "the leader knows how much room there is", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			known := 0
			for _, h := range n.pongs {
				if h.pong.Free != nil && *h.pong.Free == 1000 {
					known++
				}
			}
			return known == short || over()
		})
		until(t, "the engine has looked", func() bool { return taken() == want || over() })
		for range 3 {
			if taken() != want && !over() {
				t.Errorf("of three nodes %d have too little room, and a push is taken: %v", short, !want)
			}
		}
		return !over()
	}
	for _, step := range []struct {
		short int
		want  bool
	}{{0, true}, {1, true}, {2, false}, {1, true}} {
		until(t, "one node leads all the time", func() bool { return attempt(step.short, step.want) })
		if step.want {
			continue
		}
		if text := c.call("a", http.MethodGet, "/api/v1/cluster", "", http.StatusOK); !strings.Contains(text,
			"too little disk space") {
			t.Errorf("the status says %s", text)
		}
	}
}

// A node that has no room for all data is not sent it. Its log and the status of the cluster tell why and what to do.
// Once there is room it is sent all data by itself.
func TestRoomForAllData(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 4, map[string]string{"cluster.log_keep": "1MiB", "store.free_floor": "1MiB"})
	c := startNodes(t, flags, 3)
	for range 100 { // more than the log keeps
		push(t, c.up["a"].addr(0), "q", "n", fmt.Sprintf(`,"payload":%q`, strings.Repeat("x", 30_000)))
	}
	until(t, "the log of every node is cut", func() bool {
		for _, r := range c.up {
			if log := r.server.node.log; log.Times().Cuts.Count == 0 || log.Stats().Bytes > 2<<20 {
				return false
			}
		}
		return true
	})
	var free atomic.Uint64
	free.Store(1<<20 + 1000)
	c.up["d"] = start(t, c.configs["d"], Options{freeBytes: func() *uint64 { n := free.Load(); return &n }})
	member := fmt.Sprintf(`{"name":"d","addr":%q}`, c.configs["d"].Cluster.Addr)
	c.call("a", http.MethodPost, "/api/v1/cluster/members", member, http.StatusAccepted)
	const why = "node d has too little disk space for the data of the cluster: "
	const figures = "1.0 MiB are free, of which store.free_floor keeps 1.0 MiB. Make room on its disk"
	for _, at := range []string{"a", "d"} {
		until(t, "the status tells why the node gets no data", func() bool {
			text := c.call(at, http.MethodGet, "/api/v1/cluster", "", http.StatusOK)
			return strings.Contains(text, why) && strings.Contains(text, figures)
		})
	}
	if text := c.up["d"].log.String(); !strings.Contains(text, why) || !strings.Contains(text, figures) {
		t.Errorf("its log: %s", text)
	}
	if c.up["d"].server.node.received.Times().Count > 0 {
		t.Error("it has received all data")
	}
	free.Store(1 << 40)
	c.awaitRole("d", api.RoleStandby)
	if c.up["d"].server.node.received.Times().Count == 0 {
		t.Error("it has caught up without all data: this was no test")
	}
	until(t, "nothing is wrong with its room any more", func() bool {
		return !strings.Contains(c.call("a", http.MethodGet, "/api/v1/cluster", "", http.StatusOK), why)
	})
}
