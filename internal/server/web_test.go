package server

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/testkit"
)

// The operator's side tells about every protocol, and its streams do not hold up a drain.
func TestWeb(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"web.addr": "127.0.0.1:0", "faktory.addr": "127.0.0.1:0", "web.token": "tok", "web.read_password": "look",
		"server.drain_timeout": "1h",
	})
	r := start(t, cfg, Options{})
	masenko, faktory, web := r.addr(0), r.addr(1), r.addr(2)
	if want := fmt.Sprintf("web        http://%s/ (web UI, operator API, metrics; login)\n",
		web); !strings.Contains(r.banner, want) {
		t.Errorf("the banner lacks %q:\n%s", want, r.banner)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+web+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer tok")
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var b strings.Builder
		if _, err := bufio.NewReader(resp.Body).WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b.String()
	}
	dial(t, masenko).expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
	conn, err := net.Dial("tcp", faktory)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := faktorytest.New(conn, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Push(faktorytest.Job{
		JID: "1234567890", Type: "Mail", Queue: "mails",
		Args: json.RawMessage("[1]"),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Fetch("mails"); err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string][]string{
		"/api/v1/jobs?ref=1234567890": {
			`"type":"Mail"`, `"pushed_by":"faktory"`, `"worker":"w1"`,
			`"fetched_by":"faktory"`, `"state":"running"`,
		},
		"/api/v1/jobs?queue=default": {`"pushed_by":"masenko"`, `"id":1,`},
		"/api/v1/workers":            {`"id":"w1"`, `"state":"running"`, `"namespace":"default"`},
		"/api/v1/connections": {`{"protocol":"masenko","namespace":"default","addresses":["` + masenko +
			`"],"tls":false,"open":1,"total":1,"rejected":0}`},
		"/api/v1/settings": {`{"key":"web.token","value":"********","source":"--web-token","default":"","secret":true,`},
		"/api/v1/storage":  {`"dir":"` + cfg.Data.Dir + `"`, `"durability":"fsync"`, `"free_bytes":`},
		"/api/v1/server":   {`"version":"1.2.3"`, `"ready":true`, `"role":"operator"`},
		"/readyz?verbose":  {"[+]accepting ok\n[+]store ok\n[+]space ok\nok\n"},
		"/metrics": {
			`millrace_jobs_pushed_total{namespace="default",protocol="faktory",queue="mails"} 1`,
			`millrace_connections{protocol="faktory"} 1`, `millrace_build_info{durability="fsync"`,
		},
		"/stats": {
			`"faktory_version":"1.10.0"`, `"queues":{"default":1,"mails":0}`,
			`"total_queues":2`,
		},
		"/health":       {`"description":"Faktory (Millrace 1.2.3)"`, `"command_count":`},
		"/debug/pprof/": {"goroutine"},
	} {
		code, text := ask(http.MethodGet, path, "")
		for _, want := range wants {
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %q in %s", path, code, want, text)
			}
		}
	}
	if code, text := ask(http.MethodPost, "/api/v1/workers/signal",
		`{"signal":"quiet","id":"w1"}`); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if state, err := worker.Call(`BEAT {"wid":"w1"}`); err != nil || state != `{"state":"quiet"}` {
		t.Errorf("the worker is told %q, %v", state, err)
	}
	for _, form := range []string{dialect.ULIDOf(1).String(), "1"} {
		if _, text := ask(http.MethodGet, "/api/v1/jobs?ref="+form, ""); !strings.Contains(text, `"id":1,`) {
			t.Errorf("%s: %s", form, text)
		}
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://anybody:look@"+web+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	events := bufio.NewReader(resp.Body)
	if line, err := events.ReadString('\n'); err != nil || line != "retry: 2000\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = worker.Close() // so that nothing but the stream is left to wait for
	r.signals <- syscall.SIGTERM
	begun := time.Now()
	if err := r.stop(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("the stream held up the server for %s", took)
	}
}

func TestFindID(t *testing.T) {
	t.Parallel()
	uuid := dialect.UUIDOf(3, 77).String()
	for text, want := range map[string]uint64{uuid: 77, dialect.ULIDOf(78).String(): 78} {
		if id, ok := findID(text); !ok || uint64(id) != want {
			t.Errorf("%s: %d, %v", text, id, ok)
		}
	}
	for _, text := range []string{"", "x", "6ba7b810-9dad-11d1-80b4-00c04fd430c4", "01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		if _, ok := findID(text); ok {
			t.Errorf("%q is taken for an id", text)
		}
	}
}

// Without a login and without Faktory there is less.
func TestWebAlone(t *testing.T) {
	t.Parallel()
	r := start(t, load(t, map[string]string{"web.addr": "127.0.0.1:0, 127.0.0.1:0"}), Options{})
	if !strings.Contains(r.banner, "; no login)") {
		t.Errorf("banner:\n%s", r.banner)
	}
	for i, path := range []string{"/livez", "/api/v1/server"} { // on both listeners
		if code, body := httpDo(t, http.MethodGet, "http://"+r.addr(1+i)+path, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := httpDo(t, http.MethodGet, "http://"+r.addr(1)+"/stats", ""); code != http.StatusNotFound {
		t.Errorf("stats: %d %s", code, body)
	}
	var list struct {
		Connections []api.Connections `json:"connections"`
	}
	_, body := httpDo(t, http.MethodGet, "http://"+r.addr(1)+"/api/v1/connections", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Connections) != 2 ||
		!slices.Equal(list.Connections[1].Addresses, []string{r.addr(1), r.addr(2)}) ||
		list.Connections[1].Protocol != "web" {
		t.Errorf("%s, %v", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestWebTLS(t *testing.T) {
	t.Parallel()
	cert, key := testkit.NewCertificate(t, "localhost").Files(t)
	r := start(t, load(t, map[string]string{
		"web.addr": "127.0.0.1:0", "web.tls.cert": cert, "web.tls.key": key,
		"web.password": "op",
	}), Options{})
	if !strings.Contains(r.banner, "web        https://"+r.addr(1)+"/") {
		t.Errorf("banner:\n%s", r.banner)
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.addr(1)+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.TLS == nil {
		t.Errorf("%s, %v", resp.Status, resp.TLS)
	}
	if cookie := newBrowser(t, "https").logIn(r.addr(1), "op"); !cookie.Secure {
		t.Errorf("a browser would send %s without TLS", cookie)
	}
}
