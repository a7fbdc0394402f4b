//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var failedLine = regexp.MustCompile(`(?m)^job 2 of mails failed after \d+\.\ds: exit status 3: second; it is dead now$`)

func TestFetchCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails --type Mail --key k --priority 4", `{"to":"ann"}`)
	s.ok("push mails --retry 0", "bad")
	s.ok("push mails --keep --ttl 1h", "kept")
	script := `body=$(cat); echo "$MILLRACE_JOB_ID $MILLRACE_JOB_QUEUE $MILLRACE_JOB_NAMESPACE $MILLRACE_JOB_TYPE $MILLRACE_JOB_KEY $MILLRACE_JOB_PRIORITY $MILLRACE_JOB_TRY $MILLRACE_JOB_BODY_KIND $body"
		if [ "$body" = bad ]; then echo first >&2; echo second >&2; exit 3; fi`
	got := s.run("fetch none mails --until-empty --result --exec", script)
	if got.status != 1 || !strings.Contains(got.stderr, "job 1 of mails done") ||
		!strings.Contains(got.stderr, "first\nsecond\n") ||
		!failedLine.MatchString(got.stderr) ||
		!strings.Contains(got.stderr, "millrace: 1 of 3 jobs failed") {
		t.Errorf("%+v", got)
	}
	if got := s.counts("mails"); got != "0 0 0 0 0 0 1" {
		t.Errorf("counts %s", got)
	}
	if got := s.ok("job get 2"); !strings.Contains(got, "exit status 3: second") || !strings.Contains(got, "  first") {
		t.Errorf("the failed one:\n%s", got)
	}
	if got := s.ok("job get 3"); !strings.Contains(got, "3 mails default   0 1 bytes kept (") {
		t.Errorf("the one with a result:\n%s", got)
	}
	s.fails(4, "no job to fetch", "fetch mails --until-empty --exec cat")
	s.ok("push mails x")
	if got := s.run("fetch mails --once --json --exec", "cat; echo loud >&2"); got.status != 0 || got.stdout != "x" ||
		!strings.Contains(got.stderr, `{"id":4,"queue":"mails","outcome":"done","state":"gone","seconds":`) ||
		!strings.Contains(got.stderr, "loud\n") {
		t.Errorf("once: %+v", got)
	}
	s.ok("push mails x")
	s.ok("push mails x")
	s.ok("push mails x")
	if got := s.run("fetch mails --count 2 --concurrency 8 --quiet --exec cat"); got.status != 0 ||
		got.stdout != "xx" || got.stderr != "" {
		t.Errorf("two of three: %+v", got)
	}
	if got := s.run("fetch mails --once --timeout 50ms --exec", "sleep 60"); got.status != 1 ||
		!strings.Contains(got.stderr, "ran longer than 50ms") {
		t.Errorf("too long: %+v", got)
	}
	s.ok("push mails x")
	if got := s.run("fetch mails --once --exec", "sleep 5 & echo left behind"); got.status != 0 ||
		!strings.Contains(got.stderr, "done after") {
		t.Errorf("something is left behind: %+v", got)
	}
	for _, c := range []struct{ args, says string }{
		{"", "--exec"},
		{"--exec x --concurrency 0", "--concurrency"},
		{"--exec x --lease 1s", "--lease"},
		{"--exec x --timeout -1s", "--timeout"},
		{"--exec x --count -1", "--count"},
		{"--exec x --once --count 2", "choose one of them"},
	} {
		s.fails(2, c.says, "fetch mails "+c.args)
	}
	s.fails(2, "needs the name of a queue", "fetch --exec cat")
}

