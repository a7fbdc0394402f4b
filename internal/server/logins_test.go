package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"millrace/internal/wire"
)

// Whatever checks a secret does so only a few times for who is wrong, and tells the operator.
func TestWrongLogins(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0", "tarantool.addr": "127.0.0.1:0",
		"faktory.addr": "127.0.0.1:0", "web.addr": "127.0.0.1:0",
		"lmstfy.auth": "token", "lmstfy.admin_accounts": "ann:secret", "tarantool.auth": "login",
		"tarantool.users":  "ann:secret",
		"faktory.password": "secret", "web.password": "secret", "web.read_token": "look",
	})
	r := start(t, cfg, Options{})
	public, private, tarantool, faktory, web := r.addr(1), r.addr(2), r.addr(3), r.addr(4), r.addr(5)
	basic := func(password string) map[string]string {
		return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+password))}
	}
	asks := func(addr, path string, headers func(secret string) map[string]string) func(string) string {
		return func(secret string) string {
			code, _ := visit(t, http.MethodGet, addr, path, addr, headers(secret))
			return fmt.Sprint(code)
		}
	}
	for _, door := range []struct {
		name           string
		try            func(secret string) string
		wrong, limited string
	}{
		{"a token of LMSTFY", asks(public, "/api/ns/q",
			func(s string) map[string]string { return map[string]string{"X-Token": s} }), "401", "429"},
		{"an account of LMSTFY", asks(private, "/token/ns", basic), "401", "429"},
		{"a password of the API", asks(web, "/api/v1/jobs", basic), "401", "429"},
		{
			"a token of the metrics", asks(web, "/metrics",
				func(s string) map[string]string { return map[string]string{"Authorization": "Bearer " + s} }), "401",
			"429",
		},
		{"the form of the web UI", func(s string) string { return fmt.Sprint(submit(t, web, s)) }, "401", "429"},
		{
			"Faktory", func(s string) string { return login("faktory", faktory, s) }, "ERR Invalid password",
			"ERR Too many invalid passwords",
		},
		{
			"Tarantool", func(s string) string { return login("tarantool", tarantool, "ann:"+s) },
			"Incorrect password supplied",
			"Too many incorrect passwords",
		},
	} {
		looked := 0
		for got := ""; !strings.Contains(got, door.limited); looked++ {
			if got = door.try(fmt.Sprint("wrong", looked)); looked > 1000 || !strings.Contains(got, door.wrong) &&
				!strings.Contains(got, door.limited) {
				t.Fatalf("%s: %q after %d attempts", door.name, got, looked)
			}
		}
	}
	code, text := visit(t, http.MethodGet, web, "/metrics", web,
		map[string]string{"Authorization": "Bearer look", "X-Forwarded-For": "10.0.0.1"})
	for _, protocol := range []string{"lmstfy", "lmstfy admin", "tarantool", "faktory", "web"} {
		for _, reason := range []string{"wrong", "limited"} {
			if name := fmt.Sprintf("millrace_logins_refused_total{protocol=%q,reason=%q} ", protocol,
				reason); code != 200 || !strings.Contains(text, name) {
				t.Errorf("status %d, no %s", code, name)
			}
		}
	}
	if !strings.Contains(r.log.String(), "login refused") {
		t.Errorf("log:\n%s", r.log)
	}
}

// submit sends the login form.
func submit(t *testing.T, addr, password string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/login",
		strings.NewReader(url.Values{"password": {password}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// login returns what a client is told that logs in through a protocol.
func login(protocol, addr, secret string) string {
	c, err := wire.Dial(protocol, wire.Options{Addr: addr, Secret: secret})
	if err == nil {
		_ = c.Close()
	}
	return fmt.Sprint(err)
}
