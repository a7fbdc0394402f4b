package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"millrace/internal/api"
)

// Every command works for names that mean something in paths, in queries and to shells.
func TestOddNames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for i, name := range []string{
		".", "..", "~.", "a/b", "/", "%2e", "%2e%2e", " ", "a b", "?", "#x", "%", "&a=b", "+",
		"ünïcödé", "日本", "..;", "a/../b",
	} {
		namespace := name
		if i%3 == 2 {
			namespace = namespaceDefault
		}
		t.Run(name, func(t *testing.T) { testOddName(t, s, namespace, name) })
	}
}

func testOddName(t *testing.T, s *asked, namespace, name string) {
	t.Helper()
	in := func(line string, more ...string) string {
		t.Helper()
		got := s.with(strings.NewReader(""), append(append(strings.Fields(line), "-n", namespace), more...)...)
		if got.status != 0 {
			t.Fatalf("%s %q: status %d\n%s", line, more, got.status, got.stderr)
		}
		return got.stdout
	}
	id := strings.TrimSpace(in("push", "--key", name, "--type", name, "--", name, "x"))
	in("push", "--", name, "y")
	var q api.Queue
	if got := in("queue ls --json", "--", name); json.Unmarshal([]byte(got), &q) != nil || q.Name != name ||
		q.Namespace != namespace || q.Jobs != 2 {
		t.Fatalf("list: %s", got)
	}
	for _, step := range []struct{ verb, says string }{{"pause", " is paused."}, {"resume", " is not paused."}} {
		if got := in("queue "+step.verb, "--", name); got != name+step.says+"\n" {
			t.Errorf("%s: %q", step.verb, got)
		}
	}
	var d api.JobDetail
	if got := in("job get --json", "--", name); json.Unmarshal([]byte(got), &d) != nil || fmt.Sprint(d.ID) != id ||
		d.Queue != name || d.Type != name {
		t.Errorf("get by key: %s, want %s", got, id)
	}
	if got := in("job ls --json", "-q", name, "--type", name); strings.Count(got, "\n") != 1 {
		t.Errorf("list: %s", got)
	}
	for _, verb := range []string{"bury", "kick", "kill --yes", "respawn"} {
		in("job "+verb, id)
	}
	in("job kill --yes --all-matching", "-q", name)
	if got := in("queue purge --state dead --yes", "--", name); got != "2 dead jobs of "+name+" deleted.\n" {
		t.Errorf("purge: %q", got)
	}
	in("push", "--", name, "z")
	if got := in("fetch --count 1 --exec cat", "--", name); !strings.HasPrefix(got, "z") {
		t.Errorf("fetch: %s", got)
	}
	in("queue rm --yes", "--", name)
	s.fails(4, "there is no queue", "queue pause", "-n", namespace, "--", name)
}
