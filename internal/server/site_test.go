package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// visit asks as a browser would, by any name of a host, and returns the status and the text of the answer.
func visit(t *testing.T, method, addr, path, host string, headers map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Every HTTP listener without a login refuses names that are not its own, and what pages of other sites ask for.
func TestWebPages(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.metrics_addr": "127.0.0.1:0", "lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0",
		"web.addr":     "127.0.0.1:0",
		"listen.hosts": "jobs.internal",
	})
	r := start(t, cfg, Options{})
	for i, path := range map[int]string{1: "/metrics", 2: "/api/ns/q/size", 3: "/pools", 4: "/api/v1/jobs"} {
		addr := r.addr(i)
		for host, want := range map[string]int{
			addr: 200, "localhost:1": 200, "jobs.internal": 200,
			"evil.example": 421,
		} {
			code, text := visit(t, http.MethodGet, addr, path, host, nil)
			if code != want || code == 421 && !strings.Contains(text, "listen.hosts") {
				t.Errorf("%s as %s: %d %s", path, host, code, text)
			}
		}
		for _, headers := range []map[string]string{
			{"Sec-Fetch-Site": "cross-site"},
			{"Sec-Fetch-Site": "same-site"},
			{"Origin": "http://evil.example"},
		} {
			if code, text := visit(t, http.MethodGet, addr, path, addr, headers); code != 403 {
				t.Errorf("%s with %v: %d %s", path, headers, code, text)
			}
		}
	}
	link := map[string]string{
		"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
		"Sec-Fetch-Dest": "document",
	}
	for i, want := range map[int]int{2: 403, 3: 403, 4: 200} { // a GET of LMSTFY takes jobs
		if code, text := visit(t, http.MethodGet, r.addr(i), map[int]string{2: "/api/ns/q", 3: "/pools", 4: "/"}[i],
			r.addr(i), link); code != want {
			t.Errorf("a link to listener %d: %d %s", i, code, text)
		}
	}
}

// Where a login is asked for every name will do.
func TestWebPagesWithLogin(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0", "web.addr": "127.0.0.1:0",
		"lmstfy.auth": "token", "lmstfy.admin_accounts": "ann:x", "web.password": "p",
	})
	r := start(t, cfg, Options{})
	for path, i := range map[string]int{
		"/api/ns/q": 1, "/token/ns": 2, "/debug/pprof/": 2, "/debug/pprof/heap": 2,
		"/api/v1/jobs": 3, "/metrics": 3,
	} {
		if code, text := visit(t, http.MethodGet, r.addr(i), path, "anything.example", nil); code != 401 {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
