package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/config"
	"millrace/internal/engine"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/test/tier"
)

// gated are requests that need a format of records.
var gated = []struct {
	format     uint64
	path, body string
}{
	{record.FormatLimits, "/api/v1/namespaces/default/queues/q/limits", `{"concurrency":3}`},
	{record.FormatHooks, "/api/v1/namespaces/default/queues/q/hook", `{"push":"mourners"}`},
	{record.FormatFair, "/api/v1/namespaces/default/queues/q/fairness", `{"on":true}`},
}

// formats are a cluster whose nodes come to know a later format one by one.
type formats struct{ *nodesOf }

// agree waits until the leader says that the data has a format.
func (c *formats) agree(format uint64) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("the data has format %d", format), func() bool {
		code, text := c.try(c.leader(), http.MethodGet, "/api/v1/cluster", "")
		return code == http.StatusOK && strings.Contains(text, fmt.Sprintf(`"format":%d,"nodes"`, format))
	})
}

// holds checks that what needs a later format is refused, and everything else is taken. No node has anything of a later
// format in its data, so that each of them can lead.
func (c *formats) holds(format uint64) {
	c.t.Helper()
	for at := range c.up {
		for _, g := range gated {
			until(c.t, fmt.Sprintf("PUT %s is answered at node %s", g.path, at), func() bool {
				code, text := c.try(at, http.MethodPut, g.path, g.body)
				switch {
				case code == 0 || code == http.StatusServiceUnavailable: // the leader changes
					return false
				case g.format <= format && code != http.StatusOK:
					// The leader opens a format some moments after it has heard of all nodes.
					return false
				case g.format > format && (code != http.StatusConflict ||
					!strings.Contains(text, "cannot read this: try again when all nodes run this one")):
					c.t.Fatalf("%s needs format %d, and not all nodes know more than %d: %d %s", g.path, g.format,
						format, code, text)
				}
				return true
			})
		}
		push(c.t, c.up[at].addr(0), "q", "n", "")
	}
	for name, r := range c.up {
		if err := engine.CheckFormat(r.server.node.store.Load(), format); err != nil {
			c.t.Errorf("node %s, while not all nodes know more than format %d: %v", name, format, err)
		}
	}
}

// While a node runs a release that does not know a format of records, nothing of it is written, whichever node is
// upgraded last. Once all know it there is no way back: a release that does not know it neither starts with the data
// nor joins.
func TestFormats(t *testing.T) {
	t.Parallel()
	orders := []string{"abc", "bca", "cab", "acb", "bac", "cba"}
	for i, order := range tier.Pick(orders, orders[:3]) { // each node is the last one once
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			upgraded(t, strings.Split(order, ""), record.FormatBase+uint64(i)%(record.Format-1))
		})
	}
}

// upgraded upgrades the nodes of a cluster, which know the given format, in an order.
func upgraded(t *testing.T, order []string, knows uint64) {
	t.Helper()
	earlier := Options{format: knows}
	flags := nodes(t, 4, nil)
	c := &formats{&nodesOf{t, map[string]*config.Config{}, map[string]*running{}}}
	for i, f := range flags {
		if i < 3 {
			f["cluster.peers"] = strings.Join(strings.Split(f["cluster.peers"], ",")[:3], ",")
		}
		c.configs[f["cluster.node"]] = load(t, f)
	}
	for _, name := range order {
		c.up[name] = start(t, c.configs[name], earlier)
	}
	c.agree(knows)
	for _, name := range order {
		c.holds(knows)
		c.stop(name)
		c.holds(knows) // also while the last one cannot be asked
		c.start(name)
	}
	c.agree(record.Format)
	c.holds(record.Format)

	c.up["d"] = start(t, c.configs["d"], earlier)
	member := fmt.Sprintf(`{"name":"d","addr":%q}`, c.configs["d"].Cluster.Addr)
	text := c.call("a", http.MethodPost, "/api/v1/cluster/members", member, http.StatusConflict)
	if !strings.Contains(text, fmt.Sprintf("knows format %d of the records, and the data has format %d: run a later "+
		"release there", knows, record.Format)) {
		t.Errorf("a node that runs an earlier release is told %s", text)
	}
	c.stop("d")
	for _, name := range order {
		until(t, "the node has the format", func() bool {
			return engine.CheckFormat(c.up[name].server.node.store.Load(), knows) != nil
		})
		c.stop(name)
		err := Run(t.Context(), c.configs[name], earlier)
		if !errors.Is(err, store.ErrNewerFormat) || !strings.Contains(err.Error(), "run the newer release") {
			t.Errorf("an earlier release starts with the data of node %s: %v", name, err)
		}
	}
}
