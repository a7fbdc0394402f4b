package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/api"
	"millrace/internal/config"
)

// nodesOf are the nodes of a cluster in one test, by name.
type nodesOf struct {
	t       *testing.T
	configs map[string]*config.Config
	up      map[string]*running
}

// startNodes starts some of the nodes that the settings are of. The others may be started later.
func startNodes(t *testing.T, flags []map[string]string, count int) *nodesOf {
	t.Helper()
	c := &nodesOf{t, map[string]*config.Config{}, map[string]*running{}}
	founders := strings.Join(strings.Split(flags[0]["cluster.peers"], ",")[:count], ",")
	for i, f := range flags {
		if i < count {
			f["cluster.peers"] = founders
		} else { // each of the others knows one of the first nodes, and itself
			all := strings.Split(f["cluster.peers"], ",")
			f["cluster.peers"] = all[i%count] + "," + all[i]
		}
		c.configs[f["cluster.node"]] = load(t, f)
	}
	for _, f := range flags[:count] {
		c.start(f["cluster.node"])
	}
	c.leader()
	return c
}

func (c *nodesOf) start(name string) {
	c.t.Helper()
	c.up[name] = start(c.t, c.configs[name], Options{})
}

func (c *nodesOf) stop(name string) {
	c.t.Helper()
	c.up[name].signals <- syscall.SIGTERM
	if err := c.up[name].stop(c.t); err != nil {
		c.t.Errorf("node %s stops: %v", name, err)
	}
	delete(c.up, name)
}

// leader returns the name of the node that leads, once there is one.
func (c *nodesOf) leader() (name string) {
	c.t.Helper()
	until(c.t, "a node leads", func() bool {
		for n, r := range c.up {
			if r.server.node.term.Load() != nil {
				name = n
				return true
			}
		}
		return false
	})
	return name
}

// standby returns the name of a node that runs and does not lead.
func (c *nodesOf) standby() string {
	leader := c.leader()
	for name := range c.up {
		if name != leader {
			return name
		}
	}
	c.t.Fatal("there is no standby")
	return ""
}

// call asks a node for something until the answer has a status. It returns the body.
func (c *nodesOf) call(at, method, path, body string, status int) (answer string) {
	c.t.Helper()
	code := 0
	until(c.t, fmt.Sprintf("%s %s at node %s is answered with %d", method, path, at, status), func() bool {
		code, answer = c.try(at, method, path, body)
		if code != status && code != http.StatusServiceUnavailable && code != 0 {
			c.t.Fatalf("%s %s %s at node %s: %d %s", method, path, body, at, code, answer)
		}
		return code == status
	})
	return answer
}

// try asks a node for something once; status 0: there is no answer.
func (c *nodesOf) try(at, method, path, body string) (status int, answer string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.up[at].addr(1)+path,
		strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return fetch(req)
}

// remove takes a node out, which may lead for a moment.
func (c *nodesOf) remove(name string) {
	c.t.Helper()
	at := name // it passes the request on, also when it is no member any more
	if c.up[at] == nil {
		at = c.leader()
	}
	until(c.t, "node "+name+" is taken out", func() bool {
		code, text := c.try(at, http.MethodDelete, "/api/v1/cluster/members/"+name, "")
		if code == http.StatusConflict && strings.Contains(text, "leads: have another one lead") {
			c.try(at, http.MethodPost, "/api/v1/cluster/transfer", "")
		}
		return code == http.StatusOK || code == http.StatusNotFound // an answer was lost
	})
}

// join adds a node, asking another one, and waits until it counts.
func (c *nodesOf) join(at, name string) {
	c.t.Helper()
	c.call(at, http.MethodPost, "/api/v1/cluster/members",
		fmt.Sprintf(`{"name":%q,"addr":%q}`, name, c.configs[name].Cluster.Addr), http.StatusAccepted)
	c.awaitRole(name, api.RoleStandby)
}

// awaitRole waits until the leader says that a node has a role, as a member.
func (c *nodesOf) awaitRole(name, role string) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("node %s is %s", name, role), func() bool {
		var st api.ClusterStatus
		if err := json.Unmarshal([]byte(c.call(c.leader(), http.MethodGet, "/api/v1/cluster", "", http.StatusOK)),
			&st); err != nil {
			c.t.Fatal(err)
		}
		return slices.ContainsFunc(st.Nodes, func(n api.ClusterNode) bool {
			return n.Name == name && n.Role == role && n.Member && n.Reachable
		})
	})
}

