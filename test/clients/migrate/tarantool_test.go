package migrate

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarantool/go-tarantool/v2"
	"github.com/tarantool/go-tarantool/v2/queue"

	"millrace/test/clients/kit"
)

// tarantoolConn connects to a server.
func tarantoolConn(t *testing.T, addr, user, password string) *tarantool.Connection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := tarantool.Connect(
		ctx,
		tarantool.NetDialer{Address: addr, User: user, Password: password},
		tarantool.Opts{},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has answered
	return c
}

// startTarantool starts a Tarantool server with tubes.
func startTarantool(t *testing.T) (addr string) {
	t.Helper()
	addr = freeAddr(t)
	_, port := hostPort(t, addr)
	script, err := filepath.Abs(filepath.Join("testdata", "queue.lua"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "tcp", addr, installed(t, "tarantool"), script, port, tempDir(t))
	await(t, "the users are there", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		dialer := tarantool.NetDialer{Address: addr, User: "worker", Password: "secret of worker"}
		c, err := tarantool.Connect(ctx, dialer, tarantool.Opts{})
		return err == nil && c.Close() == nil
	})
	return addr
}

// tube makes a tube and returns what puts into it, which counts.
func tube(t *testing.T, c *tarantool.Connection, name string, kind string, cfg map[string]any) queue.Queue {
	t.Helper()
	if _, err := c.Do(tarantool.NewEvalRequest("local name, kind, opts = ... ; queue.create_tube(name, kind, opts)").
		Args([]any{name, kind, cfg})).Get(); err != nil {
		t.Fatal(err)
	}
	return queue.New(c, name)
}

// put puts a task.
func put(t *testing.T, q queue.Queue, data any, o queue.Opts) *queue.Task {
	t.Helper()
	task, err := q.PutWithOpts(data, o)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// takeAll takes and acknowledges what a tube has, and returns the data.
func takeAll(t *testing.T, q queue.Queue, n int) (data []string) {
	t.Helper()
	for range n {
		task, err := q.TakeTimeout(patience)
		if err != nil || task == nil {
			t.Fatalf("%v after %d tasks: %v", task, len(data), err)
		}
		data = append(data, fmt.Sprint(task.Data()))
		if err := task.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// TestTarantool moves from a Tarantool server with tubes of every type.
func TestTarantool(t *testing.T) {
	t.Parallel()
	addr := startTarantool(t)
	c := tarantoolConn(t, addr, "filler", "secret of filler")
	const many = 6000
	fifo := tube(t, c, "fifo", "fifo", nil)
	for i := range many {
		put(t, fifo, fmt.Sprintf("%05d", i), queue.Opts{})
	}
	put(t, fifo, "buried", queue.Opts{})
	first, err := fifo.TakeTimeout(patience) // and holds it: it is ready here
	if err != nil || first == nil {
		t.Fatal(first, err)
	}
	if _, err := c.Do(tarantool.NewCallRequest("queue.tube.fifo:bury").Args([]any{many})).Get(); err != nil {
		t.Fatal(err)
	}
	timed := tube(t, c, "timed", "fifottl", map[string]any{"ttl": 5000})
	put(t, timed, "second", queue.Opts{Pri: 5})
	put(t, timed, "later", queue.Opts{Delay: time.Hour, Ttl: 2 * time.Hour, Ttr: time.Minute})
	put(t, timed, "first", queue.Opts{Pri: 1, Ttl: time.Hour})
	groups := tube(t, c, "groups", "utube", nil)
	timedGroups := tube(t, c, "timed_groups", "utubettl", nil)
	for _, q := range []queue.Queue{groups, timedGroups} {
		put(t, q, "a1", queue.Opts{Utube: "a"})
		put(t, q, "a2", queue.Opts{Utube: "a"})
		put(t, q, "b1", queue.Opts{Utube: "b"})
	}
	limited := tube(t, c, "limited", "limfifottl", map[string]any{"capacity": 3})
	put(t, limited, map[string]any{"n": 1}, queue.Opts{})
	tube(t, c, "other", "lifo", nil)
	const all = many + 1 + 3 + 6 + 1

	s := kit.Start(t, []string{"web", "tarantool"})
	from := "tcp://reader:secret%20of%20reader@" + addr
	r := migrate(t, s, "--dry-run", "tarantool", from)
	if read, arrived, _, refused := r.sum(); read != all || arrived != all || refused != 0 || r.Left != all {
		t.Errorf("%+v", r)
	}
	r = everything(t, s, all, "tarantool", "tcp://worker:secret%20of%20worker@"+addr)
	if len(r.Problems) != 1 || r.Problems[0].Queue != "other" || !strings.Contains(r.Problems[0].Problem, "lifo") {
		t.Errorf("%+v", r.Problems)
	}
	nothing(t, s, all, "tarantool", from)

	here := tarantoolConn(t, s.Addr("tarantool"), "", "")
	for i, data := range takeAll(t, queue.New(here, "fifo"), many) {
		if data != fmt.Sprintf("%05d", i) {
			t.Fatalf("the task %d is %s", i, data)
		}
	}
	if n, err := queue.New(here, "fifo").Kick(5); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if data := takeAll(t, queue.New(here, "fifo"), 1); data[0] != "buried" {
		t.Errorf("%v", data)
	}
	if data := takeAll(t, queue.New(here, "timed"), 2); strings.Join(data, " ") != "first second" {
		t.Errorf("%v", data)
	}
	later, err := queue.New(here, "timed").Peek(1)
	if err != nil || !later.IsDelayed() || later.Data() != "later" {
		t.Errorf("%v, %v", later, err)
	}
	for _, name := range []string{"groups", "timed_groups"} {
		q := queue.New(here, name)
		one, err := q.Take()
		other, err2 := q.Take()
		none, err3 := q.TakeTimeout(time.Millisecond)
		if err != nil || err2 != nil || err3 != nil || one.Data() != "a1" || other.Data() != "b1" || none != nil {
			t.Errorf("%s: %v, %v, %v, %v, %v, %v", name, one, other, none, err, err2, err3)
		}
	}
	lim := queue.New(here, "limited")
	for range 2 {
		put(t, lim, "fits", queue.Opts{})
	}
	if task, err := lim.Put("one too many"); err == nil && task != nil {
		t.Errorf("%v", task)
	}
	nothing(t, s, all, "tarantool", from)
}
