package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// The settings reach the protocol, both its wire protocols work on the same tasks, and
// the signal that ends the server answers whoever waits.
func TestTarantool(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.addr": "off", "tarantool.addr": "127.0.0.1:0", "tarantool15.addr": "127.0.0.1:0",
		"tarantool.auth": "login", "tarantool.users": "bob:secret",
	})
	r := start(t, cfg, Options{})
	want := fmt.Sprintf("tarantool  %s (namespace default, authentication)\ntarantool15 %s (namespace default)\n",
		r.addr(0), r.addr(1))
	if !strings.HasSuffix(r.banner, want) {
		t.Errorf("banner:\n%s\nwant at its end:\n%s", r.banner, want)
	}
	c, err := tarantooltest.Dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server has
	if _, err := c.Call("queue.state", ""); err == nil {
		t.Error("a guest may call")
	}
	if err := c.Auth("bob", "wrong"); err == nil {
		t.Error("a wrong password is right")
	}
	if err := c.Auth("bob", "secret"); err != nil {
		t.Fatal(err)
	}
	old, err := tarantooltest.DialBox15(r.addr(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() }) // the server has
	if _, err := old.Put("q", "hello"); err != nil {
		t.Fatal(err)
	}
	if task, ok, err := c.Take("q", 0); !ok || err != nil || string(task.Data) != "\xa5hello" {
		t.Errorf("take: %+v, %v, %v", task, ok, err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, ok, err := c.Take("q", 1000)
		if ok {
			err = errors.New("there was a task")
		}
		waiting <- err
	}()
	until(t, "the take waits", func() bool { return r.server.engine.Stats().Waiters == 1 })
	r.signals <- syscall.SIGTERM
	if err := <-waiting; err != nil {
		t.Errorf("the waiting take: %v", err)
	}
	if err := r.stop(t); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestTarantoolWithoutUsers(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{"tarantool.addr": "127.0.0.1:0", "tarantool.auth": "login"})
	err := Run(context.Background(), cfg, Options{})
	if err == nil || !strings.Contains(err.Error(), "nobody could log in") {
		t.Errorf("a server that nobody can use: %v", err)
	}
}
