package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	href   = regexp.MustCompile(`<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(`\bid="([^"]*)"`)
)

// checkSite follows every link of a site that stays within it, to the place on the page.
func checkSite(site fs.FS) ([]string, error) {
	pages, anchors := map[string]string{}, map[string]bool{}
	err := fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		content, err := fs.ReadFile(site, name)
		pages[name] = string(content)
		for _, m := range anchor.FindAllStringSubmatch(string(content), -1) {
			anchors[name+"#"+m[1]] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for name, content := range pages {
		for _, m := range href.FindAllStringSubmatch(content, -1) {
			to, err := url.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			// The page for what is not found has links from the root, wherever that is.
			if err != nil || to.Host != "" || to.Opaque != "" || strings.HasPrefix(to.Path, "/") || m[1] == "#" {
				continue
			}
			target := name
			if to.Path != "" {
				target = path.Join(path.Dir(name), to.Path)
			}
			if _, err := fs.Stat(site, target); err != nil {
				out = append(out, fmt.Sprintf("%s: the link to %s leads nowhere", name, m[1]))
			} else if to.Fragment != "" && !anchors[target+"#"+to.Fragment] {
				out = append(out, fmt.Sprintf("%s: %s has no place %q", name, target, to.Fragment))
			}
		}
	}
	return out, nil
}

// TestSite builds the site, and follows its links.
func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), filepath.Join("..", "..", "packaging", "site", "build.sh"), dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the site (test/docs/install.sh installs mkdocs): %v\n%s", err, out)
	}
	complaints, err := checkSite(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		t.Error(c)
	}
	if _, err := os.Stat(filepath.Join(dir, "search", "search_index.json")); err != nil {
		t.Errorf("the site cannot be searched: %v", err)
	}
	bad := fstest.MapFS{
		"index.html": {Data: []byte(`<a href="a/b.html#x">1</a><a href="a/b.html#y">2</a><a href="c.html">3</a><a href="https://example.org/">4</a>`)},
		"a/b.html":   {Data: []byte(`<h1 id="x">x</h1><a href="../index.html">5</a><a href="#z">6</a>`)},
	}
	if complaints, err := checkSite(bad); err != nil || len(complaints) != 3 {
		t.Errorf("three links lead nowhere, but these were found: %q, %v", complaints, err)
	}
}
