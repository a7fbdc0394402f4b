package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	faktory "github.com/contribsys/faktory/client"

	"millrace/test/clients/kit"
)

// following is a command that follows a server.
type following struct {
	*exec.Cmd
	began chan struct{} // it follows, and can be interrupted
	once  sync.Once
}

// Write takes what the command tells on its standard error.
func (f *following) Write(text []byte) (int, error) {
	if bytes.HasPrefix(text, []byte("following ")) {
		f.once.Do(func() { close(f.began) })
	}
	return os.Stderr.Write(text)
}

// follow runs the command that follows a server.
func follow(t *testing.T, s *kit.Server, args ...string) *following {
	t.Helper()
	args = append([]string{"migrate", "--follow", "--api", "http://" + s.Addr("web")}, args...)
	f := &following{Cmd: kit.Command(t, args...), began: make(chan struct{})}
	f.Stderr = f
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	return f
}

// interrupted ends it as a user does.
func interrupted(t *testing.T, f *following) error {
	t.Helper()
	select {
	case <-f.began:
	case <-time.After(patience):
		t.Fatal("it does not begin")
	}
	if err := f.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return f.Wait()
}

// stopped ends it as a user does, after which it has nothing to complain about.
func stopped(t *testing.T, f *following) {
	t.Helper()
	if err := interrupted(t, f); err != nil {
		t.Error(err)
	}
}

// TestFollowFaktory passes jobs on while they are pushed. What has been migrated before is not passed on again.
func TestFollowFaktory(t *testing.T) {
	t.Parallel()
	addr, redis, _ := startFaktory(t)
	old := faktoryClient(t, addr)
	want := map[string]bool{}
	push := func(n int) {
		for i := range n {
			j := faktory.NewJob("kind", i)
			j.Queue = []string{"first", "second"}[i%2]
			want[j.Jid] = true
			if err := old.Push(j); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(50)
	s := kit.Start(t, []string{"web", kit.Faktory})
	migrate(t, s, "faktory", redis)
	cmd := follow(t, s, "faktory", "tcp://"+addr)
	push(50)
	await(t, "the old server is empty", func() bool { return faktoryLeft(t, old) == 0 })
	stopped(t, cmd)
	c := faktoryClient(t, s.Addr(kit.Faktory))
	for range 100 {
		j, err := c.Fetch("first", "second")
		if err != nil || j == nil || !want[j.Jid] {
			t.Fatalf("%+v, %v", j, err)
		}
		delete(want, j.Jid)
		if err := c.Ack(j.Jid); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := c.Fetch("first", "second"); err != nil || j != nil {
		t.Errorf("%+v, %v: it came twice", j, err)
	}
}

// faktoryLeft counts the jobs that wait or are held.
func faktoryLeft(t *testing.T, c *faktory.Client) float64 {
	t.Helper()
	info, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	all, _ := info["faktory"].(map[string]any)
	enqueued, _ := all["total_enqueued"].(float64)
	tasks, _ := all["tasks"].(map[string]any)
	working, _ := tasks["Workers"].(map[string]any)
	held, _ := working["size"].(float64)
	return enqueued + held
}

// TestFollowBeanstalkd passes jobs on while they are put, and is killed in between.
func TestFollowBeanstalkd(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	host, port := hostPort(t, addr)
	start(t, "tcp", addr, installed(t, "beanstalkd"), "-l", host, "-p", port)
	old := beanstalkClient(t, addr)
	s := kit.Start(t, []string{"web", "beanstalkd"})
	want := map[string]bool{}
	left := func() bool {
		stats, err := old.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats["current-jobs-ready"] == "0" && stats["current-jobs-reserved"] == "0"
	}
	for round := range 4 {
		stats, err := old.Stats()
		if err != nil {
			t.Fatal(err)
		}
		before, err := strconv.Atoi(stats["cmd-delete"])
		if err != nil {
			t.Fatal(err)
		}
		cmd := follow(t, s, "beanstalkd", "tcp://"+addr)
		for i := range 100 {
			body := fmt.Sprint(round, i)
			if _, err := beanstalk.NewTube(old, []string{"a", "b"}[i%2]).Put([]byte(body), 1, 0, patience); err != nil {
				t.Fatal(err)
			}
			want[body] = true
		}
		if round < 3 {
			await(t, "some have been passed on", func() bool {
				stats, err := old.Stats()
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(stats["cmd-delete"])
				return err == nil && n > before
			})
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // however it ends
			continue
		}
		await(t, "the old server is empty", left)
		stopped(t, cmd)
	}
	c := beanstalkClient(t, s.Addr("beanstalkd"))
	set := beanstalk.NewTubeSet(c, "a", "b")
	for {
		id, body, err := set.Reserve(0)
		if errors.Is(err, beanstalk.ErrTimeout) {
			break
		}
		if err != nil || !want[string(body)] || c.Delete(id) != nil {
			t.Fatalf("%s, %v: it came twice, or from nowhere", body, err)
		}
		delete(want, string(body))
	}
	if len(want) > 0 {
		t.Errorf("%d jobs never came", len(want))
	}
}
