package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"millrace/test/harness"
)

var (
	alertRule  = regexp.MustCompile(`(?m)^ *- alert: (\w+)\n(?:.+\n)*`)
	runbookURL = regexp.MustCompile(`(?m)^ *runbook_url: "(.*)"$`)
)

// checkRunbooks looks for the page of every alert, and for pages that belong to none.
func checkRunbooks(tree fs.FS) ([]string, error) {
	rules, err := fs.ReadFile(tree, "packaging/monitoring/alerts.yml")
	if err != nil {
		return nil, err
	}
	index, err := fs.ReadFile(tree, "docs/runbooks/README.md")
	if err != nil {
		return nil, err
	}
	var out []string
	known := []string{"README.md"}
	for _, m := range alertRule.FindAllStringSubmatch(string(rules), -1) {
		page := m[1] + ".md"
		known = append(known, page)
		if url := runbookURL.FindStringSubmatch(m[0]); url == nil || url[1] != "docs/runbooks/"+page {
			out = append(out, fmt.Sprintf("the alert %s does not name docs/runbooks/%s as its runbook_url", m[1], page))
		}
		text, err := fs.ReadFile(tree, "docs/runbooks/"+page)
		if err != nil {
			out = append(out, fmt.Sprintf("the alert %s has no runbook docs/runbooks/%s", m[1], page))
			continue
		}
		for _, part := range []string{"\n**Symptom.** ", "\n## Look\n", "\n## Remedy\n", "\n## Verify\n"} {
			if !strings.Contains(string(text), part) {
				out = append(out, fmt.Sprintf("docs/runbooks/%s lacks %q", page, strings.TrimSpace(part)))
			}
		}
		if !strings.Contains(string(index), "]("+page+")") {
			out = append(out, fmt.Sprintf("docs/runbooks/README.md does not list %s", page))
		}
	}
	pages, err := fs.Glob(tree, "docs/runbooks/*.md")
	for _, p := range pages {
		if !slices.Contains(known, path.Base(p)) {
			out = append(out, fmt.Sprintf("%s belongs to no alert", p))
		}
	}
	return out, err
}

func TestRunbooks(t *testing.T) {
	t.Parallel()
	complaints, err := checkRunbooks(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		t.Error(c)
	}
	bad := fstest.MapFS{
		"packaging/monitoring/alerts.yml": {Data: []byte("  - alert: A\n    annotations:\n      runbook_url: " +
			"\"x\"\n\n  - alert: B\n")},
		"docs/runbooks/README.md": {}, "docs/runbooks/A.md": {}, "docs/runbooks/C.md": {},
	}
	// A: another address, four parts and the index; B: no address and no page; C: no alert.
	if complaints, err := checkRunbooks(bad); err != nil || len(complaints) != 9 {
		t.Errorf("nine things are wrong, but these were found: %q, %v", complaints, err)
	}
}

// named is a command of the binary that a sentence names.
var named = regexp.MustCompile("`millrace ([a-z][a-z -]*[a-z])")

// Commands that stand in a sentence are not run, but they exist, with their flags.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	bin, err := harness.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	documents, err := documentsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	helps := map[string]string{}
	help := func(words []string) string {
		t.Helper()
		command := strings.Join(words, " ")
		if _, ok := helps[command]; !ok {
			out, err := exec.CommandContext(t.Context(), bin, append(slices.Clone(words), "--help")...).CombinedOutput()
			if err != nil {
				t.Fatalf("millrace %s --help: %v\n%s", command, err, out)
			}
			helps[command] = string(out)
		}
		return helps[command]
	}
	for _, d := range documents {
		if d == "docs/storage-format.md" {
			continue // there such words are the first bytes of files
		}
		for _, m := range named.FindAllStringSubmatch(text(t, d), -1) {
			command, flags, _ := strings.Cut(m[1], " -")
			words := strings.Fields(command)
			if usage := help(words[:min(len(words), 2)]); !strings.Contains(usage, "\n  millrace "+words[0]) {
				t.Errorf("%s names `millrace %s`, which does not exist", d, command)
			}
			if flag, _, _ := strings.Cut(strings.TrimPrefix(flags, "-"), " "); flag != "" &&
				!strings.Contains(help(words), "--"+flag) {
				t.Errorf("%s names `millrace %s --%s`, which has no such flag", d, command, flag)
			}
		}
	}
	if len(helps) < 10 {
		t.Errorf("only these commands were found: %v", helps)
	}
}
