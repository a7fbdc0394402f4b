package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	namedPath   = regexp.MustCompile("`((?:internal|test|docs|packaging|cmd)/[A-Za-z0-9_/.-]+)`")
	namedTarget = regexp.MustCompile("`make ([a-z]+)\\b")
	target      = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// checkNames looks for the files and make targets that a document names. A name whose
// last part has a capital behind a dot, such as internal/engine.TestX, is that of a test.
func checkNames(tree fs.FS, document string) ([]string, error) {
	makefile, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		return nil, err
	}
	var targets, out []string
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	for _, m := range namedTarget.FindAllStringSubmatch(document, -1) {
		if !slices.Contains(targets, m[1]) {
			out = append(out, fmt.Sprintf("there is no \"make %s\"", m[1]))
		}
	}
	for _, m := range namedPath.FindAllStringSubmatch(document, -1) {
		if citation.MatchString(m[0]) {
			continue
		}
		if _, err := fs.Stat(tree, strings.TrimRight(m[1], "/.")); err != nil {
			out = append(out, fmt.Sprintf("there is no %s", m[1]))
		}
	}
	return out, nil
}

// checkMap asks the map for every package: those of internal and of test, except for what
// is below a dialect or a store and belongs to it.
func checkMap(tree fs.FS, document string) ([]string, error) {
	var out []string
	for _, top := range []string{"internal", "test"} {
		entries, err := fs.ReadDir(tree, top)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !strings.Contains(document, "`"+top+"/"+e.Name()+"`") {
				out = append(out, fmt.Sprintf("%s/%s is not on the map", top, e.Name()))
			}
		}
	}
	return out, nil
}

// checkIndex asks the index of the documents for every page.
func checkIndex(pages []string, index string) []string {
	var out []string
	for _, p := range pages {
		below, isPage := strings.CutPrefix(p, "docs/")
		listed := strings.Contains(index, "]("+below+")") || strings.HasPrefix(below, "decisions/")
		// A folder with an index of its own is listed by that.
		if own := path.Join(path.Dir(p), "README.md"); own != p && own != "docs/README.md" &&
			slices.Contains(pages, own) {
			listed = true
		}
		if isPage && p != "docs/README.md" && !listed {
			out = append(out, fmt.Sprintf("%s is not in the index", p))
		}
	}
	return out
}

// TestNames holds the documents to the tree: what they name is there, and what is
// there is on the map and in the index.
func TestNames(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	tree := os.DirFS(root)
	documents, err := documentsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		text, err := os.ReadFile(filepath.Join(root, d))
		if err != nil {
			t.Fatal(err)
		}
		complaints, err := checkNames(tree, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if d == "ARCHITECTURE.md" {
			missing, err := checkMap(tree, string(text))
			if err != nil {
				t.Fatal(err)
			}
			complaints = append(complaints, missing...)
		}
		if d == "docs/README.md" {
			complaints = append(complaints, checkIndex(documents, string(text))...)
		}
		for _, c := range complaints {
			t.Errorf("%s: %s", d, c)
		}
	}

	bad := fstest.MapFS{
		"Makefile": {Data: []byte("build: ## it\n")}, "internal/a/a.go": {}, "internal/b/b.go": {}, "test/c/c.go": {},
	}
	document := "`internal/a`, `internal/a/a.go`, `internal/x`, `make build`, `make nothing N=1`, `test/c.TestX`"
	names, err := checkNames(bad, document)
	if err != nil || len(names) != 2 {
		t.Errorf("two things are not there, but these were missed: %q, %v", names, err)
	}
	if missing := checkIndex([]string{"README.md", "docs/a.md", "docs/b/c.md", "docs/d/README.md", "docs/d/e.md"},
		"[a](a.md) [c](c.md)"); len(missing) != 2 {
		t.Errorf("two pages are not in the index, but these were missed: %q", missing)
	}
	if missing, err := checkMap(bad, document); err != nil || len(missing) != 2 {
		t.Errorf("two packages are not on the map, but these were missed: %q, %v", missing, err)
	}
}
