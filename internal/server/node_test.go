package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"millrace/internal/cluster"
	"millrace/internal/config"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
	"millrace/test/harness"
)

// freeAddresses returns addresses at which nobody listens.
func freeAddresses(t *testing.T, count int) []string {
	t.Helper()
	out := make([]string, count)
	for i := range out {
		var err error
		if out[i], err = harness.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// nodes are the settings of the nodes of a cluster.
func nodes(t *testing.T, count int, more map[string]string) []map[string]string {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e"}[:count]
	peers := make([]string, count)
	for i, addr := range freeAddresses(t, count) {
		peers[i] = names[i] + "=" + addr
	}
	out, election := make([]map[string]string, count), "2s"
	if count == 1 { // nobody is late on a busy machine
		election = "50ms"
	}
	for i, name := range names {
		out[i] = map[string]string{
			"cluster.node": name, "cluster.peers": strings.Join(peers, ","), "cluster.election": election,
			"web.addr": "127.0.0.1:0",
		}
		maps.Copy(out[i], more)
	}
	return out
}

// lone returns the configuration of a cluster of one node, whose directory is made.
func lone(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	if flags == nil {
		flags = nodes(t, 1, nil)[0]
	}
	cfg := load(t, flags)
	if _, err := InitCluster(cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// ask sends a request to the operator's side and returns the status and the body.
func ask(t *testing.T, method, addr, path, password string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("o", password)
	return fetch(req)
}

// fetch returns the status and the body of an answer; status 0: there is none.
func fetch(req *http.Request) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&b); err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, b.String()
}

// leader returns the node that leads.
func leader(t *testing.T, all []*running) (leads int) {
	t.Helper()
	until(t, "a node leads", func() bool {
		for i, r := range all {
			if r != nil && r.server.node.term.Load() != nil {
				leads = i
				return true
			}
		}
		return false
	})
	return leads
}

// Every address serves every client, whoever leads, and what was acknowledged is there under the next leader.
func TestNodes(t *testing.T) {
	t.Parallel()
	all := make([]*running, 3)
	for i, flags := range nodes(t, len(all), nil) {
		all[i] = start(t, load(t, flags), Options{})
	}
	first := leader(t, all)
	for i, r := range all {
		push(t, r.addr(0), fmt.Sprintf("q%d", i), fmt.Sprintf("n%d", i), "")
		for _, path := range []string{"/readyz", "/api/v1/queues", "/api/v1/cluster", "/metrics", "/"} {
			until(t, fmt.Sprintf("%s is served at node %d", path, i),
				func() bool { code, _ := ask(t, http.MethodGet, r.addr(1), path, ""); return code == http.StatusOK })
		}
	}
	all[first].signals <- syscall.SIGTERM
	if err := all[first].stop(t); err != nil {
		t.Errorf("the leader stops: %v", err)
	}
	all[first] = nil
	leader(t, all)
	for i := range all {
		r := all[(first+1+i%2)%len(all)]
		if got := pull(t, r.addr(0), fmt.Sprintf("q%d", i)); !slices.Equal(got, []string{fmt.Sprintf("n%d", i)}) {
			t.Errorf("queue %d has %v", i, got)
		}
	}
}

// A node that misses more than the log keeps is sent all data, and metrics tell.
func TestNodeFallsBehind(t *testing.T) {
	t.Parallel()
	all, cfgs := make([]*running, 3), make([]*config.Config, 3)
	for i, flags := range nodes(t, len(all), map[string]string{"cluster.log_keep": "1MiB"}) {
		cfgs[i] = load(t, flags)
		all[i] = start(t, cfgs[i], Options{})
	}
	leads := leader(t, all)
	behind := (leads + 1) % len(all)
	metric := func(r *running, name string) string {
		_, text := ask(t, http.MethodGet, r.addr(1), "/metrics", "")
		_, rest, _ := strings.Cut(text, "\nmillrace_cluster_"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	until(t, "a connection is passed on", func() bool {
		r := all[(leader(t, all)+1)%len(all)]
		c := dial(t, r.addr(0))
		defer func() { _ = c.Close() }()
		_, err := exchange(c, c.r, "PING")
		return err == nil && metric(r, "forwarded_connections") == "1"
	})
	all[behind].signals <- syscall.SIGTERM
	if err := all[behind].stop(t); err != nil {
		t.Errorf("the standby stops: %v", err)
	}
	for range 100 {
		push(t, all[leads].addr(0), "q", "n", fmt.Sprintf(`,"payload":%q`, strings.Repeat("x", 30_000)))
	}
	until(t, "the log is cut", func() bool {
		n := metric(all[leads], `snapshot_seconds_count{kind="cut"}`)
		return n != "" && n != "0"
	})
	all[behind] = start(t, cfgs[behind], Options{})
	// It may take more than one attempt, and another leader.
	happened := func(kind string) func() bool {
		return func() bool {
			return slices.ContainsFunc(all, func(r *running) bool {
				n := metric(r, fmt.Sprintf("snapshot_seconds_count{kind=%q}", kind))
				return n != "" && n != "0"
			})
		}
	}
	until(t, "all data is received", happened("received"))
	until(t, "all data is sent", happened("sent"))
	until(t, "it has caught up", func() bool {
		return metric(all[leader(t, all)], fmt.Sprintf("lag_entries{node=%q}", cfgs[behind].Cluster.Node)) == "0"
	})
	if !slices.ContainsFunc(all, func(r *running) bool {
		n := metric(r, "confirm_seconds_count")
		return n != "" && n != "0"
	}) {
		t.Error("no confirmations")
	}
}

// What the connections of all protocols share follows the settings on a leader too, and its metrics are complete.
func TestNodeShared(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 1, map[string]string{"listen.max_unfinished": "16MiB", "masenko.max_line": "64MiB"})[0]
	r := start(t, lone(t, flags), Options{})
	leader(t, []*running{r})
	// The server may close the connection before all has been sent.
	_, _ = io.WriteString(dial(t, r.addr(0)), strings.Repeat("x", 40<<20))
	const rejected = "\nmillrace_connections_rejected_total{protocol=\"masenko\",reason=\"input\"} 1\n"
	var text string
	until(t, "the unfinished command is refused", func() bool {
		_, text = ask(t, http.MethodGet, r.addr(1), "/metrics", "")
		return strings.Contains(text, rejected)
	})
	for _, want := range []string{
		"millrace_cluster_is_leader 1", "millrace_connection_names 0", "millrace_queues 0",
		`promhttp_metric_handler_errors_total{cause="gathering"} 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// A leader takes over a new configuration, and keeps it when it leads again.
func TestNodeReload(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 1, map[string]string{"web.password": "old"})[0]
	cfg := lone(t, flags)
	next := maps.Clone(flags)
	next["web.password"], next["data.dir"] = "new", cfg.Data.Dir
	reloads := make(chan os.Signal)
	r := start(t, cfg, Options{Reloads: reloads, Reload: func() (*config.Config, error) { return load(t, next), nil }})
	leader(t, []*running{r})
	status := func(password string) int {
		code, _ := ask(t, http.MethodGet, r.addr(1), "/api/v1/queues", password)
		return code
	}
	if code := status("old"); code != http.StatusOK {
		t.Fatalf("with the password: %d", code)
	}
	reloads <- syscall.SIGHUP
	check := func() {
		t.Helper()
		until(t, "the new password is taken", func() bool { return status("new") == http.StatusOK })
		if code := status("old"); code != http.StatusUnauthorized {
			t.Errorf("with the old password: %d", code)
		}
	}
	check()
	before := r.server.node.term.Load()
	before.term.End(errStopped)
	until(t, "the node leads again", func() bool { l := r.server.node.term.Load(); return l != nil && l != before })
	check()
}

// A node does not lead with the data of another one.
func TestNodeIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var first, again, other, renamed identity
	if err := first.openIdentity(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := again.openIdentity(dir, "a"); err != nil || again.id != first.id {
		t.Errorf("the same directory: %s and %s, %v", first.id, again.id, err)
	}
	if err := other.openIdentity(t.TempDir(), "a"); err != nil || other.id == first.id {
		t.Errorf("another directory: %s, %v", other.id, err)
	}
	if err := renamed.openIdentity(dir, "b"); err == nil ||
		!strings.Contains(err.Error(), "this is the data of node a") {
		t.Errorf("another name: %v", err)
	}
}

// Connections that wait for a leader are bounded, in time and number.
func TestHold(t *testing.T) {
	t.Parallel()
	n := &node{changed: make(chan struct{})}
	if n.hold(time.Now().Add(10 * time.Millisecond)) {
		t.Error("held beyond the time")
	}
	go n.wake()
	if !n.hold(time.Now().Add(patience)) {
		t.Error("given up although another node may lead")
	}
	n.held = heldMax
	if n.hold(time.Now().Add(patience)) {
		t.Error("held although too many are")
	}
}

// A node that has lost its data takes no part under its old address: it does not know what it has promised.
func TestNodeWiped(t *testing.T) {
	t.Parallel()
	all := make([]*running, 3)
	flags := nodes(t, len(all), nil)
	configs := make([]*config.Config, len(all))
	for i := range all {
		configs[i] = load(t, flags[i])
		all[i] = start(t, configs[i], Options{})
	}
	leads := leader(t, all)
	wiped, other := (leads+1)%len(all), (leads+2)%len(all)
	stop := func(i int) {
		all[i].signals <- syscall.SIGTERM
		if err := all[i].stop(t); err != nil {
			t.Errorf("node %d stops: %v", i, err)
		}
	}
	was := all[wiped].server.node.id
	stop(wiped)
	if err := os.RemoveAll(configs[wiped].Data.Dir); err != nil {
		t.Fatal(err)
	}
	all[wiped] = start(t, configs[wiped], Options{})
	n := all[wiped].server.node
	until(t, "the node is told that it is another one", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.outside != nil
	})
	push(t, all[leads].addr(0), "q", "n", "")
	caller, err := cluster.Listen(t.Context(), cluster.Options{
		Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Cluster: all[leads].server.node.ofCluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := caller.Transport()
	defer func() { _ = transport.Close() }()
	q := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	addr := raft.ServerAddress(configs[wiped].Cluster.Addr)
	if err := transport.AppendEntries(raft.ServerID(n.id), addr, q, &raft.AppendEntriesResponse{}); err != nil {
		t.Errorf("under its id it is not reached: %v", err)
	}
	if err := transport.AppendEntries(raft.ServerID(was), addr, q, &raft.AppendEntriesResponse{}); err == nil {
		t.Error("it answers to what is sent to the node that it was")
	}
	if n.log.Bootstrapped() {
		t.Error("it has a log")
	}
	// What it says must not count for a majority.
	stop(other)
	until(t, "the leader steps down", func() bool { return all[leads].server.node.term.Load() == nil })
	<-time.After(3 * time.Second) // which is enough to be elected
	if all[leads].server.node.term.Load() != nil {
		t.Error("one of three leads")
	}
}

// A connection to a leader ends once another node leads, or none has for long: one that hangs does not end it.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leads := "a"
		n := &node{changed: make(chan struct{})}
		n.leader = func() string {
			n.mu.Lock()
			defer n.mu.Unlock()
			return leads
		}
		follow := func(over chan struct{}) chan time.Time {
			ended := make(chan time.Time, 1)
			go func() {
				n.follow("a", over)
				ended <- time.Now()
			}()
			return ended
		}
		change := func(to string) {
			n.mu.Lock()
			leads = to
			n.mu.Unlock()
			n.wake()
			synctest.Wait()
		}
		over := make(chan struct{})
		lasting, closed := follow(nil), follow(over)
		close(over)
		<-closed
		change("")
		<-time.After(holdPatience / 2)
		change("a")
		<-time.After(holdPatience)
		synctest.Wait()
		if len(lasting) > 0 {
			t.Error("ended although the same node leads again")
		}
		change("b")
		if len(lasting) == 0 {
			t.Error("goes on although another node leads")
		}
		change("a")
		lost := follow(nil)
		change("")
		began := time.Now()
		if after := (<-lost).Sub(began); after != holdPatience {
			t.Errorf("without a leader it ended after %v", after)
		}
	})
}

// What cannot be served is a fault while the term lasts, and none once it has ended: then nothing can be read any more.
func TestUnbuilt(t *testing.T) {
	t.Parallel()
	r := start(t, lone(t, nil), Options{})
	leader(t, []*running{r})
	term, fault := r.server.node.term.Load().term, errors.New("a fault")
	for _, want := range []error{fault, nil} { // the first of them ends the term
		e, err := engine.Open(engine.Options{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		if got := (&server{engine: e}).unbuilt(term, fault); !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if term.Err() == nil || e.Err() == nil {
			t.Errorf("the term goes on, or the engine: %v, %v", term.Err(), e.Err())
		}
	}
}

// The connections that a node has passed on are closed when it has been silent for long: what their clients hold must
// be given to others.
func TestVanished(t *testing.T) {
	t.Parallel()
	r := start(t, lone(t, nil), Options{})
	leader(t, []*running{r})
	n := r.server.node
	m := &member{id: n.id, name: "a"}
	c, err := n.port.Forward(n.cfg.Cluster.Peers[0].Addr, n.gates[0].name, "192.0.2.1:99", "192.0.2.7:7420")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for _, silent := range []time.Duration{0, vanishAfter - time.Second} {
		n.vanished(m, time.Now().Add(-silent))
		if got, err := exchange(c, in, "PING"); err != nil || got != "PONG {}" {
			t.Fatalf("after %v: %s, %v", silent, got, err)
		}
	}
	n.vanished(m, time.Now().Add(-vanishAfter))
	if got, err := exchange(c, in, "PING"); err == nil {
		t.Errorf("a connection of a node that is gone answers %s", got)
	}
	until(t, "it is forgotten", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.passing) == 0
	})
}

// A node whose log says that it was part of a cluster does not start without knowing of which one.
func TestNoClusterIdentity(t *testing.T) {
	t.Parallel()
	cfg := lone(t, nil)
	if err := os.Remove(filepath.Join(cfg.Data.Dir, clusterFile)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), cfg, Options{}); err == nil ||
		!strings.Contains(err.Error(), "does not say of which cluster") {
		t.Errorf("it starts: %v", err)
	}
}

// A node with damaged data is told to be replaced: the others have everything, and a backup is older than that.
func TestNodeDamaged(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{"store": "MANIFEST-*", "log": "*"} {
		cfg := lone(t, nil)
		r := start(t, cfg, Options{})
		leader(t, []*running{r})
		push(t, r.addr(0), "q", "n", "")
		r.signals <- syscall.SIGTERM
		if err := r.stop(t); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(cfg.Data.Dir, name, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, path := range files {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}
		err = Run(t.Context(), cfg, Options{})
		if err == nil || !strings.Contains(err.Error(), "millrace cluster remove a") ||
			strings.Contains(err.Error(), "begin empty") {
			t.Errorf("the %s is damaged: %v", name, err)
		}
	}
}
