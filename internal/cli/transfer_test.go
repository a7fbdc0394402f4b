package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"millrace/internal/api"
)

func TestBackupCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	dir := s.data + "-backups/copy" // beside the data, unless it is said otherwise
	if got := s.ok("backup copy"); !strings.HasPrefix(got, dir+": ") {
		t.Errorf("%s", got)
	}
	if got := s.ok("check " + dir); !strings.Contains(got, "default/mails") {
		t.Errorf("the copy:\n%s", got)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	s.ok("restore " + dir + " " + restored)
	var b api.Backup
	if err := json.Unmarshal([]byte(s.ok("backup --json "+dir+"2")), &b); err != nil ||
		b.Dir != dir+"2" || b.Bytes == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := os.Symlink(t.TempDir(), s.data+"-backups/out"); err != nil {
		t.Fatal(err)
	}
	s.fails(1, "exists", "backup "+dir)
	s.fails(1, "where backups go", "backup "+filepath.Join(s.data, "x"))
	s.fails(1, "where backups go", "backup "+filepath.Join(t.TempDir(), "x"))
	s.fails(1, "where backups go", "backup ../x")
	s.fails(1, "escapes", "backup out/x")
	s.fails(2, "takes a new directory", "backup a b")
}

// Where the server has a place for backups, they go there.
func TestBackupPlace(t *testing.T) {
	t.Parallel()
	place := filepath.Join(t.TempDir(), "backups")
	s := startServer(t, "--backup-dir="+place)
	s.ok("push mails x")
	if got := s.ok("backup"); !regexp.MustCompile("^" + regexp.QuoteMeta(place) +
		`/\d{8}T\d{6}\.\d{3}Z: `).MatchString(got) {
		t.Errorf("of no name: %s", got)
	}
	monday := filepath.Join(place, "daily", "monday")
	if got := s.ok("backup daily/monday"); !strings.HasPrefix(got, monday+": ") {
		t.Errorf("of a relative name: %s", got)
	}
	if got := s.ok("check " + monday); !strings.Contains(got, "default/mails") {
		t.Errorf("the copy:\n%s", got)
	}
	s.ok("backup " + place + "/tuesday")
	s.fails(1, "exists", "backup daily/monday")
	for _, dir := range []string{t.TempDir() + "/x", "../x", "daily/../../x", place, ".", place + "x"} {
		s.fails(1, "where backups go", "backup "+dir)
	}
}

