package cli

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
	"millrace/internal/testkit"
)

// asked is a server under test, asked over its operator API.
type asked struct {
	t       *testing.T
	url     string
	data    string
	environ []string
	stop    func() // at the latest at the end of the test
}

// startServer runs a server with nothing but its operator's side until the end of the test.
func startServer(t *testing.T, more ...string) *asked {
	t.Helper()
	return startServerIn(t, filepath.Join(t.TempDir(), "data"), more...)
}

func startServerIn(t *testing.T, data string, more ...string) *asked {
	t.Helper()
	s := &asked{t: t, data: data}
	args := []string{
		"serve", "--data-dir", s.data, "--store-durability=none", "--store-free-floor=0",
		"--web-addr=127.0.0.1:0",
	}
	for _, k := range server.Settings().Keys() {
		if k.Kind == config.KindAddresses && k.Name != "web.addr" {
			args = append(args, "--"+k.Flag()+"=off")
		}
	}
	signals, status := make(chan os.Signal, 1), make(chan int, 1)
	out := &banner{lines: make(chan string, 1)}
	log := new(testkit.Buffer)
	go func() { status <- Main(append(args, more...), Process{Stdout: out, Stderr: log, Signals: signals}) }()
	select {
	case text := <-out.lines:
		s.url = regexp.MustCompile(`https?://[0-9.:]+`).FindString(text)
	case code := <-status:
		t.Fatalf("status %d: %s", code, log)
	}
	s.environ = append(os.Environ(), config.ClientURLVariable+"="+s.url)
	s.stop = sync.OnceFunc(func() {
		signals <- syscall.SIGTERM
		if code := <-status; code != 0 {
			t.Errorf("the server ended with %d: %s", code, log)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// with runs a command with some standard input.
func (s *asked) with(stdin io.Reader, args ...string) outcome {
	s.t.Helper()
	var stdout, stderr testkit.Buffer
	status := Main(args, Process{Stdin: stdin, Stdout: &stdout, Stderr: &stderr, Environ: s.environ})
	return outcome{status, stdout.String(), stderr.String()}
}

// run runs a command that gets nothing to read.
func (s *asked) run(line string, more ...string) outcome {
	s.t.Helper()
	return s.with(strings.NewReader(""), append(strings.Fields(line), more...)...)
}

// ok runs a command that must succeed, and returns what it prints.
func (s *asked) ok(line string, more ...string) string {
	s.t.Helper()
	got := s.run(line, more...)
	if got.status != 0 {
		s.t.Fatalf("%s %q: status %d\n%s", line, more, got.status, got.stderr)
	}
	return got.stdout
}

// fails runs a command that must end with a status and say something.
func (s *asked) fails(status int, says, line string, more ...string) {
	s.t.Helper()
	got := s.run(line, more...)
	if got.status != status || !strings.Contains(got.stderr, says) {
		s.t.Errorf("%s %q: status %d, want %d; it says\n%s\nwant %q", line, more, got.status, status, got.stderr, says)
	}
}

// counts returns the READY to DEAD columns of a queue.
func (s *asked) counts(queue string) string {
	s.t.Helper()
	for line := range strings.Lines(s.ok("queue ls")) {
		if cells := strings.Fields(line); cells[1] == queue {
			return strings.Join(cells[2:9], " ")
		}
	}
	return "none"
}

func TestQueueCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.run("queue ls"); got.status != 0 || got.stdout != "" || !strings.Contains(got.stderr, "no queues") {
		t.Errorf("no queues: %+v", got)
	}
	for _, q := range []string{"mails", "mails", "reports"} {
		s.ok("push "+q, `{"a":1}`)
	}
	s.ok("push mails --namespace other x")
	s.ok("push lonely --namespace other x")
	if got := s.counts("mails"); got != "2 0 0 0 0 0 0" {
		t.Errorf("mails: %s", got)
	}
	if got := s.ok("queue ls rep --json"); !strings.HasPrefix(got, `{"namespace":"default","name":"reports"`) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("as JSON: %s", got)
	}
	if got := s.ok("queue ls -n other"); strings.Contains(got, "reports") || !strings.Contains(got, "lonely") {
		t.Errorf("of one namespace:\n%s", got)
	}
	if got := s.ok("queue pause mails reports --for 10m"); got != "mails is paused for 10m0s.\nreports is "+
		"paused for 10m0s.\n" {
		t.Errorf("pause: %s", got)
	}
	if got := s.ok("queue ls mails -n default"); !strings.Contains(got, "for 9m59s") &&
		!strings.Contains(got, "for 10m0s") {
		t.Errorf("paused:\n%s", got)
	}
	s.ok("queue resume mails reports")
	s.fails(4, "add --namespace other", "queue pause lonely")
	s.fails(4, `"millrace queue ls" lists all queues`, "queue pause nowhere")
	s.fails(2, "needs the name of a queue", "queue pause")
	s.fails(2, "no time", "queue pause mails --for -1s")
	s.fails(2, "add --yes", "queue rm mails")
	s.fails(2, "add --yes", "queue purge mails")
	s.fails(2, "want one of scheduled", "queue purge mails --state red --yes")
	if got := s.counts("mails"); got != "2 0 0 0 0 0 0" {
		t.Errorf("something was done to mails: %s", got)
	}
	if got := s.ok("queue purge mails --state dead --yes"); got != "0 dead jobs of mails deleted.\n" {
		t.Errorf("purge: %s", got)
	}
	if got := s.ok("queue purge mails --yes --json"); got != `{"namespace":"default","queue":"mails","jobs":2}`+"\n" {
		t.Errorf("purge: %s", got)
	}
	if got := s.ok("queue rm reports --yes"); got != "reports removed with 1 job.\n" || s.counts("reports") != "none" {
		t.Errorf("rm: %s", got)
	}
	if got := s.ok("__complete queue pause ma"); !strings.HasPrefix(got, "mails\n:") {
		t.Errorf("completion: %s", got)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--web-password=op", "--web-read-token=look")
	s.fails(1, "MILLRACE_API_TOKEN or MILLRACE_API_PASSWORD", "queue ls")
	s.fails(1, "MILLRACE_API_TOKEN or MILLRACE_API_PASSWORD", "queue ls --password wrong")
	s.ok("push mails --password op x")
	s.ok("queue ls --token look")
	s.fails(1, "operator's password or token", "queue pause mails --token look")
	s.environ = append(s.environ, "MILLRACE_API_PASSWORD=op")
	s.ok("queue pause mails")

	// On the server's own machine the configuration is enough.
	local := *s
	local.environ = []string{"MILLRACE_WEB_ADDR=" + strings.TrimPrefix(s.url, "http://"), "MILLRACE_WEB_PASSWORD=op"}
	local.ok("queue resume mails")
	local.environ = []string{"MILLRACE_WEB_ADDR=127.0.0.1:0"}
	local.fails(2, "with --api or MILLRACE_API", "queue ls")
	local.environ = []string{"MILLRACE_WEB_ADDR=off"}
	local.fails(2, "with --api or MILLRACE_API", "queue ls")
	local.environ = []string{"MILLRACE_NONSENSE=1"}
	local.fails(2, "name its address with --api", "queue ls")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &asked{t: t, environ: []string{"MILLRACE_API=http://" + addr}}
	for _, line := range []string{
		"queue ls", "job ls", "push q x", "fetch q --exec cat", "backup /x",
		"export", "job retry 1",
	} {
		s.fails(5, "Is the server running", line)
	}
	s.fails(2, "is no address of a server", "queue ls --api localhost:1")
	s.fails(2, "give both or none", "queue ls --tls-cert x")
	s.fails(1, "--tls-ca: open", "queue ls --tls-ca /none")
	s.fails(1, "--tls-cert: open", "queue ls --tls-cert /none --tls-key /none")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := testkit.NewCertificate(t, "localhost").Files(t)
	other, _ := testkit.NewCertificate(t, "localhost").Files(t)
	s := startServer(t, "--web-tls-cert="+cert, "--web-tls-key="+key)
	s.fails(5, "certificate", "queue ls")
	s.ok("queue ls --tls-insecure")
	byName := strings.Replace(s.url, "127.0.0.1", "localhost", 1)
	s.ok("queue ls --tls-ca "+cert, "--api", byName)
	s.fails(5, "certificate", "queue ls --tls-ca "+other, "--api", byName)
	s.fails(1, "holds no certificate", "queue ls --tls-ca "+key)

	// The server of this machine is trusted by its own certificate, whatever name that has.
	local := *s
	env := []string{"MILLRACE_WEB_ADDR=" + strings.TrimPrefix(s.url, "https://"), "MILLRACE_WEB_TLS_KEY=" + key}
	local.environ = append(env, "MILLRACE_WEB_TLS_CERT="+cert)
	local.ok("queue ls")
	local.environ = append(env, "MILLRACE_WEB_TLS_CERT="+other)
	local.fails(5, "another certificate", "queue ls")
	local.environ = append(env, "MILLRACE_WEB_TLS_CERT="+key)
	local.fails(5, "another certificate", "queue ls")
	local.environ = append(env, "MILLRACE_WEB_TLS_CERT=/none")
	local.fails(1, "--tls-ca", "queue ls")
}
