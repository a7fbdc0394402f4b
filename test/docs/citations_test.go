package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// citation is a test that a document names as its witness.
var citation = regexp.MustCompile("`((?:internal|test)/[a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")

// checkCitations looks for the tests that a document names.
func checkCitations(tree fs.FS, document string) ([]string, error) {
	var out []string
	for _, m := range citation.FindAllStringSubmatch(document, -1) {
		files, err := fs.Glob(tree, path.Join(m[1], "*_test.go"))
		if err != nil {
			return nil, err
		}
		found := false
		for _, f := range files {
			text, err := fs.ReadFile(tree, f)
			if err != nil {
				return nil, err
			}
			found = found || strings.Contains(string(text), "\nfunc "+m[2]+"(t *testing.T)")
		}
		if !found {
			out = append(out, fmt.Sprintf("%s has no %s", m[1], m[2]))
		}
	}
	return out, nil
}

// TestCitations finds every test that the documents name as the proof of a promise.
func TestCitations(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	documents, err := documentsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, d := range documents {
		text, err := os.ReadFile(filepath.Join(root, d))
		if err != nil {
			t.Fatal(err)
		}
		count += len(citation.FindAllString(string(text), -1))
		missing, err := checkCitations(os.DirFS(root), string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range missing {
			t.Errorf("%s: %s", d, m)
		}
	}
	if count == 0 {
		t.Error("no document names a test")
	}
	bad := fstest.MapFS{"internal/a/a_test.go": {Data: []byte("package a\n\nfunc TestHere(t *testing.T) {}\n")}}
	missing, err := checkCitations(bad, "`internal/a.TestHere`, `internal/a.TestGone`, `internal/b.TestHere`")
	if err != nil || len(missing) != 2 {
		t.Errorf("two tests are not there, but only these were missed: %q, %v", missing, err)
	}
}
