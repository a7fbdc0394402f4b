package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/job"
	"millrace/internal/offline"
)

func end(t *testing.T, r *running) {
	t.Helper()
	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Errorf("the server stops: %v", err)
	}
}

// A directory goes from a server of its own to three nodes and back, and keeps all jobs.
func TestOneToThreeAndBack(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 3, nil)
	peers := strings.Split(flags[0]["cluster.peers"], ",")
	single := load(t, map[string]string{"web.addr": "127.0.0.1:0"})
	r := start(t, single, Options{})
	client := dial(t, r.addr(0))
	client.expect(t, `PUSH {"name":"one","queue":"q"}`, `OK {"id":1}`)
	end(t, r)

	c := &nodesOf{t, map[string]*config.Config{}, map[string]*running{}}
	for i, f := range flags {
		f["cluster.peers"] = peers[0]
		if i > 0 {
			f["cluster.peers"] += "," + peers[i]
		} else {
			f["data.dir"] = single.Data.Dir
		}
		c.configs[f["cluster.node"]] = load(t, f)
	}
	// Without the command nothing happens to the data.
	if err := Run(t.Context(), c.configs["a"], Options{}); err == nil ||
		!strings.Contains(err.Error(), "millrace cluster init") {
		t.Fatalf("a node starts with the data of a server of its own: %v", err)
	}
	if _, err := InitCluster(c.configs["a"]); err != nil {
		t.Fatal(err)
	}
	if _, err := InitCluster(c.configs["a"]); err == nil {
		t.Error("it was done twice")
	}
	if err := Run(t.Context(), single, Options{}); err == nil || !strings.Contains(err.Error(), "cluster.node") {
		t.Errorf("a server of its own starts with the data of a node: %v", err)
	}
	c.start("a")
	c.leader()
	for _, name := range []string{"b", "c"} {
		c.start(name)
		c.join("a", name)
		push(t, c.up[name].addr(0), "q", name, "")
	}
	if err := LeaveCluster(c.configs["b"].Data.Dir); err == nil {
		t.Error("a node that runs has left")
	}
	c.stop("b")
	if err := LeaveCluster(c.configs["b"].Data.Dir); err == nil || !strings.Contains(err.Error(), "not the only one") {
		t.Errorf("one of three has left: %v", err)
	}
	c.start("b")
	until(t, "node a leads", func() bool {
		leads := c.leader() == "a"
		if !leads {
			c.try("a", http.MethodPost, "/api/v1/cluster/transfer", "")
		}
		return leads
	})
	for _, name := range []string{"b", "c"} {
		c.remove(name)
	}
	c.stop("a")
	if err := LeaveCluster(single.Data.Dir); err != nil {
		t.Fatal(err)
	}
	r = start(t, single, Options{})
	if got := pull(t, r.addr(0), "q"); !slices.Equal(got, []string{"one", "b", "c"}) {
		t.Errorf("the jobs are %v", got)
	}
	end(t, r)
	if _, err := offline.Check(t.Context(), single.Data.Dir, func(offline.Phase, uint64, uint64) {}); err != nil {
		t.Error(err)
	}
}