func TestExportImport(t *testing.T) {
	t.Parallel()
	from, to := startServer(t), startServer(t)
	if got := from.with(strings.NewReader(strings.Repeat("{\"a\":1}\n", 1200)), "push", "mails",
		"--lines"); got.status != 0 {
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
	if got := from.run("export --resume " + file); got.status != 0 ||
		!strings.Contains(got.stderr, "1201 jobs exported") {
		t.Fatalf("%+v", got)
	}
	again, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := jobLines(again), jobLines(whole); !bytes.Equal(got, want) {
		t.Errorf("resumed: %d bytes of jobs, want %d", len(got), len(want))
	}
	if got := from.run("export --resume " + file); got.status != 0 ||
		!strings.Contains(got.stderr, "1201 jobs exported") {
		t.Errorf("resumed when it is whole: %+v", got)
	}
	if got := from.ok("export -q later"); strings.Count(got, "\n") != 2 {
		t.Errorf("of one queue:\n%s", got)
	}

	// The first part is imported, then the whole with the token of the first.
	lines := bytes.SplitAfter(whole, []byte("\n"))
	part := to.with(bytes.NewReader(bytes.Join(lines[:700], nil)), "import")
	token := regexp.MustCompile(`--resume (\w+)`).FindStringSubmatch(part.stderr)
	if part.status != 1 || token == nil || !strings.Contains(part.stdout, "500 jobs imported") ||
		!strings.Contains(part.stderr, "cut off: it has no end, and is good up to line 501") {
		t.Fatalf("%+v", part)
	}
	if got := to.run("import " + file + " --resume " + token[1]); got.status != 0 ||
		!strings.Contains(got.stderr, "behind line 501") {
		t.Errorf("%+v", got)
	}
	if mails, later := to.counts("mails"), to.counts("later"); mails != "1200 0 0 0 0 0 0" || later != "0 0 1 0 0 0 0" {
		t.Errorf("imported: %s, %s", mails, later)
	}
	var out api.ImportResult
	if err := json.Unmarshal([]byte(to.with(bytes.NewReader(whole), "import", "--json").stdout), &out); err != nil ||
		out.Imported != 1200 || out.Existed != 1 {
		t.Errorf("once more: %+v, %v", out, err)
	}
	to.fails(1, "knows no import", "import "+file+" --resume nonsense")
	to.fails(1, "no such file", "import /none.jsonl")
	got := to.with(strings.NewReader("nonsense\n"), "import", "-")
	if got.status != 1 || !strings.Contains(got.stderr, "line 1: it cannot be read") ||
		!strings.Contains(got.stderr, "1 line refused") {
		t.Errorf("%+v", got)
	}
}

// Jobs with one key are all exported and imported, and a line that is refused for its key makes the command fail.
func TestExportImportRepeatedKeys(t *testing.T) {
	t.Parallel()
	from, to, taken := startServer(t), startServer(t), startServer(t)
	for _, body := range []string{"a", "b", "c"} {
		from.ok("push mails --key k " + body)
	}
	text := from.ok("export")
	if got := to.with(strings.NewReader(text), "import"); got.status != 0 ||
		!strings.Contains(got.stdout, "3 jobs imported\n") {
		t.Errorf("%+v", got)
	}
	if got := to.with(strings.NewReader(text), "import"); got.status != 0 ||
		!strings.Contains(got.stdout, "0 jobs imported, 3 left out because they were there before") {
		t.Errorf("once more: %+v", got)
	}
	if got := to.counts("mails"); got != "3 0 0 0 0 0 0" {
		t.Errorf("imported: %s", got)
	}
	taken.ok("push mails --key k x")
	got := taken.with(strings.NewReader(text), "import")
	if got.status != 1 || strings.Count(got.stderr, "another job has its key") != 3 ||
		!strings.Contains(got.stderr, "3 lines refused") {
		t.Errorf("with a key that is taken: %+v", got)
	}
	token := regexp.MustCompile(`--resume (\w+)`).FindStringSubmatch(got.stderr)
	if again := taken.with(strings.NewReader(text), "import", "--resume", token[1]); again.status != 1 ||
		strings.Count(again.stderr, "another job has its key") != 3 {
		t.Errorf("resumed, as if the answer had been lost: %+v", again)
	}
	if got := taken.with(strings.NewReader(text), "import", "--allow-duplicates"); got.status != 0 ||
		!strings.Contains(got.stdout, "3 jobs imported") {
		t.Errorf("with duplicates: %+v", got)
	}
}

// What is imported into an empty server is exported from it as the same lines.
func TestExportImportExact(t *testing.T) {
	t.Parallel()
	from, to := startServer(t), startServer(t)
	from.ok("push mails first")
	for _, state := range []string{"ready", "buried", "dead", "failed", "done", "scheduled", "retrying"} {
		from.ok("push mails --delay 1h --key " + state + " x")
	}
	from.ok("job run 2")
	from.ok("job bury 3")
	from.ok("job kill 4 --yes")
	var lines []string
	for line := range strings.Lines(from.ok("export")) {
		for _, state := range []string{"failed", "done", "retrying"} { // no command brings a job there at once
			if strings.Contains(line, `"key":"`+state+`"`) {
				line = strings.Replace(line, `"state":"scheduled"`,
					`"state":"`+state+`","attempts":3,"fails":2,"failures":[{"kind":"worker","type":"T"}]`, 1)
			}
		}
		lines = append(lines, line)
	}
	middle := startServer(t)
	if got := middle.with(strings.NewReader(strings.Join(lines, "")), "import",
		"--ignore-checksums"); got.status != 0 || !strings.Contains(got.stdout, "8 jobs imported") {
		t.Fatalf("%+v", got)
	}
	before := middle.ok("export")
	for _, state := range []string{"ready", "buried", "dead", "failed", "done", "scheduled", "retrying"} {
		if !strings.Contains(before, `"state":"`+state+`"`) {
			t.Errorf("none is %s:\n%s", state, before)
		}
	}
	if got := to.with(strings.NewReader(before), "import"); got.status != 0 ||
		!strings.Contains(got.stdout, "8 jobs imported") {
		t.Fatalf("%+v", got)
	}
	id := regexp.MustCompile(`"id":\d+,|"crc32c":"\w+"`)
	if got, want := id.ReplaceAllString(to.ok("export"), ""), id.ReplaceAllString(before, ""); got != want {
		t.Errorf("exported:\n%s\nand after the import:\n%s", want, got)
	}
}

// A damaged export is imported up to the last good mark, and the place is told.
func TestImportDamaged(t *testing.T) {
	t.Parallel()
	from := startServer(t)
	if got := from.with(strings.NewReader(strings.Repeat("{\"a\":1}\n", 1100)), "push", "mails",
		"--lines"); got.status != 0 {
		t.Fatal(got.stderr)
	}
	whole := from.ok("export")
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	plain := regexp.MustCompile(`,"lines":\d+,"crc32c":"\w+"`).ReplaceAllString(whole, "")
	if plain == whole {
		t.Fatal("it has no checksums")
	}
	swap := func(i int, old, with string) string {
		changed := strings.Replace(lines[i], old, with, 1)
		if changed == lines[i] {
			t.Fatalf("line %d does not have %s", i+1, old)
		}
		return strings.Join(lines[:i], "") + changed + strings.Join(lines[i+1:], "")
	}
	damaged := "damaged between line 502 and line 1002"
	for _, c := range []struct {
		what, text, says string
		status, jobs     int
		args             []string
	}{
		{"as it is", whole, "", 0, 1100, nil},
		{"without checksums, as older releases wrote it", plain, "", 0, 1100, nil},
		{"two, one after the other", whole + whole, "", 0, 2200, nil},
		{"a byte is another", swap(700, `{"a":1}`, `{"a":2}`), damaged, 1, 500, nil},
		{"a byte is another, on purpose", swap(700, `{"a":1}`, `{"a":2}`), "", 0, 1100, []string{"--ignore-checksums"}},
		{
			"a line is missing", strings.Join(append(append([]string{}, lines[:700]...), lines[701:]...), ""),
			"damaged between line 502 and line 1001", 1, 500, nil,
		},
		{
			"a chunk is missing", strings.Join(append(append([]string{}, lines[:501]...), lines[1002:]...), ""),
			"damaged between line 502 and line 602", 1, 500, nil,
		},
		{"a mark is no mark", swap(1001, `{"mark"`, `{"mork"`), "damaged between line 502 and line 1103", 1, 500, nil},
		{"the end is missing", strings.Join(lines[:len(lines)-1], ""), "good up to line 1002", 1, 1000, nil},
		{"there is nothing", "", "the input is empty", 1, 0, nil},
		{"cut off within a line", whole[:len(whole)-len(lines[len(lines)-1])-5], "good up to line 1002", 1, 1000, nil},
	} {
		to := startServer(t)
		got := to.with(strings.NewReader(c.text), append([]string{"import", "-"}, c.args...)...)
		imported := strconv.Itoa(c.jobs) + " jobs imported"
		if c.text == "" {
			imported = ""
		}
		if got.status != c.status || !strings.Contains(got.stdout, imported) || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// jobLines leaves out the marks.
func jobLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if markOf(line) == nil {
			out = append(out, line...)
		}
	}
	return out
}
