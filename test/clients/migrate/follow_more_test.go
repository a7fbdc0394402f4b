package migrate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	lmstfy "github.com/bitleak/lmstfy/client"
	"github.com/tarantool/go-tarantool/v2"
	"github.com/tarantool/go-tarantool/v2/queue"
	"millrace/internal/dialect/masenko/masenkotest"
	"millrace/internal/dialect/workq/workqtest"

	"millrace/test/clients/kit"
)

// followKilled follows a server while jobs are pushed to it, and is killed some times at any moment. Then it goes on
// until the server is empty, and is stopped as a user does.
func followKilled(t *testing.T, s *kit.Server, push func(round int), empty func() bool, args ...string) {
	t.Helper()
	for round := range 3 {
		cmd := follow(t, s, args...)
		kill := time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		push(round)
		_ = cmd.Wait() // killed
		kill.Stop()
	}
	cmd := follow(t, s, args...)
	await(t, "the old server is empty", empty)
	stopped(t, cmd)
}

// TestFollowTarantool passes tasks on, also those whose id was used before.
func TestFollowTarantool(t *testing.T) {
	t.Parallel()
	addr := startTarantool(t)
	c := tarantoolConn(t, addr, "filler", "secret of filler")
	fifo, timed := tube(t, c, "fifo", "fifo", nil), tube(t, c, "timed", "utubettl", nil)
	tube(t, c, "other", "lifo", nil)
	empty := func() bool {
		for _, name := range []string{"fifo", "timed"} {
			n, err := c.Do(tarantool.NewCallRequest("box.space." + name + ":len")).Get()
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(n) != "[0]" {
				return false
			}
		}
		return true
	}
	s := kit.Start(t, []string{"web", "tarantool"})
	from := "tcp://worker:secret%20of%20worker@" + addr
	migrate(t, s, "tarantool", from)
	const each = 100
	followKilled(t, s, func(round int) {
		for i := range each {
			put(t, fifo, fmt.Sprintf("%d.%03d", round, i), queue.Opts{})
			put(
				t,
				timed,
				fmt.Sprintf("%d.%03d", round, i),
				queue.Opts{Pri: 3, Ttl: time.Hour, Ttr: time.Minute, Utube: fmt.Sprint(i)},
			)
		}
	}, empty, "tarantool", from)
	cmd := follow(t, s, "tarantool", from)
	for range 4 { // the same id and the same data, one after the other
		put(t, fifo, "same", queue.Opts{})
		await(t, "it is passed on", empty)
	}
	stopped(t, cmd)

	here := tarantoolConn(t, s.Addr("tarantool"), "", "")
	for name, n := range map[string]int{"fifo": 3*each + 4, "timed": 3 * each} {
		seen := map[string]int{}
		for _, data := range takeAll(t, queue.New(here, name), n) {
			seen[data]++
		}
		if same := n - 3*each; len(seen) != 3*each+min(same, 1) || seen["same"] != same {
			t.Errorf("%s: %d different ones, %d the same", name, len(seen), seen["same"])
		}
		if task, err := queue.New(here, name).TakeTimeout(time.Millisecond); err != nil || task != nil {
			t.Errorf("%s: %v, %v: it came twice", name, task, err)
		}
	}
}

