package system

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/test/harness"
	"millrace/test/suite"
)

// TestHangup sends SIGHUP again and again: what can be changed is, what cannot is refused as a whole, and nothing ends
// the server.
func TestHangup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure := func(level string, waiting int) {
		t.Helper()
		write("millrace.toml", fmt.Sprintf("[log]\nlevel = %q\n[server]\nmax_waiting = %d\n[web]\ntoken_file = "+
			"%q\n[web.tls]\ncert = %q\nkey = %q\n",
			level, waiting, file("token"), file("cert.pem"), file("key.pem")))
	}
	certify := func(name string) {
		t.Helper()
		cert, key := testkit.NewCertificate(t, name).Files(t)
		if err := errors.Join(os.Rename(cert, file("cert.pem")), os.Rename(key, file("key.pem"))); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "first\n")
	certify("one.example")
	configure("info", 1000)
	o := options(suite.DataDir(t), "--config", file("millrace.toml"))
	o.Also = []string{"web"}
	s := suite.Start(t, o)
	hangup := func(want string) {
		t.Helper()
		before := len(s.Stderr())
		if err := s.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(t, s, before, want)
	}
	get := func(token string, want int) {
		t.Helper()
		if got := status(t, s.Addrs["web"], token); got != want {
			t.Errorf("with the token %s: status %d, want %d", token, got, want)
		}
	}
	get("first", http.StatusOK)

	hangup("configuration reloaded")
	write("token", "second\n")
	certify("two.example")
	configure("debug", 1000)
	hangup("configuration reloaded")
	get("first", http.StatusUnauthorized)
	get("second", http.StatusOK)
	if name := certified(t, s.Addrs["web"]); name != "two.example" {
		t.Errorf("the certificate is that of %s", name)
	}

	write("token", "third\n")
	configure("info", 7)
	hangup(`"restart":"server.max_waiting"`)
	get("second", http.StatusOK)
	get("third", http.StatusUnauthorized)
	configure("loud", 1000)
	hangup("it is not valid")
	configure("info", 1000)
	write("key.pem", "no key")
	hangup("web.tls: ")
	get("third", http.StatusUnauthorized)
	if reply, err := dial(t, s.Addr).Do("PING"); err != nil || reply != "PONG {}" {
		t.Errorf("PING: %q, %v", reply, err)
	}
	stop(t, s)
}

// await waits until the log has a text behind a place.
func await(t *testing.T, s *harness.Server, from int, want string) {
	t.Helper()
	deadline, tick := time.After(harness.Patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(s.Stderr()[from:], want) {
		select {
		case <-tick.C:
		case <-s.Done():
			t.Fatalf("the server has ended with status %d:\n%s", s.ExitCode(), s.Stderr())
		case <-deadline:
			t.Fatalf("the log does not say %q:\n%s", want, s.Stderr()[from:])
		}
	}
}

// trusting are clients that take every certificate: which one it is, is what is looked at.
var trusting = &tls.Config{InsecureSkipVerify: true}

func status(t *testing.T, addr, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/api/v1/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: trusting, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // only the status is of interest
	return resp.StatusCode
}

func certified(t *testing.T, addr string) string {
	t.Helper()
	c, err := tls.Dial("tcp", addr, trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing was said
	return c.ConnectionState().PeerCertificates[0].DNSNames[0]
}
