package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// A call that would wait is refused by every protocol in its own way when as many wait as may, and told by the metrics.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	r := start(t, load(t, map[string]string{
		"workq.addr": "127.0.0.1:0", "faktory.addr": "127.0.0.1:0", "lmstfy.addr": "127.0.0.1:0",
		"tarantool.addr": "127.0.0.1:0",
		"web.addr":       "127.0.0.1:0", "server.max_waiting": "1",
	}), Options{})
	addrs := map[string]string{}
	for _, g := range r.server.gates {
		addrs[g.config.Name()] = g.Addr().String()
	}
	dial(t, addrs["masenko"]).send(t, `FETCH {"queues":["q"],"timeout":"40s"}`)
	until(t, "the first fetch waits", func() bool { return r.server.engine.Stats().Waiters == 1 })

	dial(t, addrs["masenko"]).expect(t, `FETCH {"queues":["q"],"timeout":"40s"}`,
		`ERR {"msg":"too many waiting clients"}`)
	workq := dial(t, addrs["workq"])
	workq.expect(t, "lease q 40000\r", "-SERVER-ERROR Too many waiting clients")
	workq.expect(t, "run 61a444a0-6128-41c0-8078-cc757d3bd2d8 q 1000 40000 1\r\nx\r",
		"-SERVER-ERROR Too many waiting clients")
	faktory := dial(t, addrs["faktory"])
	if line, err := faktory.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+HI") {
		t.Fatalf("%q, %v", line, err)
	}
	faktory.expect(t, `HELLO {"v":2}`, "+OK")
	faktory.expect(t, "FETCH q", "-ERR too many waiting clients")
	c, err := tarantooltest.Dial(addrs["tarantool"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing is left to be told
	if _, err := c.Call("queue.create_tube", `"q","fifo"`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Take("q", 1000); err == nil || !strings.Contains(err.Error(), "too many calls are waiting") {
		t.Errorf("take: %v", err)
	}
	status, text := getStatus(t, "http://"+addrs["lmstfy"]+"/api/default/q?timeout=40")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "too many waiting consumers") {
		t.Errorf("consume: %d %s", status, text)
	}
	_, text = getStatus(t, "http://"+addrs["web"]+"/metrics")
	for _, want := range []string{
		"\nmillrace_engine_waits_refused_total 6\n", "\nmillrace_engine_waiters 1\n",
		"\nmillrace_engine_waiters_limit 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not have %q", want)
		}
	}
}

func getStatus(t *testing.T, url string) (status int, text string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}
