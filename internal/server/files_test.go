package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestShareFiles(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint64{filesMin, 200, 256, 1023, 1024, 4096, 65535, 131072, 1 << 30} {
		f, err := shareFiles(limit, 7)
		if err != nil {
			t.Fatal(err)
		}
		if sum := f.tables + f.conns + f.dismissed + filesOwn + 2*7; uint64(sum) > limit || f.conns < 1 ||
			f.tables < tableFilesMin {
			t.Errorf("of %d files %d are shared out: %+v", limit, sum, f)
		}
		if limit >= 256 && uint64(f.conns) < limit/3 {
			t.Errorf("of %d files only %d are for connections", limit, f.conns)
		}
	}
	for _, none := range []uint64{0, 1 << 63} {
		if f, err := shareFiles(none, 7); err != nil || f != (fileShares{}) {
			t.Errorf("without a limit (%d): %+v, %v", none, f, err)
		}
	}
	if _, err := shareFiles(filesMin-1, 7); err == nil || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("with too few files: %v", err)
	}
}

// Connections beyond what the limit of open files allows are told so as their protocol does, counted and logged once;
// when others have gone there is room again.
func TestSeats(t *testing.T) {
	t.Parallel()
	const limit = 200
	r := start(t, load(t, map[string]string{
		"workq.addr": "127.0.0.1:0", "faktory.addr": "127.0.0.1:0", "lmstfy.addr": "127.0.0.1:0",
		"lmstfy.admin_addr": "127.0.0.1:0",
		"tarantool.addr":    "127.0.0.1:0", "web.addr": "127.0.0.1:0",
	}), Options{openFiles: func() (uint64, error) { return limit, nil }})
	room := r.server.files.conns
	addrs := map[string]string{}
	for _, g := range r.server.gates {
		addrs[g.config.Name()] = g.Addr().String()
	}
	admitted := make([]*client, 0, room)
	for range room - 1 {
		c := dial(t, addrs["masenko"])
		c.expect(t, "PING", "PONG {}")
		admitted = append(admitted, c)
	}
	last := dial(t, addrs["web"]) // kept open after its answer, it has the last seat
	if _, err := io.WriteString(last, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := last.r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("livez: %q, %v", line, err)
	}
	for name, want := range map[string]string{
		"masenko": "ERR ", "workq": "-SERVER-ERROR Too many clients\r\n",
		"faktory": "-ERR too many connections: ", "tarantool": "",
		"lmstfy": "HTTP/1.1 503 ", "lmstfy admin": "HTTP/1.1 503 ", "web": "HTTP/1.1 503 ",
	} {
		c := dial(t, addrs[name])
		text, err := io.ReadAll(c.r)
		if err != nil || !strings.HasPrefix(string(text), want) || want == "" && len(text) > 0 {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
	if n := strings.Count(r.log.String(), "limit of open files"); n != 1 {
		t.Errorf("the log tells %d times of refused connections:\n%s", n, r.log)
	}
	for _, c := range admitted[:5] {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	// A refusal may come before the request, which is an error to the client.
	until(t, "the server notices", func() bool {
		var status int
		status, text = ask(t, http.MethodGet, addrs["web"], "/metrics", "")
		return status == http.StatusOK
	})
	for _, want := range []string{
		`millrace_connections_rejected_total{protocol="workq",reason="files"} 1`,
		`millrace_connections_rejected_total{protocol="workq",reason="limit"} 0`, "millrace_connections_limit ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
}
