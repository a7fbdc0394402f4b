package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
)

// served makes a data directory with one job in it, as a server leaves it.
func served(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", dir}
	for _, k := range server.Settings().Keys() {
		if k.Kind == config.KindAddresses {
			args = append(args, "--"+k.Flag()+"=off")
		}
	}
	args = append(args, "--masenko-addr=127.0.0.1:0")
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	status := make(chan int, 1)
	go func() { status <- Main(args, Process{Stdout: out, Stderr: io.Discard, Signals: signals}) }()
	_, addr, _ := strings.Cut(<-out.lines, "\nmasenko    ")
	addr, _, _ = strings.Cut(addr, " ")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, `PUSH {"name":"t","queue":"mail","payload":1}`+"\nQUIT\n"); err != nil {
		t.Fatal(err)
	}
	if reply, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(reply), `OK {"id":1}`) {
		t.Fatalf("%q, %v", reply, err)
	}
	_ = conn.Close()
	signals <- syscall.SIGTERM
	if got := <-status; got != 0 {
		t.Fatalf("exit status %d", got)
	}
	return dir
}

// broken is the directory with a byte changed in its marker, and so not what it says.
func broken(t *testing.T, dir string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckCommand(t *testing.T) {
	t.Parallel()
	dir := served(t)
	got := run(nil, "check", dir)
	if got.status != 0 || !strings.Contains(got.stdout, "  default/mail\n") ||
		!strings.Contains(got.stdout, dir+" is sound: ") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	for _, line := range []string{"tables: ", "records: ", "invariants: "} {
		if !strings.Contains(got.stderr, line) {
			t.Errorf("no line for %sin\n%s", line, got.stderr)
		}
	}
	// The directory of the configuration, for a program to read.
	got = run([]string{"MILLRACE_DATA_DIR=" + dir}, "check", "--json")
	var c checked
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.status != 0 {
		t.Fatalf("status %d: %v\n%s", got.status, err, got.stdout)
	}
	if !c.OK || c.Dir != dir || c.Jobs["ready"] != 1 || len(c.Queues) != 1 || c.Queues[0].Name != "mail" ||
		c.Queues[0].Jobs["ready"] != 1 || c.Records == 0 {
		t.Errorf("%+v", c)
	}

	got = run(nil, "check", "--json", broken(t, dir))
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.status != exitDamaged || c.OK ||
		!strings.Contains(c.Problem, "damaged") {
		t.Errorf("status %d, %v, %+v", got.status, err, c)
	}
	if !strings.Contains(got.stderr, `"millrace restore BACKUP DIR"`) {
		t.Errorf("no advice: %s", got.stderr)
	}
}

func TestRestoreCommand(t *testing.T) {
	t.Parallel()
	backup := served(t)
	dir := filepath.Join(t.TempDir(), "new")
	if got := run(nil, "restore", backup, dir); got.status != 0 ||
		got.stdout != fmt.Sprintf("Restored 1 job in 1 queue to %s.\n", dir) {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	if got := run(nil, "check", dir); got.status != 0 {
		t.Errorf("what was restored is not sound: %s", got.stderr)
	}
	if got := run(nil, "restore", backup, dir); got.status != exitFailure ||
		!strings.Contains(got.stderr, "is not empty") {
		t.Errorf("restored again: status %d: %s", got.status, got.stderr)
	}
	other := filepath.Join(t.TempDir(), "other")
	if got := run(nil, "restore", broken(t, backup), other); got.status != exitDamaged ||
		!strings.Contains(got.stderr, "the backup cannot be used") {
		t.Errorf("restored from a damaged one: status %d: %s", got.status, got.stderr)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("something was restored")
	}
}

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	ready := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || r.URL.Path != "/readyz":
			http.NotFound(w, r)
		case !ready && r.URL.RawQuery == "verbose":
			http.Error(w, "[+]store ok\n[-]space: little\nnot ready", http.StatusServiceUnavailable)
		case !ready:
			http.Error(w, "draining", http.StatusServiceUnavailable)
		case r.URL.RawQuery == "verbose":
			_, _ = io.WriteString(w, "[+]store ok\nok\n")
		default:
			_, _ = io.WriteString(w, "ok\n")
		}
	}))
	t.Cleanup(server.Close)
	if got := run(nil, "health", "--api", server.URL); got.status != 0 || got.stdout != "ready\n" {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	if got := run(nil, "health", "--api", server.URL+"/", "--verbose"); got.status != 0 ||
		got.stdout != "[+]store ok\nready\n" {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	ready = false
	if got := run(nil, "health", "--api", server.URL); got.status != 1 ||
		!strings.Contains(got.stderr, "not ready: 503 Service Unavailable: draining") {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	if got := run(nil, "health", "--api", server.URL, "--verbose"); got.status != 1 ||
		got.stdout != "[+]store ok\n[-]space: little\n" ||
		!strings.HasSuffix(got.stderr, "not ready: 503 Service Unavailable\n") {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	server.Close()
	if got := run(nil, "health", "--api", server.URL); got.status != 1 ||
		!strings.Contains(got.stderr, "is the server running") {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
}

// A server that does not answer is not waited for beyond the timeout.
func TestHealthTimeout(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := run(nil, "health", "--api", "http://"+l.Addr().String(), "--timeout", "50ms")
	if got.status != 1 || !strings.Contains(got.stderr, "in time") {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
}

func TestHealthAddress(t *testing.T) {
	t.Parallel()
	web := func(addr, cert string) []config.Listener {
		return []config.Listener{
			{Key: config.Key{Name: "other.addr"}, Addr: "x:1"},
			{Key: config.Key{Name: webKey}, Addr: addr, TLS: config.TLS{Cert: cert}},
		}
	}
	for _, c := range []struct {
		listeners []config.Listener
		want      string
		problem   string
	}{
		{web("127.0.0.1:7420", ""), "http://127.0.0.1:7420", ""},
		{web(":7420", ""), "http://127.0.0.1:7420", ""},
		{web("0.0.0.0:7420", "c.pem"), "https://127.0.0.1:7420", ""},
		{web("[::]:7420", ""), "http://[::1]:7420", ""},
		{web("example.org:80", ""), "http://example.org:80", ""},
		{web("127.0.0.1:0", ""), "", "--api"},
		{nil, "", "web.addr is off"},
	} {
		got, err := webURL(c.listeners)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil &&
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("%+v: %q, %v", c.listeners, got, err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"check", "a", "b"}, 2, `takes one directory, but got "b" too`},
		{[]string{"check", missing}, 1, "check the path"},
		{[]string{"restore", "a"}, 2, "takes a backup and a new data directory"},
		{[]string{"restore", missing, missing + "2"}, 1, "check the path"},
		{[]string{"health", "--api", "7420"}, 2, "http://127.0.0.1:7420"},
		{[]string{"health", "--timeout", "0s"}, 2, "--timeout"},
		{[]string{"completion", "tcsh"}, 2, `unknown command "tcsh" for "millrace completion"`},
	} {
		got := run(nil, c.args...)
		if got.status != c.status || !strings.Contains(got.stderr, c.stderr) || got.stdout != "" {
			t.Errorf("%q: status %d\n%s%s", c.args, got.status, got.stdout, got.stderr)
		}
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	for shell, part := range map[string]string{
		"bash": "__start_millrace", "zsh": "#compdef millrace",
		"fish": "complete -c millrace", "powershell": "Register-ArgumentCompleter",
	} {
		if got := run(nil, "completion", shell); got.status != 0 || !strings.Contains(got.stdout, part) {
			t.Errorf("%s: status %d, %d bytes", shell, got.status, len(got.stdout))
		}
	}
}

func TestVersionJSON(t *testing.T) {
	t.Parallel()
	var got buildFacts
	out := run(nil, "version", "--json")
	if err := json.Unmarshal([]byte(out.stdout), &got); err != nil || got.Version != "dev" ||
		!strings.HasPrefix(got.Go, "go1.") || got.OS == "" || got.Arch == "" {
		t.Errorf("%v: %s", err, out.stdout)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	lines, bar := &progress{w: &b}, &progress{w: &b, terminal: true}
	for _, p := range []*progress{lines, bar} {
		p.update("a", 1, 4) // too early to be worth a line
		p.shown = p.shown.Add(-lineEvery)
		p.update("a", 2, 4)
		p.update("a", 4, 4)
		p.update("b", 1, 0)
		p.shown = p.shown.Add(-lineEvery)
		p.update("b", 7, 0)
		p.stop()
	}
	const start = "\r\x1b[K"
	want := "a: 2 of 4\na: 4 done\nb: 7 so far\n" +
		start + "a          [###############...............] 50 %" + start + "a          4 done\n" + start +
		"b          7" + start
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}
