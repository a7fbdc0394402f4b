package migrate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"millrace/test/clients/kit"
)

// faktoryClient connects to a server.
func faktoryClient(t *testing.T, addr string) *faktory.Client {
	t.Helper()
	srv := faktory.DefaultServer()
	srv.Network, srv.Address = "tcp", addr
	srv.Timeout = patience
	c, err := srv.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has answered
	return c
}

// startFaktory starts an original server, and returns its address and that of its Redis.
func startFaktory(t *testing.T) (addr, redis string, stop func()) {
	t.Helper()
	dir := tempDir(t)
	installed(t, "redis-server")
	addr = freeAddr(t)
	stop = start(t, "tcp", addr, build(t, "faktory", "github.com/contribsys/faktory/cmd/faktory"),
		"-b", addr, "-w", freeAddr(t), "-d", dir, "-c", dir, "-e", "development", "-l", "warn")
	return addr, "unix://" + filepath.Join(dir, "redis.sock"), stop
}

// fillFaktory pushes jobs to two queues: many that are ready, some that are scheduled, retrying, dead and held.
func fillFaktory(t *testing.T, c *faktory.Client) (want map[string]bool) {
	t.Helper()
	const ready, scheduled = 600, 300
	want = make(map[string]bool)
	midnight := time.Now().Add(24 * time.Hour).Truncate(24 * time.Hour) // many jobs at the same time
	var jobs []*faktory.Job
	for i := range ready + scheduled {
		j := faktory.NewJob("kind", i, map[string]any{"text": "ä<b>"})
		j.Queue = []string{"first", "second"}[i%2]
		j.SetCustom("trace", fmt.Sprint(i))
		if i >= ready {
			j.At = midnight.Format(time.RFC3339Nano)
		}
		jobs = append(jobs, j)
		want[j.Jid] = true
	}
	for len(jobs) > 0 {
		n := min(1000, len(jobs))
		if refused, err := c.PushBulk(jobs[:n]); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		jobs = jobs[n:]
	}
	for i := range 6 {
		j := faktory.NewJob("failing", i)
		j.Queue = "failing"
		if i >= 3 { // the first failure is the last
			j.Retry = new(int)
			*j.Retry = -1
		}
		want[j.Jid] = true
		if err := c.Push(j); err != nil {
			t.Fatal(err)
		}
		if j, err := c.Fetch("failing"); err != nil || j == nil || c.Fail(j.Jid, errors.New("it broke"), nil) != nil {
			t.Fatal(j, err)
		}
	}
	held := faktory.NewJob("held", 1)
	held.Queue = "held"
	want[held.Jid] = true
	if err := c.Push(held); err != nil {
		t.Fatal(err)
	}
	if j, err := c.Fetch("held"); err != nil || j == nil {
		t.Fatal(j, err)
	}
	for range 2 { // the original takes both, because it has no locks
		j := uniqueJob()
		want[j.Jid] = true
		if err := c.Push(j); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PauseQueues("second"); err != nil {
		t.Fatal(err)
	}
	return want
}

// uniqueJob is a job of which there may be one at a time. The original spells its args in another way than others do.
func uniqueJob() *faktory.Job {
	j := faktory.NewJob("unique", map[string]any{"b": "<é>", "a": 1.0})
	j.Queue = "unique"
	return j.SetCustom("unique_for", 3600)
}

// uniqueFaktory works off the two jobs that have the same lock: another is refused until the first has ended.
func uniqueFaktory(t *testing.T, c *faktory.Client, want map[string]bool) {
	t.Helper()
	refused := func(when string) {
		t.Helper()
		if err := c.Push(uniqueJob()); err == nil || !strings.Contains(err.Error(), "NOTUNIQUE") {
			t.Errorf("a push %s: %v", when, err)
		}
	}
	refused("before any was fetched")
	var jids []string
	for range 2 {
		j, err := c.Fetch("unique")
		if err != nil || j == nil || !want[j.Jid] {
			t.Fatal(j, err)
		}
		delete(want, j.Jid)
		jids = append(jids, j.Jid)
	}
	for _, jid := range []string{jids[1], jids[0]} { // the first has the lock
		refused("while the first is held")
		if err := c.Ack(jid); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Push(uniqueJob()); err != nil {
		t.Errorf("a push after the first has ended: %v", err)
	}
	if j, err := c.Fetch("unique"); err != nil || j == nil || c.Ack(j.Jid) != nil {
		t.Fatal(j, err)
	}
}

// TestFaktory moves from a Faktory server by its Redis.
func TestFaktory(t *testing.T) {
	t.Parallel()
	addr, redis, _ := startFaktory(t)
	moveFaktory(t, fillFaktory(t, faktoryClient(t, addr)), redis)
}

// TestFaktoryFile moves from the file that the Redis of a Faktory server has saved when it was stopped.
func TestFaktoryFile(t *testing.T) {
	t.Parallel()
	addr, redis, stop := startFaktory(t)
	want := fillFaktory(t, faktoryClient(t, addr))
	stop()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimPrefix(redis, "unix://")), "*.rdb"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	moveFaktory(t, want, files[0])
}

// moveFaktory migrates from an address, and works everything off.
func moveFaktory(t *testing.T, want map[string]bool, address string) {
	t.Helper()
	s := kit.Start(t, []string{"web", kit.Faktory})
	jobs := uint64(len(want))
	r := everything(t, s, jobs, "faktory", address)
	states := map[string]uint64{}
	for _, q := range r.Queues {
		states[q.State] += q.Read
	}
	if fmt.Sprint(states) != "map[dead:3 leased:1 paused:1 ready:602 retrying:3 scheduled:300]" {
		t.Errorf("%v", states)
	}
	c := faktoryClient(t, s.Addr(kit.Faktory))
	if j, err := c.Fetch("second"); err != nil || j != nil {
		t.Fatalf("%v, %v: a paused queue", j, err)
	}
	if err := c.ResumeQueues("second"); err != nil {
		t.Fatal(err)
	}
	uniqueFaktory(t, c, want)
	workFaktory(t, c, want)
	nothing(t, s, jobs, "faktory", address)
	if j, err := c.Fetch("first", "second", "failing", "held", "unique"); err != nil || j != nil {
		t.Errorf("%v, %v: it came twice", j, err)
	}
}

// workFaktory works everything off: each job comes once, those that were ready in their order.
func workFaktory(t *testing.T, c *faktory.Client, want map[string]bool) {
	t.Helper()
	last := map[string]float64{}
	take := func() bool {
		j, err := c.Fetch("held", "first", "second", "failing")
		if err != nil {
			t.Fatal(err)
		}
		if j == nil {
			return false
		}
		if !want[j.Jid] {
			t.Fatalf("%s came twice, or from nowhere", j.Jid)
		}
		delete(want, j.Jid)
		if n, _ := j.Args[0].(float64); j.Type == "kind" {
			if j.At == "" && last[j.Queue] > n {
				t.Errorf("job %v came after %v", n, last[j.Queue])
			}
			last[j.Queue] = n
			if trace, _ := j.GetCustom("trace"); trace != fmt.Sprint(n) || len(j.Args) != 2 {
				t.Errorf("%+v", j)
			}
		} else if j.Type == "failing" && (j.Failure == nil || j.Failure.ErrorMessage != "it broke" ||
			j.Failure.RetryCount != 0) {
			t.Errorf("%+v has failed: %+v", j, j.Failure)
		}
		if err := c.Ack(j.Jid); err != nil {
			t.Fatal(err)
		}
		return true
	}
	for take() {
	}
	if len(want) != 300+6 {
		t.Errorf("%d jobs are left, want those that wait for their time and the dead ones", len(want))
	}
	for _, set := range []faktory.Structure{faktory.Scheduled, faktory.Retries, faktory.Dead} {
		if err := c.Requeue(set, faktory.Everything); err != nil {
			t.Fatal(err)
		}
	}
	for take() {
	}
	if len(want) != 0 {
		t.Errorf("%d jobs never came", len(want))
	}
}