// A conversion that was interrupted after any of its steps goes on when it is called again.
func TestConvertInterrupted(t *testing.T) {
	t.Parallel()
	flags := nodes(t, 1, nil)[0]
	cfg := load(t, flags)
	dir := cfg.Data.Dir
	single := load(t, map[string]string{"data.dir": dir})
	r := start(t, single, Options{})
	client := dial(t, r.addr(0))
	client.expect(t, `PUSH {"name":"n","queue":"q"}`, `OK {"id":1}`)
	end(t, r)
	if err := writeID(dir, convertFile, initBegun); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []*config.Config{cfg, single} {
		if err := Run(t.Context(), cfg, Options{}); err == nil ||
			!strings.Contains(err.Error(), `"millrace cluster init" was interrupted`) {
			t.Errorf("a server starts meanwhile: %v", err)
		}
	}
	if _, err := InitCluster(cfg); err != nil {
		t.Fatal(err)
	}
	// As if it had been killed while it moved the files.
	if err := writeID(dir, convertFile, initMoving); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(filepath.Join(dir, storeDir))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if i%2 == 0 && e.Name() != "LOCK" {
			if err := os.Rename(filepath.Join(dir, storeDir, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, nodeFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := InitCluster(cfg); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg, Options{})
	leader(t, []*running{r})
	client = dial(t, r.addr(0))
	client.expect(t, `PUSH {"name":"m","queue":"q"}`, `OK {"id":2}`)
	end(t, r)
	for _, stage := range []string{leaveBegun, leaveMoving} {
		if stage == leaveMoving {
			if err := os.MkdirAll(filepath.Join(dir, storeDir), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, markerFile), filepath.Join(dir, storeDir, markerFile)); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeID(dir, convertFile, stage); err != nil {
			t.Fatal(err)
		}
		if err := LeaveCluster(dir); err != nil {
			t.Fatal(err)
		}
	}
	r = start(t, single, Options{})
	client = dial(t, r.addr(0))
	for i, name := range []string{"n", "m"} {
		client.expect(t, `FETCH {"queues":["q"],"timeout":"1s"}`,
			fmt.Sprintf(`OK {"id":%d,"queue":"q","name":%q}`, i+1, name))
	}
}

// A node that was alone in cluster.peers and has lost its data does not begin without it.
func TestLoneNodeWiped(t *testing.T) {
	t.Parallel()
	cfg := load(t, nodes(t, 1, nil)[0])
	if err := Run(t.Context(), cfg, Options{}); err == nil || !strings.Contains(err.Error(), "millrace cluster init") {
		t.Errorf("it begins: %v", err)
	}
	if exists(cfg.Data.Dir, nodeFile) {
		t.Error("it has left an identity, with which it would begin the next time")
	}
}

// After the loss of two of three nodes the third goes on, as another cluster.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := startNodes(t, nodes(t, 3, nil), 3)
	push(t, c.up["a"].addr(0), "q", "n", "")
	survivor := c.standby()
	until(t, "the survivor has all", func() bool {
		return c.up[survivor].server.node.log.Stats().Applied == c.up[c.leader()].server.node.log.Stats().Applied
	})
	old := c.up[survivor].server.node.ofCluster()
	dir := c.configs[survivor].Data.Dir
	if _, err := Recover(dir); err == nil {
		t.Error("a node that runs was recovered")
	}
	for name := range c.up {
		c.stop(name)
	}
	s, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != survivor || s.Cluster != old || len(s.Nodes) != 3 || s.Index == 0 || s.Term == 0 || s.At.IsZero() {
		t.Errorf("it says %+v", s)
	}
	cluster, err := Recover(dir)
	if err != nil {
		t.Fatal(err)
	}
	if cluster == old {
		t.Error("it is the same cluster")
	}
	c.start(survivor)
	c.leader()
	if got := pull(t, c.up[survivor].addr(0), "q"); !slices.Equal(got, []string{"n"}) {
		t.Errorf("the jobs are %v", got)
	}
	if term := c.up[survivor].server.node.log.Term(); term < 1_000_000_000 {
		t.Errorf("term %d may come twice", term)
	}
	// The others come back. They are of the old cluster, and take no part until they are empty.
	other := "a"
	if survivor == other {
		other = "b"
	}
	c.start(other)
	until(t, "it says why it takes no part",
		func() bool { return strings.Contains(c.up[other].log.String(), "it is of cluster "+cluster) })
	body := fmt.Sprintf(`{"name":%q,"addr":%q}`, other, c.configs[other].Cluster.Addr)
	if text := c.call(survivor, http.MethodPost, "/api/v1/cluster/members", body,
		http.StatusConflict); !strings.Contains(text, "another cluster") {
		t.Errorf("it is told %s", text)
	}
	c.stop(other)
	if err := os.RemoveAll(c.configs[other].Data.Dir); err != nil {
		t.Fatal(err)
	}
	c.start(other)
	c.join(survivor, other)
}

// Every node makes backups, and each can become a cluster that has nothing to do with the first one.
func TestNodeBackup(t *testing.T) {
	t.Parallel()
	c := startNodes(t, nodes(t, 3, nil), 3)
	leader, standby := c.leader(), c.standby()
	for i := range 20 {
		push(t, c.up[standby].addr(0), "q", "n", "")
		for _, at := range []string{leader, standby} {
			name := fmt.Sprintf("%s-%d", at, i)
			var b api.Backup
			if err := json.Unmarshal([]byte(c.call(at, http.MethodPost, "/api/v1/backups",
				fmt.Sprintf(`{"dir":%q}`, name), http.StatusOK)), &b); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(b.Dir, c.configs[at].Data.Dir+backupSuffix) {
				t.Errorf("the backup that node %s was asked for is in %s", at, b.Dir)
			}
			r, err := offline.Check(t.Context(), b.Dir, func(offline.Phase, uint64, uint64) {})
			if err != nil {
				t.Fatal(err)
			}
			if jobs := r.Jobs(); jobs[job.Ready] < uint64(i+1) {
				t.Fatalf("the backup of node %s has %v after %d pushes", at, jobs, i+1)
			}
		}
	}
	cfg := load(t, nodes(t, 1, nil)[0])
	backup := filepath.Join(c.configs[standby].Data.Dir+backupSuffix, standby+"-19")
	if _, err := offline.Restore(t.Context(), backup, cfg.Data.Dir,
		func(offline.Phase, uint64, uint64) {}); err != nil {
		t.Fatal(err)
	}
	if id, err := InitCluster(cfg); err != nil || id == c.up[standby].server.node.ofCluster() {
		t.Fatalf("cluster %s, %v", id, err)
	}
	r := start(t, cfg, Options{})
	(&nodesOf{t, nil, map[string]*running{"a": r}}).leader()
	if got := r.server.node.log.Term(); got < 1_000_000_000 {
		t.Errorf("term %d may come twice", got)
	}
	push(t, r.addr(0), "q", "m", "")
	if got := pull(t, r.addr(0), "q"); !slices.Equal(got, []string{"n", "m"}) {
		t.Errorf("the jobs are %v", got)
	}
}