// The first signal lets the job that runs come to its end, the second gives it back.
func TestFetchSignals(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	hold := filepath.Join(t.TempDir(), "hold")
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("push mails x")
	s.ok("push mails x")
	r := s.start("fetch", "mails", "--exec", "echo begun; read go < "+hold+"; echo ended")
	if got := r.line(); got != "begun" {
		t.Fatalf("%q", got)
	}
	r.signals <- syscall.SIGTERM
	if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil { // it waits until the command reads
		t.Fatal(err)
	}
	if got := r.line(); got != "ended" {
		t.Errorf("%q", got)
	}
	if got := r.end(); got != 0 || !strings.Contains(r.stderr.String(), "job 1 of mails done") {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
	if got := s.counts("mails"); got != "1 0 0 0 0 0 0" {
		t.Errorf("after one signal: %s", got)
	}

	r = s.start("fetch", "mails", "--exec", "echo begun; sleep 600 & wait")
	r.line()
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM
	if got := r.end(); got != 0 || !strings.Contains(r.stderr.String(), "job 2 of mails released") {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
	if got := s.ok("job get 2"); !strings.Contains(got, "ready") || strings.Contains(got, "fails") {
		t.Errorf("after two signals:\n%s", got)
	}

	// A worker that waits for a job leaves at once.
	r = s.start("fetch", "empty", "--exec", "cat")
	r.signals <- syscall.SIGTERM
	if got := r.end(); got != 0 || r.stderr.String() != "" {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
}

// A lease is extended while the command runs. When it is lost the command is ended.
func TestFetchLease(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	r := s.start("fetch", "mails", "--lease", "3s", "--once", "--exec", "echo begun; sleep 600")
	r.line()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !strings.Contains(s.ok("queue ls --json"), `"touched":1`) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the lease is not extended")
		}
	}
	s.ok("job delete 1 --yes")
	if got := r.end(); got != 1 || !strings.Contains(r.stderr.String(), "job 1 of mails lost") {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
}

// A worker whose job is gone when it is done has not done it.
func TestFetchAckRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	ready := filepath.Join(t.TempDir(), "ready")
	r := s.start("fetch", "mails", "--lease", "10m", "--once", "--exec",
		"echo begun; until [ -e "+ready+" ]; do sleep 0.02; done")
	r.line()
	s.ok("job delete 1 --yes")
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.end(); got != 1 || !strings.Contains(r.stderr.String(), "job 1 of mails lost") ||
		strings.Contains(r.stderr.String(), "done") {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
}

// A worker waits for a server that is away, and settles the job that it had in hand.
func TestFetchServerAway(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	hold := filepath.Join(t.TempDir(), "hold")
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("push mails 1")
	s.ok("push mails 2")
	r := s.start("fetch", "mails", "--count", "2", "--exec", "read x; echo begun $x; [ $x = 2 ] || read go < "+hold)
	if got := r.line(); got != "begun 1" {
		t.Fatalf("%q", got)
	}
	s.stop()
	if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil { // it waits until the command reads
		t.Fatal(err)
	}
	s = startServerIn(t, s.data, "--web-addr="+strings.TrimPrefix(s.url, "http://"))
	if got := r.line(); got != "begun 2" {
		t.Errorf("%q", got)
	}
	if got := r.end(); got != 0 {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
	if got := s.counts("mails"); got != "0 0 0 0 0 0 0" {
		t.Errorf("left: %s", got)
	}
}

// A job that fails and is to be tried again at once does not keep a worker busy.
func TestFetchFailPause(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	line := `{"id":1,"namespace":"default","queue":"mails","state":"ready","pushed_by":"x",` +
		`"policy":{"expiry":"always","lapse":"fail","exhaust":"drop","requeue":"tail","due":"tail"}}`
	if got := s.with(strings.NewReader(line), "import"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	began := time.Now()
	if got := s.run("fetch mails --count 2 --exec false"); got.status != 1 ||
		strings.Count(got.stderr, "it is ready now") != 2 {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took < failPause {
		t.Errorf("it took %s", took)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	tl := tail{max: 4}
	for _, text := range []string{"ab", "cdef", "g"} {
		if n, err := tl.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := tl.text(); got != "defg" {
		t.Errorf("%q", got)
	}
	var b strings.Builder
	l := limited{w: &b, left: 3}
	for range 2 {
		if n, err := l.Write([]byte("ab")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if b.String() != "aba" {
		t.Errorf("%q", b.String())
	}
}
