package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millrace/internal/admin"
)

func TestBackupCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	dir := filepath.Join(t.TempDir(), "copy")
	if got := s.ok("backup " + dir); !strings.HasPrefix(got, dir+": ") {
		t.Errorf("%s", got)
	}
	if got := s.ok("check " + dir); !strings.Contains(got, "default/mails") {
		t.Errorf("the copy:\n%s", got)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	s.ok("restore " + dir + " " + restored)
	var b admin.Backup
	if err := json.Unmarshal([]byte(s.ok("backup --json "+dir+"2")), &b); err != nil || b.Dir != dir+"2" || b.Bytes == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	s.fails(1, "exists", "backup "+dir)
	s.fails(1, "outside of the data directory", "backup "+filepath.Join(s.data, "x"))
	s.fails(2, "takes one new directory", "backup")
	s.fails(2, "write its whole path", "backup relative --api http://192.0.2.1:1")
	for address, want := range map[string]bool{"http://localhost:1": true, "http://[::1]:1": true, "http://10.0.0.1": false, "::": false} {
		if onThisMachine(address) != want {
			t.Errorf("%s: %t", address, !want)
		}
	}
}

func TestExportImport(t *testing.T) {
	t.Parallel()
	from, to := startServer(t), startServer(t)
	if got := from.with(strings.NewReader(strings.Repeat("{\"a\":1}\n", 1200)), "push", "mails", "--lines"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	from.ok("push later --delay 1h --key k x")
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if got := from.run("export " + file); got.status != 0 || !strings.Contains(got.stderr, "1201 jobs exported") {
		t.Fatalf("%+v", got)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := from.ok("export"); got != string(whole) {
		t.Errorf("standard output has %d bytes, the file %d", len(got), len(whole))
	}
	from.fails(2, "--resume", "export "+file)
	from.fails(2, "--resume: name the file", "export --resume")

	// Cut off in the middle of a line, it goes on.
	if err := os.WriteFile(file, whole[:2*len(whole)/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := from.run("export --resume " + file); got.status != 0 || !strings.Contains(got.stderr, "1201 jobs exported") {
		t.Fatalf("%+v", got)
	}
	again, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := jobLines(again), jobLines(whole); !bytes.Equal(got, want) {
		t.Errorf("resumed: %d bytes of jobs, want %d", len(got), len(want))
	}
	if got := from.run("export --resume " + file); got.status != 0 || !strings.Contains(got.stderr, "1201 jobs exported") {
		t.Errorf("resumed when it is whole: %+v", got)
	}
	if got := from.ok("export -q later"); strings.Count(got, "\n") != 2 {
		t.Errorf("of one queue:\n%s", got)
	}

	// The first part is imported, then the whole with the token of the first.
	lines := bytes.SplitAfter(whole, []byte("\n"))
	part := to.with(bytes.NewReader(bytes.Join(lines[:700], nil)), "import")
	token := regexp.MustCompile(`--resume (\w+)`).FindStringSubmatch(part.stderr)
	if part.status != 0 || token == nil || !strings.Contains(part.stdout, "699 jobs imported") || !strings.Contains(part.stderr, "may have been cut off") {
		t.Fatalf("%+v", part)
	}
	if got := to.run("import " + file + " --resume " + token[1]); got.status != 0 || !strings.Contains(got.stderr, "behind line 700") {
		t.Errorf("%+v", got)
	}
	if mails, later := to.counts("mails"), to.counts("later"); mails != "1200 0 0 0 0 0 0" || later != "0 0 1 0 0 0 0" {
		t.Errorf("imported: %s, %s", mails, later)
	}
	var out admin.ImportResult
	if err := json.Unmarshal([]byte(to.with(bytes.NewReader(whole), "import", "--json").stdout), &out); err != nil || out.Imported != 1200 || out.Existed != 1 {
		t.Errorf("once more: %+v, %v", out, err)
	}
	to.fails(1, "knows no import", "import "+file+" --resume nonsense")
	to.fails(1, "no such file", "import /none.jsonl")
	got := to.with(strings.NewReader("nonsense\n"), "import", "-")
	if got.status != 1 || !strings.Contains(got.stderr, "line 1: it cannot be read") || !strings.Contains(got.stderr, "1 line refused") {
		t.Errorf("%+v", got)
	}
}

// jobLines leaves out the marks.
func jobLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if _, mark := markOf(line); !mark {
			out = append(out, line...)
		}
	}
	return out
}
