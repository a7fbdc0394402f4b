package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/config"
	"millrace/internal/record"
	"millrace/internal/store"
)

// While a node runs a release that does not know a format of records, nothing of it is written. Once all know it there
// is no way back: a release that does not know it neither starts with the data nor joins.
func TestFormats(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 4, nil)
	c := &nodesOf{t, map[string]*config.Config{}, map[string]*running{}}
	earlier := Options{format: record.FormatBase}
	names := []string{"a", "b", "c"}
	for i, name := range names {
		flags[i]["cluster.peers"] = strings.Join(strings.Split(flags[i]["cluster.peers"], ",")[:3], ",")
		c.configs[name] = load(t, flags[i])
		o := Options{}
		if name == "c" {
			o = earlier
		}
		c.up[name] = start(t, c.configs[name], o)
	}
	limit := func() (int, string) {
		return c.try("b", http.MethodPut, "/api/v1/namespaces/default/queues/q/limits", `{"concurrency":3}`)
	}
	agreed := func(format uint64) func() bool {
		return func() bool {
			return strings.Contains(c.call(c.leader(), http.MethodGet, "/api/v1/cluster", "", http.StatusOK), fmt.Sprintf(`"format":%d,"nodes"`, format))
		}
	}
	push(t, c.up["a"].addr(0), "q", "n", "")
	until(t, "the leader has heard of all", func() bool { return c.up[c.leader()].server.node.agreed() == record.FormatBase })
	until(t, "the data has the format that all know", agreed(record.FormatBase))
	until(t, "limits are refused", func() bool {
		code, text := limit()
		if code == http.StatusOK {
			t.Fatal("limits are set although a node does not know them")
		}
		return code == http.StatusConflict && strings.Contains(text, "cannot read this")
	})
	c.stop("c")
	c.start("c")
	until(t, "the data has the format that all know now", agreed(record.Format))
	until(t, "limits are set", func() bool { code, _ := limit(); return code == http.StatusOK })

	c.configs["d"] = load(t, flags[3])
	c.up["d"] = start(t, c.configs["d"], earlier)
	member := fmt.Sprintf(`{"name":"d","addr":%q}`, c.configs["d"].Cluster.Addr)
	if text := c.call("a", http.MethodPost, "/api/v1/cluster/members", member, http.StatusConflict); !strings.Contains(text, "run a later release there") {
		t.Errorf("it is told %s", text)
	}
	c.stop("d")
	until(t, "the node has the format", func() bool {
		return c.up["c"].server.node.log.Stats().Applied >= c.up[c.leader()].server.node.log.Stats().Applied
	})
	c.stop("c")
	if err := Run(t.Context(), c.configs["c"], earlier); !errors.Is(err, store.ErrNewerFormat) || !strings.Contains(err.Error(), "run the newer release") {
		t.Errorf("an earlier release starts with the data: %v", err)
	}
}
