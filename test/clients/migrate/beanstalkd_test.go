package migrate

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"millrace/test/clients/kit"
)

// beanstalkClient connects to a server.
func beanstalkClient(t *testing.T, addr string) *beanstalk.Conn {
	t.Helper()
	c, err := beanstalk.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has answered
	return c
}

// fillBeanstalkd puts jobs that are ready, by two priorities, delayed, buried, reserved and deleted.
func fillBeanstalkd(t *testing.T, c *beanstalk.Conn) (bodies map[string]uint32) {
	t.Helper()
	bodies = make(map[string]uint32)
	put := func(name string, body string, pri uint32, delay time.Duration) uint64 {
		tube := beanstalk.NewTube(c, name)
		id, err := tube.Put([]byte(body), pri, delay, 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		bodies[name+" "+body] = pri
		return id
	}
	for i := range 700 {
		put("work", fmt.Sprintf("ready\r\n%04d", i), uint32(10+i%2), 0)
	}
	for i := range 30 {
		put("later", fmt.Sprint(i), 7, 1000*time.Hour)
	}
	for range 20 { // ids without a job
		id := put("work", "gone", 0, 0)
		if err := c.Delete(id); err != nil {
			t.Fatal(err)
		}
	}
	delete(bodies, "work gone")
	for i := range 12 {
		put("set", fmt.Sprint(i), 1, 0)
	}
	set := beanstalk.NewTubeSet(c, "set")
	for i := range 11 { // one is left ready
		id, _, err := set.Reserve(patience)
		if err != nil {
			t.Fatal(err)
		}
		if i < 10 {
			if err := c.Bury(id, uint32(20+i)); err != nil {
				t.Fatal(err)
			}
			bodies[fmt.Sprintf("set %d", i)] = uint32(20 + i)
		}
	}
	put("still", "", 3, 0)
	if err := beanstalk.NewTube(c, "still").Pause(1000 * time.Hour); err != nil {
		t.Fatal(err)
	}
	return bodies
}

// TestBeanstalkd moves from a beanstalkd server, over the wire and by its binlog.
func TestBeanstalkd(t *testing.T) {
	t.Parallel()
	dir, addr := tempDir(t), freeAddr(t)
	host, port := hostPort(t, addr)
	stop := start(t, "tcp", addr, installed(t, "beanstalkd"), "-l", host, "-p", port, "-b", dir)
	want := fillBeanstalkd(t, beanstalkClient(t, addr))
	t.Run("wire", func(t *testing.T) {
		s := kit.Start(t, []string{"web", "beanstalkd"})
		r := everything(t, s, uint64(len(want)), "beanstalkd", "tcp://"+addr)
		checkBeanstalkd(t, s, r, want, "map[buried:10 leased:1 paused:1 ready:702 scheduled:30]", true)
		nothing(t, s, uint64(len(want)), "beanstalkd", "tcp://"+addr)
	})
	stop()
	t.Run("binlog", func(t *testing.T) {
		s := kit.Start(t, []string{"web", "beanstalkd"})
		r := everything(t, s, uint64(len(want)), "beanstalkd", dir)
		checkBeanstalkd(t, s, r, want, "map[buried:10 ready:703 scheduled:30]", false)
		nothing(t, s, uint64(len(want)), "beanstalkd", dir)
	})
}

// checkBeanstalkd works everything off and compares it with what was put.
func checkBeanstalkd(t *testing.T, s *kit.Server, r report, put map[string]uint32, states string, paused bool) {
	t.Helper()
	got := map[string]uint64{}
	for _, q := range r.Queues {
		got[q.State] += q.Read
	}
	if fmt.Sprint(got) != states {
		t.Errorf("%v, want %s", got, states)
	}
	c := beanstalkClient(t, s.Addr("beanstalkd"))
	stats, err := beanstalk.NewTube(c, "still").Stats()
	if err != nil || (stats["pause"] == "0") == paused {
		t.Errorf("%v, %v: paused %v", stats, err, paused)
	}
	if err := beanstalk.NewTube(c, "still").Pause(0); err != nil {
		t.Fatal(err)
	}
	for tube, bound := range map[string]int{"set": 100, "later": 100} {
		if _, err := beanstalk.NewTube(c, tube).Kick(bound); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[string]uint32)
	maps.Copy(want, put)
	last := ""
	for len(want) > 0 {
		id, body, err := beanstalk.NewTubeSet(c, "work", "later", "set", "still").Reserve(0)
		if errors.Is(err, beanstalk.ErrTimeout) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		facts, err := c.StatsJob(id)
		if err != nil {
			t.Fatal(err)
		}
		tube := strings.Trim(facts["tube"], `"`)
		name := tube + " " + string(body)
		pri, ok := want[name]
		if !ok || facts["pri"] != fmt.Sprint(pri) || facts["ttr"] != "90" {
			t.Fatalf("%q came twice, from nowhere or changed: %v, want %d", name, facts, pri)
		}
		if order := facts["pri"] + string(body); tube == "work" {
			if order < last {
				t.Errorf("%q came after %q", order, last)
			}
			last = order
		}
		delete(want, name)
		if err := c.Delete(id); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) != 0 {
		t.Errorf("%d jobs never came: %v", len(want), want)
	}
}
