package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// Every protocol counts what its clients ask for, by its own names.
func TestCommandsAreCounted(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.addr": "127.0.0.1:0, 127.0.0.1:0=tenant-b", "workq.addr": "127.0.0.1:0", "lmstfy.addr": "127.0.0.1:0",
		"tarantool.addr":   "127.0.0.1:0",
		"tarantool15.addr": "127.0.0.1:0", "faktory.addr": "127.0.0.1:0", "web.addr": "127.0.0.1:0",
		"faktory.max_connections": "1",
	})
	r := start(t, cfg, Options{})
	addr := map[string][]string{}
	for _, g := range r.server.gates {
		addr[g.config.Name()] = append(addr[g.config.Name()], g.Addr().String())
	}
	m := dial(t, addr["masenko"][0])
	m.expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
	m.expect(t, `PUSH {`, `ERR {"msg":"cannot unmarshal payload"}`)
	m.expect(t, "WHAT", `ERR {"msg":"unknown verb WHAT"}`)
	m.expect(t, "ATOMIC\nDONE", "OK {}")
	m.expect(t, `FETCH {"queues":["none"],"timeout":"1ms"}`, "EMPTY {}")
	for _, a := range addr["masenko"] { // all namespaces count together
		dial(t, a).expect(t, "PING", "PONG {}")
	}
	w := dial(t, addr["workq"][0])
	w.expect(t, "lease q 1\r", "-TIMEOUT")
	w.expect(t, "add\r", "-CLIENT-ERROR Invalid command args")
	w.expect(t, "what\r", "-CLIENT-ERROR Unknown command")
	f := dial(t, addr["faktory"][0])
	f.hear(t, `+HI {"v":2}`)
	f.expect(t, `HELLO {"v":2}`, "+OK")
	f.expect(t, `PUSH {"jid":"12345678","jobtype":"t","args":[]}`, "+OK")
	f.expect(t, "PUSH {", "-ERR invalid JSON: not a JSON object")
	dial(t, addr["faktory"][0]).hear(t, "-ERR too many connections: 1")
	modern, err := tarantooltest.Dial(addr["tarantool"][0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = modern.Close() }()
	if err := modern.CreateTube("t", "fifo"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := modern.Take("t", 0); ok || err != nil {
		t.Errorf("take: %v, %v", ok, err)
	}
	if err := modern.Ack("t", 5); err == nil {
		t.Error("a task that nobody has is acked")
	}
	old, err := tarantooltest.DialBox15(addr["tarantool tarantool15"][0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if _, err := old.Put("q", "hello"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/ns/q/size", "/api/ns/q", "/api/ns/q/job/none", "/what"} {
		get(t, "http://"+addr["lmstfy"][0]+path)
	}
	text := get(t, "http://"+addr["web"][0]+"/metrics")
	for _, want := range []string{
		`{command="PUSH",protocol="masenko",result="ok"} 1`, `{command="PUSH",protocol="masenko",result="error"} 1`,
		`{command="PING",protocol="masenko",result="ok"} 2`, `{command="ATOMIC",protocol="masenko",result="ok"} 1`,
		`{command="FETCH",protocol="masenko",result="ok"} 1`, `{command="unknown",protocol="masenko",result="error"} 1`,
		`{command="lease",protocol="workq",result="ok"} 1`, `{command="add",protocol="workq",result="error"} 1`,
		`{command="unknown",protocol="workq",result="error"} 1`,
		`{command="HELLO",protocol="faktory",result="ok"} 1`, `{command="PUSH",protocol="faktory",result="ok"} 1`,
		`{command="PUSH",protocol="faktory",result="error"} 1`,
		`{command="queue.create_tube",protocol="tarantool",result="ok"} 1`,
		`{command="take",protocol="tarantool",result="ok"} 1`,
		`{command="ack",protocol="tarantool",result="error"} 1`,
		`{command="queue.put",protocol="tarantool15",result="ok"} 1`,
		`{command="size",protocol="lmstfy",result="ok"} 1`, `{command="consume",protocol="lmstfy",result="ok"} 1`,
		`{command="peek_job",protocol="lmstfy",result="error"} 1`,
		`{command="unknown",protocol="lmstfy",result="error"} 1`,
	} {
		if !strings.Contains(text, "\nmillrace_commands_total"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if want := `millrace_connections_rejected_total{protocol="faktory",reason="limit"} 1`; !strings.Contains(text,
		want) {
		t.Errorf("%s is missing", want)
	}
}

// get asks for a page and returns its text, whatever the answer is.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hear wants a line that nobody has asked for.
func (c *client) hear(t *testing.T, want string) {
	t.Helper()
	if got, err := c.r.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
}
