package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/internal/testkit"
)

// What an operator does without the web UI.
func TestOperate(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--lmstfy-addr=127.0.0.1:0")
	s.ok("push mails --type Mail", `{"to":"ann"}`)
	s.ok("push mails --type Mail", `{"to":"bob"}`)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.ok("status"), "2 ready"); { // with the next sample
		if time.Now().After(deadline) {
			t.Fatal(s.ok("status"))
		}
	}
	s.says("status", "ready", "0 running", "queues", "1", "free")
	s.says("status --json", `"ready": true`, `"running": 0`)
	s.says("queue get mails", "mails in namespace default", "ready", "2 pushed", "paused", "no")
	s.says("queue show mails --json", `"pushed":2`)
	s.fails(exitNotFound, "there is no queue", "queue get nothing")

	s.says("job rm --all-matching --queue mails --state ready --yes", "2 jobs deleted")
	s.says("bulk ls", "delete", "done", "queue=mails")
	id := strings.Fields(strings.Split(s.ok("bulk ls"), "\n")[1])[0]
	s.fails(exitFailure, "ended already", "bulk stop "+id)
	s.fails(exitNotFound, "no bulk action", "bulk stop zzz")

	if got := s.run("failures"); got.status != 0 || !strings.Contains(got.stderr, "Nothing has failed") {
		t.Errorf("failures: %+v", got)
	}
	s.ok("push odd --type Odd", "{}")
	s.says("job kill --all-matching --queue odd --yes", "1 job")
	s.says("failures", "Odd", "odd", "DEAD")
	s.says("failures odd --json", `"dead": 1`, `"total": 1`)
	s.fails(exitUsage, "at most one queue", "failures a b")
	s.ok("push mails --type Mail", "{}")
	s.ok("fetch mails --once --exec", "cat")
	s.says("types", "Mail", "1", "FETCHED")
	s.says("types --json", `"type": "Mail"`, `"acked": 1`)
	if got := s.run("types --period month"); got.status != 0 || !strings.Contains(got.stderr, "No job was fetched") {
		t.Errorf("types: %+v", got)
	}
	s.fails(exitFailure, "none of hour, day and month", "types --period year")
	s.says("activity", "kill all jobs that match", " -     127.0.0.1", "millrace/")
	s.says("activity --json", `"what":"kill all jobs that match`)

	token := strings.TrimSpace(s.ok("token add shop", "the shop"))
	if len(token) < 20 {
		t.Errorf("token %q", token)
	}
	list := s.ok("token ls")
	if !strings.Contains(list, "the shop") || strings.Contains(list, token) {
		t.Errorf("the list is to show the description and not the token:\n%s", list)
	}
	s.says("token rm --yes "+strings.Fields(strings.Split(list, "\n")[1])[0], "1 token removed")

	for line, says := range map[string]string{
		"token ls": "no tokens", "batch ls": "no batches", "worker ls": "introduced itself",
	} {
		if got := s.run(line); got.status != 0 || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: status %d, %q", line, got.status, got.stderr)
		}
	}
	s.fails(exitNotFound, "there is no batch", "batch get 7")
	s.fails(exitUsage, "ids are numbers", "batch get seven")
	s.fails(exitNotFound, "there is no worker", "worker stop w-1")
	s.fails(exitUsage, "or --all", "worker quiet")
	s.fails(exitUsage, "or --all", "worker quiet w-1 --all")
	s.fails(exitUsage, "add --yes", "worker stop --all")
	s.says("worker quiet --all --yes", "Told 0 workers")
}

// says runs a command that must succeed and print some texts.
func (s *asked) says(line string, texts ...string) {
	s.t.Helper()
	got := s.ok(line)
	for _, text := range texts {
		if !strings.Contains(got, text) {
			s.t.Errorf("%s does not say %q:\n%s", line, text, got)
		}
	}
}

// A command that asks a server, or works on its data, finds the configuration of the packages, unless it is told of
// another.
func TestPackagedConfiguration(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--web-password=secret")
	file := filepath.Join(t.TempDir(), "millrace.toml")
	text := "[web]\naddr = \"" + strings.TrimPrefix(s.url, "http://") + "\"\npassword = \"secret\"\n" +
		"[data]\ndir = \"nowhere/of-packages\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(environ []string, packaged string, args ...string) outcome {
		var stdout, stderr testkit.Buffer
		status := Main(args, Process{
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Environ: environ,
			Packaged: packaged,
		})
		return outcome{status, stdout.String(), stderr.String()}
	}
	for _, line := range []string{"status", "queue ls", "health"} {
		if got := run(nil, file, strings.Fields(line)...); got.status != exitOK {
			t.Errorf("%s: status %d: %s", line, got.status, got.stderr)
		}
	}
	for _, line := range []string{"check", "cluster leave --to-single", "cluster recover"} {
		if got := run(nil, file, strings.Fields(line)...); !strings.Contains(got.stderr, "nowhere/of-packages") {
			t.Errorf("%s: status %d: %s", line, got.status, got.stderr)
		}
	}
	if got := run([]string{"MILLRACE_CONFIG=" + file + ".gone"}, file, "status"); got.status != exitUsage {
		t.Errorf("with another file that is not there: status %d: %s", got.status, got.stderr)
	}
	if got := run([]string{"MILLRACE_API=" + s.url}, file+".gone", "status"); got.status != exitFailure ||
		!strings.Contains(got.stderr, "may read") {
		t.Errorf("without a password: status %d: %s", got.status, got.stderr)
	}
}

// The help of the server lists the settings, and that of no other command does.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	help := func(args ...string) string {
		var out testkit.Buffer
		if status := Main(append(args, "--help"), Process{Stdout: &out, Stderr: &out}); status != exitOK {
			t.Errorf("%q: status %d", args, status)
		}
		return out.String()
	}
	root := help()
	for _, title := range []string{"Run the server:", "Work with jobs:", "Operate:", "Migrate:", "Tools:"} {
		if !strings.Contains(root, "\n"+title+"\n") {
			t.Errorf("the help lacks %q:\n%s", title, root)
		}
	}
	for _, text := range []string{root, help("config", "ls"), help("config", "validate")} {
		if strings.Contains(text, "--store-durability") {
			t.Errorf("settings in\n%s", text)
		}
	}
	if !strings.Contains(help("serve"), "--store-durability") {
		t.Error("no settings in the help of serve")
	}
}

// There is a manual page for every command, and the same build writes the same bytes.
func TestManual(t *testing.T) {
	t.Parallel()
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if status := Main([]string{"man", dir}, Process{
			Stdout: new(testkit.Buffer),
			Stderr: new(testkit.Buffer),
		}); status != exitOK {
			t.Fatalf("status %d", status)
		}
	}
	for _, c := range documented(testRoot()) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dirs[0], name))
		again, err2 := os.ReadFile(filepath.Join(dirs[1], name))
		if err != nil || err2 != nil || string(page) != string(again) || !strings.Contains(string(page), c.Short) {
			t.Errorf("%s: %v, %v\n%s", name, err, err2, page)
		}
	}
}