// Nodes come and go: the cluster grows to five, a node is taken out, and one that has lost its data comes back as a new
// one. What was acknowledged is there in the end, on nodes that were not there in the beginning.
func TestMembership(t *testing.T) {
	t.Parallel()
	c := startNodes(t, nodes(t, 5, map[string]string{"cluster.log_keep": "1MiB"}), 3)
	pushed := 0
	push := func(at string) {
		t.Helper()
		pushed++
		push(t, c.up[at].addr(0), "q", fmt.Sprint(pushed), fmt.Sprintf(`,"payload":%q`, strings.Repeat("x", 30_000)))
	}
	for range 60 { // more than the log keeps
		push("a")
	}

	// A new node is not ready, but passes on who comes to it.
	c.start("d")
	until(t, "the new node says that it is outside", func() bool {
		_, text := ask(t, http.MethodGet, c.up["d"].addr(1), "/readyz", "")
		return strings.Contains(text, "is new and not part of the cluster yet")
	})
	push("d")
	if text := c.call("d", http.MethodGet, "/api/v1/cluster", "", http.StatusOK); !strings.Contains(text,
		`"role":"outside","member":false`) {
		t.Errorf("it says %s", text)
	}
	// It may be asked itself.
	c.join("d", "d")
	c.call("d", http.MethodGet, "/readyz", "", http.StatusOK)
	c.start("e")
	c.join(c.standby(), "e")
	push("e")

	// The leader cannot be taken out, nor somebody who is not there.
	until(t, "the leader cannot be taken out", func() bool {
		leader := c.leader()
		code, text := c.try("a", http.MethodDelete, "/api/v1/cluster/members/"+leader, "")
		if code == http.StatusOK { // another one leads meanwhile
			c.join(c.leader(), leader)
		}
		return code == http.StatusConflict && strings.Contains(text, "leads")
	})
	c.call("a", http.MethodDelete, "/api/v1/cluster/members/z", "", http.StatusNotFound)
	gone := c.standby()
	c.remove(gone)
	until(t, "the node knows that it was taken out", func() bool {
		_, text := ask(t, http.MethodGet, c.up[gone].addr(1), "/readyz", "")
		return strings.Contains(text, "was taken out of the cluster")
	})
	push(gone)
	// It has forgotten nothing, so it may come again as it is.
	c.join(gone, gone)
	push(gone)

	// One that has lost its data may not, and may once the old one was taken out.
	wiped := c.standby()
	c.stop(wiped)
	if err := os.RemoveAll(c.configs[wiped].Data.Dir); err != nil {
		t.Fatal(err)
	}
	c.start(wiped)
	until(t, "the node says that it must not take part", func() bool {
		_, text := ask(t, http.MethodGet, c.up[wiped].addr(1), "/readyz", "")
		return strings.Contains(text, "must not take part under its old name")
	})
	member := fmt.Sprintf(`{"name":%q,"addr":%q}`, wiped, c.configs[wiped].Cluster.Addr)
	c.call(c.leader(), http.MethodPost, "/api/v1/cluster/members", member, http.StatusConflict)
	c.remove(wiped)
	c.join(c.leader(), wiped)
	push(wiped)

	// Of the five any two may go, also those that were there from the beginning.
	c.stop(c.leader())
	c.stop(c.leader())
	if got := pull(t, c.up[c.standby()].addr(0), "q"); len(got) != pushed {
		t.Errorf("of %d jobs there are %d: %v", pushed, len(got), got)
	}
}

// A node is not taken out if the others would have no majority then.
func TestRemoveKeepsMajority(t *testing.T) {
	t.Parallel()
	c := startNodes(t, nodes(t, 3, nil), 3)
	down := c.standby()
	c.stop(down)
	until(t, "the leader misses the node", func() bool {
		return strings.Contains(c.call(c.leader(), http.MethodGet, "/api/v1/cluster", "", http.StatusOK),
			`"reachable":false`)
	})
	until(t, "the other one is not taken out", func() bool {
		code, text := c.try(c.leader(), http.MethodDelete, "/api/v1/cluster/members/"+c.standby(), "")
		if code == http.StatusOK {
			t.Fatal("it was taken out")
		}
		return code == http.StatusConflict && strings.Contains(text, "no majority")
	})
	c.remove(down)
	push(t, c.up[c.standby()].addr(0), "q", "n", "")
}

// Nodes of different clusters have nothing to do with each other, even if one takes the place of the other.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 3, nil)
	c := startNodes(t, flags, 3)
	down := c.standby()
	c.stop(down)
	if err := writeID(c.configs[down].Data.Dir, clusterFile, "another"); err != nil {
		t.Fatal(err)
	}
	c.start(down)
	until(t, "the leader knows", func() bool {
		return strings.Contains(c.call(c.leader(), http.MethodGet, "/api/v1/cluster", "", http.StatusOK),
			"it is of cluster another")
	})
	last := c.leader()
	for name := range c.up {
		if name != down && name != last {
			c.stop(name)
		}
	}
	// What the node of another cluster says counts for no majority.
	until(t, "the leader steps down", func() bool { return c.up[last].server.node.term.Load() == nil })
	if text := c.up[down].log.String(); !strings.Contains(text, "a node is of another cluster") {
		t.Errorf("its log: %s", text)
	}
}
