package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/api"
)

func TestPushCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.ok("push mails", `{"to": "ann"}`); got != "1\n" {
		t.Errorf("id %q", got)
	}
	if got := s.with(strings.NewReader("hello\n"), "push", "mails", "--type", "Mail", "--priority",
		"3"); got.stdout != "2\n" {
		t.Errorf("from standard input: %+v", got)
	}
	if got := s.with(strings.NewReader("\xff\x00"), "push", "mails", "-"); got.stdout != "3\n" {
		t.Errorf("bytes: %+v", got)
	}
	for range 2 {
		if got := s.ok("push mails --key once --unique 7"); got != "4\n" {
			t.Errorf("the same key: %q", got)
		}
	}
	if got := s.ok("push mails --kind args --delay 1h --json [1,2]"); got != `{"id":5,"state":"scheduled"}`+"\n" {
		t.Errorf("as JSON: %q", got)
	}
	if got := s.with(strings.NewReader(strings.Repeat("x\n", pushLinesMax)+"\n{}"), "push", "many",
		"--lines"); got.status != 0 || strings.Count(got.stdout, "\n") != pushLinesMax+2 {
		t.Errorf("lines: status %d, %d ids\n%s", got.status, strings.Count(got.stdout, "\n"), got.stderr)
	}
	if got := s.counts("many"); got != fmt.Sprintf("%d 0 0 0 0 0 0", pushLinesMax+2) {
		t.Errorf("many: %s", got)
	}
	for id, want := range map[string]string{
		"1": `{"to":"ann"}`, "2": "hello\n", "3": "\xff\x00",
		"once": "7", "5": "[1,2]",
	} {
		if got := s.ok("job get --body " + id); got != want {
			t.Errorf("body of %s: %q, want %q", id, got, want)
		}
	}
	s.fails(2, "takes a queue and a body", "push")
	s.fails(2, "takes a queue and a body", "push a b c")
	s.fails(2, "--ttl", "push mails x --ttl soon")
	s.fails(2, "--at", "push mails x --at soon")
	s.fails(2, "--lines", "push mails x --lines")
	s.fails(1, "needs ttl_seconds", "push mails x --keep")
	s.fails(1, "one JSON value", "push mails x --kind json")
	s.fails(1, "needs a key", "push mails x --unique")
	if got := s.with(strings.NewReader(strings.Repeat("x", pushBodyMax+1)), "push", "mails"); got.status != 1 ||
		!strings.Contains(got.stderr, "longer than") {
		t.Errorf("a large body: %d %s", got.status, got.stderr)
	}
	if got := s.ok("__complete push ma"); !strings.HasPrefix(got, "mails\nmany\n:") {
		t.Errorf("completion: %s", got)
	}
}

func TestJobCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails --key k --type Mail", `{"to":"ann"}`)
	s.ok("push mails", "\x1b[31mred")
	s.ok("push later --delay 1h x")
	s.ok("push mails -n other --key k x")
	if got := s.ok("job ls"); strings.Count(got, "\n") != 5 || strings.Contains(got, "\x1b") ||
		!strings.Contains(got, "in 59m59s") && !strings.Contains(got, "in 1h0m") {
		t.Errorf("list:\n%s", got)
	}
	if got := s.ok("job ls --json -q mails -n default --type Mail"); !strings.HasPrefix(got, `{"id":1,`) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("filtered: %s", got)
	}
	if got := s.run("job ls --limit 1"); strings.Count(got.stdout, "\n") != 2 ||
		!strings.Contains(got.stderr, "--limit 0") {
		t.Errorf("limited: %+v", got)
	}
	if got := s.ok("job ls --limit 0 --after 1h --before 0s"); strings.Count(got, "\n") != 5 {
		t.Errorf("of the last hour:\n%s", got)
	}
	if got := s.run("job ls --after 2999-01-01T00:00:00Z"); got.stdout != "" ||
		!strings.Contains(got.stderr, "No job fits") {
		t.Errorf("nothing: %+v", got)
	}
	if got := s.ok("job get 1"); !strings.Contains(got, "mails in namespace default") ||
		!strings.Contains(got, `{"to":"ann"} (12 bytes)`) {
		t.Errorf("get:\n%s", got)
	}
	var d api.JobDetail
	if err := json.Unmarshal([]byte(s.ok("job get k -n default --json")), &d); err != nil || d.ID != 1 || d.Key != "k" {
		t.Errorf("get as JSON: %+v, %v", d, err)
	}
	s.fails(2, "one of default, other", "job get k")
	s.fails(4, `there is no job "99"`, "job get 99")
	s.fails(2, "takes the id or key", "job get")
	s.fails(1, "none of scheduled", "job ls --state red")
	s.fails(2, "--after", "job ls --after soon")
	s.fails(2, "--limit", "job ls --limit -1")

	for _, step := range []struct{ line, prints, counts string }{
		{"job bury 1 2", "job 1 buried\njob 2 buried\n", "0 0 0 0 0 2 0"},
		{"job kick 1", "job 1 kicked\n", "1 0 0 0 0 1 0"},
		{"job kill 1 --yes", "job 1 killed\n", "0 0 0 0 0 1 1"},
		{"job retry k -n default", "job 1 retried\n", "1 0 0 0 0 1 0"},
		{"job kill 1 --yes --json", `{"namespace":"default","id":1,"done":true}` + "\n", "0 0 0 0 0 1 1"},
		{"job respawn 1 --attempts 2", "job 1 respawned\n", "1 0 0 0 0 1 0"},
		{"job move 3 --to mails", "job 3 moved\n", "1 0 1 0 0 1 0"},
		{"job run 3", "job 3 made ready\n", "2 0 0 0 0 1 0"},
		{"job cancel 3 --yes", "job 3 cancelled\n", "1 0 0 0 0 1 0"},
		{"job delete 2 --yes", "job 2 deleted\n", "1 0 0 0 0 0 0"},
	} {
		if got := s.ok(step.line); got != step.prints {
			t.Errorf("%s: %q, want %q", step.line, got, step.prints)
		}
		if got := s.counts("mails"); got != step.counts {
			t.Errorf("%s: counts %s, want %s", step.line, got, step.counts)
		}
	}
	s.fails(1, "job 1: the job is ready now", "job kick 1")
	s.fails(4, "there is no job", "job kick 99")
	s.fails(2, "add --yes", "job delete 1")
	s.fails(2, "--to", "job move 1")
	s.fails(2, "needs the id or key", "job retry")
	s.fails(2, "leave out", "job retry --all-matching 1")
	s.fails(2, "is for --all-matching", "job retry 1 --state dead")
}

func TestBulkCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.with(strings.NewReader(strings.Repeat("x\n", 700)), "push", "mails", "--lines"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	s.fails(2, "add --yes", "job kill --all-matching --queue mails")
	s.fails(2, "add --yes", "job bury --all-matching")
	if got := s.ok("job kill --all-matching --queue mails --yes"); got != "700 jobs killed, 700 looked at\n" {
		t.Errorf("kill: %s", got)
	}
	var b api.Bulk
	if err := json.Unmarshal([]byte(s.ok("job retry --all-matching --state dead --json")), &b); err != nil ||
		b.Done != 700 || b.State != api.BulkDone {
		t.Errorf("retry: %+v, %v", b, err)
	}
	if got := s.ok("job move --all-matching --queue mails --to other"); got != "700 jobs moved, 700 looked at\n" {
		t.Errorf("move: %s", got)
	}
	if got := s.counts("other"); got != "700 0 0 0 0 0 0" {
		t.Errorf("other: %s", got)
	}
	s.fails(1, "applies to no job in these states", "job retry --all-matching --state ready")
}

// A signal stops a bulk action on the server, too.
func TestBulkInterrupted(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.with(strings.NewReader(strings.Repeat("x\n", 20000)), "push", "mails", "--lines"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	r := s.start("job", "kill", "--all-matching", "--queue", "mails", "--yes", "--json")
	r.signals <- syscall.SIGINT
	var b api.Bulk
	var text strings.Builder
	for r.lines.Scan() {
		text.WriteString(r.lines.Text())
	}
	if got := r.end(); got != 1 || !strings.Contains(r.stderr.String(), "cancelled: what was done stays") &&
		!strings.Contains(r.stderr.String(), "interrupted") {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
	if text.Len() > 0 { // unless the signal came before it had begun
		if err := json.Unmarshal([]byte(text.String()), &b); err != nil ||
			b.State != api.BulkCancelled || b.Done >= 20000 {
			t.Errorf("%+v, %v", b, err)
		}
	}
}