// TestFollowWorkq passes jobs on from a server that speaks Workq. A run is none of them.
func TestFollowWorkq(t *testing.T) {
	t.Parallel()
	old, s := kit.Start(t, []string{"web", "workq"}), kit.Start(t, []string{"web", "workq"})
	c, err := workqtest.Dial(old.Addr("workq"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	want := map[string]string{}
	empty := func() bool {
		for _, name := range []string{"a", "b"} {
			items, err := c.Inspect("jobs " + name + " 0 1")
			if err != nil || len(items) > 0 {
				return false
			}
		}
		for id := range want { // those that were leased by a run that was killed come back with their TTR
			if _, err := c.Inspect("job " + id); err == nil {
				return false
			}
		}
		return true
	}
	followKilled(t, s, func(round int) {
		for i := range 100 {
			j := workqtest.Job{
				ID: workqtest.NewID(), Name: []string{"a", "b"}[i%2], TTR: 2 * time.Second, TTL: time.Hour,
				Payload: fmt.Appendf(nil, "%d\r\n%d", round, i), Flags: "-priority=4 -max-attempts=9",
			}
			want[j.ID] = string(j.Payload)
			if err := c.Add(j); err != nil {
				t.Fatal(err)
			}
		}
	}, empty, "workq", "tcp://"+old.Addr("workq"))
	cmd := follow(t, s, "workq", "tcp://"+old.Addr("workq"))
	r, err := c.Run(workqtest.Job{ID: workqtest.NewID(), Name: "a", TTR: time.Minute}, patience)
	if err != nil || r.Success || len(r.Bytes) == 0 {
		t.Errorf("a run: %+v, %v", r, err)
	}
	if err := interrupted(t, cmd); err == nil || cmd.ProcessState.ExitCode() != 1 { // it tells of the run
		t.Error(err)
	}

	here, err := workqtest.Dial(s.Addr("workq"))
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close() //nolint:errcheck // it has answered
	for range 300 {
		j, err := here.Lease(time.Second, "a", "b")
		if err != nil || want[j.ID] != string(j.Payload) || j.TTR != 2*time.Second {
			t.Fatalf("%+v, %v, want %q", j, err, want[j.ID])
		}
		delete(want, j.ID)
		if err := here.Complete(j.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := here.Lease(time.Millisecond, "a", "b"); err == nil {
		t.Errorf("%+v came twice", j)
	}
}

// TestFollowMasenko passes tasks on from a server that speaks Masenko.
func TestFollowMasenko(t *testing.T) {
	t.Parallel()
	old, s := kit.Start(t, []string{"web", "masenko"}), kit.Start(t, []string{"web", "masenko"})
	c, err := masenkotest.Dial(old.Addr("masenko"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	retry := uint8(100)
	followKilled(t, s, func(round int) {
		for i := range 100 {
			task := masenkotest.Task{
				Name:    "task",
				Queue:   fmt.Sprint("q", i%2),
				Payload: fmt.Appendf(nil, `[%d,%d]`, round, i),
				Retry:   &retry,
			}
			if _, err := c.Push(task); err != nil {
				t.Fatal(err)
			}
		}
	}, func() bool {
		info, err := c.Info()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range info.Queues {
			if q.Ready+q.Delayed+q.ToAck > 0 {
				return false
			}
		}
		return true
	}, "masenko", "tcp://"+old.Addr("masenko"))

	here, err := masenkotest.Dial(s.Addr("masenko"))
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close() //nolint:errcheck // it has answered
	seen := map[string]bool{}
	for range 300 {
		task, err := here.Fetch(time.Second, "q0", "q1")
		if err != nil || task.Name != "task" || seen[string(task.Payload)] {
			t.Fatalf("%+v, %v", task, err)
		}
		seen[string(task.Payload)] = true
		if err := here.Ack(task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if task, err := here.Fetch(time.Millisecond, "q0", "q1"); !errors.Is(err, masenkotest.ErrEmpty) {
		t.Errorf("%+v, %v: it came twice", task, err)
	}
}

// TestFollowLmstfy passes jobs on from an LMSTFY server. What its Redis has afterwards is known.
func TestFollowLmstfy(t *testing.T) {
	t.Parallel()
	addr, admin, redis := startLmstfy(t)
	token := newLmstfyToken(t, admin, "", "ns", "for the tests")
	old := lmstfyClient(t, addr, "ns", token)
	s := kit.Start(t, []string{"web", "lmstfy"})
	want := map[string]string{}
	publish := func(n int) {
		for i := range n {
			queue, body := fmt.Sprint("q", i%2), fmt.Sprintf("\x00%d", i)
			id, err := old.PublishJob(&lmstfy.JobRequest{Queue: queue, Data: []byte(body), TTL: 1000, Tries: 3})
			if err != nil {
				t.Fatal(err)
			}
			want[id] = body
		}
	}
	from := "http://" + token + "@" + addr + "/ns/q0,q1"
	publish(60)
	migrate(t, s, "lmstfy", "redis://"+redis+"/0")
	cmd := follow(t, s, "lmstfy", from)
	publish(60)
	await(t, "the old server is empty", func() bool {
		for id := range want {
			for _, queue := range []string{"q0", "q1"} {
				if j, err := old.PeekJob(queue, id); err != nil || j != nil {
					return false
				}
			}
		}
		return true
	})
	stopped(t, cmd)
	if r := migrate(t, s, "lmstfy", "redis://"+redis+"/0"); len(r.Queues) > 0 {
		t.Errorf("%+v", r)
	}
	c := lmstfyClient(t, s.Addr("lmstfy"), "ns", "")
	for range 120 {
		j, err := c.ConsumeFromQueues(600, 5, "q0", "q1")
		if err != nil || j == nil || want[j.ID] != string(j.Data) || j.RemainTries != 2 || j.TTL < 900 || j.TTL > 1000 {
			t.Fatalf("%+v, %v", j, err)
		}
		delete(want, j.ID)
		if err := c.Ack(j.Queue, j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := c.ConsumeFromQueues(600, 0, "q0", "q1"); err != nil || j != nil {
		t.Errorf("%+v, %v: it came twice", j, err)
	}
	if out, err := kit.Command(t, "migrate", "--follow", "--api", "http://"+s.Addr("web"), "lmstfy",
		"http://"+addr+"/ns").
		CombinedOutput(); err == nil {
		t.Errorf("%s", out)
	}
}
