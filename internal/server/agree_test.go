package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
	leader := c.leader()
	until(t, "the difference is told", func() bool {
		text := c.call(leader, http.MethodGet, "/api/v1/cluster", "", http.StatusOK)
		return strings.Contains(text, `"settings_differ":["masenko.max_payload"`) && strings.Contains(text, "its settings differ: masenko.max_payload")
	})
	if text := c.up[leader].log.String(); !strings.Contains(text, "another node has other settings") {
		t.Errorf("its log: %s", text)
	}
	a := c.up["a"].server.node
	if err := c.up[leader].server.node.log.TransferTo(a.id, c.configs["a"].Cluster.Addr); err != nil {
		t.Logf("the leadership was not taken: %v", err)
	}
	until(t, "another node leads again", func() bool { return c.leader() != "a" && a.term.Load() == nil })
	dial(t, c.up["a"].addr(0)).expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
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
	leader := c.leader()
	client := dial(t, c.up[leader].addr(0))
	client.expect(t, `PUSH {"name":"n","queue":"q"}`, `OK {"id":1}`)
	n := c.up[leader].server.node
	room := func(name string, bytes uint64) {
		t.Helper()
		free[numbers[name]].Store(bytes)
		until(t, "the leader knows how much room there is", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return *n.pongs[name].pong.Free == bytes
		})
	}
	var others []string
	for name := range c.up {
		if name != leader {
			others = append(others, name)
		}
	}
	taken := func() bool {
		client.send(t, `PUSH {"name":"n","queue":"q"}`)
		line, err := client.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(line, "OK")
	}
	until(t, "the leader has heard of all", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.pongs[others[0]].pong.Free != nil && n.pongs[others[1]].pong.Free != nil
	})
	room(others[0], 1000)
	for range 3 { // the engine looks once a second
		if !taken() {
			t.Fatal("refused although two of three have room")
		}
	}
	room(others[1], 2000)
	until(t, "pushes are refused", func() bool { return !taken() })
	text := c.call(leader, http.MethodGet, "/api/v1/cluster", "", http.StatusOK)
	if !strings.Contains(text, "too little disk space") {
		t.Errorf("the status says %s", text)
	}
	room(others[0], 1<<40)
	until(t, "pushes are taken again", taken)
}
