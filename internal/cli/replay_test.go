package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	from, to := startServer(t), startServer(t)
	for _, body := range []string{"a", "b", "c"} {
		from.ok("push mails --key k --priority 3 " + body)
	}
	from.ok("push later --delay 1h x")
	from.ok("queue limit mails --concurrency 4")
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	from.ok("export " + file)

	got := to.run("replay " + file + " --rate 1000/s")
	if got.status != 0 || !strings.Contains(got.stdout, "4 jobs pushed") ||
		!strings.Contains(got.stdout, "0 refused") || !strings.Contains(got.stdout, "at p99") {
		t.Fatalf("%+v", got)
	}
	if mails, later := to.counts("mails"), to.counts("later"); mails != "3 0 0 0 0 0 0" || later != "0 0 1 0 0 0 0" {
		t.Errorf("%s, %s", mails, later)
	}
	if d := to.ok("job ls -q mails --json"); strings.Count(d, `"key":"k"`) != 3 ||
		strings.Count(d, `"priority":3`) != 3 {
		t.Errorf("%s", d)
	}
	// It may be the wrong server.
	to.fails(1, "has 4 jobs: a replay is for a test server", "replay "+file+" --rate 10/s")
	var out replayed
	again := to.run("replay " + file + " --speed 1000000 --force --json")
	if err := json.Unmarshal([]byte(again.stdout), &out); err != nil || out.Pushed != 4 || again.status != 0 {
		t.Errorf("%+v, %v", again, err)
	}

	// Through a pipe; what is refused is told with its reason, and a line that is no job ends it.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := to.with(strings.NewReader(strings.ReplaceAll(string(text), `"priority":3`, `"priority":99999999999`)),
		"replay", "-", "--rate", "100/s", "--force", "--ignore-checksums")
	if refused.status != 1 || !strings.Contains(refused.stdout, "1 job pushed") ||
		!strings.Contains(refused.stdout, "3: priority") {
		t.Errorf("%+v", refused)
	}
	if got := to.with(strings.NewReader("nonsense\n"), "replay", "-", "--rate", "100/s", "--force"); got.status != 1 ||
		!strings.Contains(got.stderr, "no job of an export") {
		t.Errorf("%+v", got)
	}
	if got := to.with(strings.NewReader(strings.Replace(string(text), `"a"`, `"b"`, 1)), "replay", "-", "--rate",
		"100/s", "--force"); got.status != 1 || !strings.Contains(got.stderr, "damaged") {
		t.Errorf("%+v", got)
	}
	for args, says := range map[string]string{
		"": "name the file", file: "say how fast", file + " --rate 1/s --speed 1": "say how fast",
		"- --speed 1":         "name a file",
		file + " --rate fast": `--rate: "fast" is no rate`, file + " --rate 1/s --connections 0": "--connections",
		file + " --speed -1": "--speed",
	} {
		to.fails(2, says, "replay "+args)
	}
	to.fails(1, "no such file", "replay /none.jsonl --rate 1/s --force")
}

// What a stranger meets: mistakes are told as what they are, and nothing happens without a word.
func TestSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.fails(2, `--rate: "fast" is no rate`, "queue limit mails --rate fast")
	s.fails(2, "--schedule", "cron add x --schedule nonsense --queue q")
	s.fails(1, "the directory "+s.data+"none does not exist", "check "+s.data+"none")
	if got := s.ok("queue limit mials --concurrency 1"); !strings.Contains(got,
		"There was no such queue: it is new, and has no jobs yet.") {
		t.Errorf("%s", got)
	}
	if got := s.ok("queue limit mials --concurrency 2"); strings.Contains(got, "new") {
		t.Errorf("%s", got)
	}
	s.ok("push mials x")
	s.ok("push idle x")
	s.ok("queue pause idle")
	s.ok("queue limit mials --rate 1/d --concurrency 0")
	s.ok("push mials y")
	got := s.run("fetch mials idle none --until-empty --exec true")
	if got.status != 0 || !strings.Contains(got.stderr, "mials has 1 ready job, held back by its limits: rate 1/d") ||
		!strings.Contains(got.stderr, "idle has 1 ready job that nobody is given: it is paused") {
		t.Errorf("%+v", got)
	}
	if got := s.ok("job ls --json"); !strings.Contains(got, `"pushed_by":"api"`) {
		t.Errorf("%s", got)
	}
}
