package tidy

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// checkDocs asks for the documents that other rules and people rely on, one per
// protocol included.
func checkDocs(tree fs.FS) ([]string, error) {
	want := []string{
		"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
		"docs/semantics.md", "docs/storage-format.md", "docs/adding-a-protocol.md",
	}
	dialects, err := fs.ReadDir(tree, "internal/dialect")
	if err != nil {
		return nil, err
	}
	for _, d := range dialects {
		if d.IsDir() && d.Name() != "dialecttest" && d.Name() != "jsonscan" && d.Name() != "testdata" {
			want = append(want, "docs/protocols/"+d.Name()+".md")
		}
	}
	var out []string
	for _, p := range want {
		if text, err := fs.ReadFile(tree, p); err != nil || len(text) == 0 {
			out = append(out, p+": missing or empty")
		}
	}
	return out, nil
}

// mdLink finds the target of a link to another file.
var mdLink = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// checkLinks follows every relative link of every document.
func checkLinks(tree fs.FS) ([]string, error) {
	docs, err := files(tree, ".", func(p string) bool { return path.Ext(p) == ".md" && !inFixture(p) })
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range docs {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		for _, m := range mdLink.FindAllStringSubmatch(string(text), -1) {
			target := path.Join(path.Dir(p), m[1])
			if _, err := fs.Stat(tree, target); err != nil {
				out = append(out, fmt.Sprintf("%s: the link to %s leads nowhere", p, m[1]))
			}
		}
	}
	return out, nil
}

var invariant = regexp.MustCompile(`\bINV-\d+\b`)

// checkInvariants holds document and code together: every invariant is cited by
// a check or a test, and none is cited that the document does not state.
func checkInvariants(tree fs.FS) ([]string, error) {
	text, err := fs.ReadFile(tree, "docs/semantics.md")
	if err != nil {
		return nil, err
	}
	stated := invariant.FindAllString(string(text), -1)
	paths, err := files(tree, ".", func(p string) bool {
		return path.Dir(p) != "internal/tidy" && (isGo(p) || inFixture(p))
	})
	if err != nil {
		return nil, err
	}
	var out, cited []string
	for _, p := range paths {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		guards := strings.HasSuffix(p, "_test.go") || inFixture(p) || strings.HasPrefix(path.Base(p), "check") ||
			strings.HasPrefix(p, "internal/sim/")
		for _, inv := range invariant.FindAllString(string(text), -1) {
			if !slices.Contains(stated, inv) {
				out = append(out, fmt.Sprintf("%s cites %s, which docs/semantics.md does not state", p, inv))
			}
			if guards {
				cited = append(cited, inv)
			}
		}
	}
	slices.Sort(stated)
	for _, inv := range slices.Compact(stated) {
		if !slices.Contains(cited, inv) {
			out = append(out, inv+" is stated in docs/semantics.md, but no test and no check cites it")
		}
	}
	return out, nil
}

// checkDecisions asks for a decision record that names each of the modules.
func checkDecisions(tree fs.FS, modules []string) ([]string, error) {
	records, err := files(tree, "docs/decisions", func(p string) bool { return path.Ext(p) == ".md" })
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, p := range records {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		all.Write(text)
	}
	var out []string
	for _, m := range modules {
		if !strings.Contains(all.String(), "`"+m+"`") {
			out = append(out, fmt.Sprintf("no record in docs/decisions names `%s`: a dependency is a decision", m))
		}
	}
	return out, nil
}

// direct returns the modules that packages of this module import, tests
// included. It is computed from the imports, because a comment in go.mod may lie.
func direct(t *testing.T) []string {
	t.Helper()
	moduleOf := map[string]string{}
	for _, p := range goList(t, "-deps", "-test", "./...") {
		if p.Module != nil {
			moduleOf[p.ImportPath] = p.Module.Path
		}
	}
	var out []string
	for _, p := range goList(t, "./...") {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if m := moduleOf[imp]; m != "" && m != module {
				out = append(out, m)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkRequirements compares go.mod with the imports: what is imported here is
// a direct requirement and is listed as one, and nothing else is.
func checkRequirements(tree fs.FS, modules []string) ([]string, error) {
	text, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	requirement := regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) v\S+( // indirect)?$`)
	var out, listed []string
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		isDirect := m[2] == ""
		if isDirect {
			listed = append(listed, m[1])
		}
		if isDirect && !slices.Contains(modules, m[1]) {
			out = append(out, fmt.Sprintf("go.mod requires %s, which nothing here imports", m[1]))
		}
	}
	for _, m := range modules {
		if !slices.Contains(listed, m) {
			out = append(out, fmt.Sprintf("go.mod does not list %s as a direct requirement: run go mod tidy", m))
		}
	}
	return out, nil
}

func TestDocs(t *testing.T) {
	t.Parallel()
	modules := direct(t)
	with := func(check func(fs.FS, []string) ([]string, error)) func(fs.FS) ([]string, error) {
		return func(tree fs.FS) ([]string, error) {
			if _, bad := tree.(fstest.MapFS); bad {
				return check(tree, []string{"example.org/used", "example.org/other"})
			}
			return check(tree, modules)
		}
	}
	run(t, []rule{
		{
			name: "documents are there", check: checkDocs, want: 9,
			bad: fstest.MapFS{
				"internal/dialect/gopher/conn.go":   file("package gopher\n"),
				"internal/dialect/dialecttest/a.go": file("package dialecttest\n"),
			},
		},
		{
			name: "links lead somewhere", check: checkLinks, want: 1,
			bad: fstest.MapFS{
				"README.md":   file("[a](docs/a.md) [b](docs/b.md) [site](https://example.org/x)\n"),
				"docs/a.md":   file("[back](../README.md#top)\n"),
				"bin/tool.md": file("[x](nowhere.md)\n"),
			},
		},
		{
			name: "invariants are cited", check: checkInvariants, want: 2,
			bad: fstest.MapFS{
				"docs/semantics.md":                file("| INV-1 | a |\n| INV-2 | b |\n"),
				"internal/engine/machine/check.go": file("package machine // INV-1\n"),
				"internal/engine/machine/push.go":  file("package machine // INV-2, INV-7\n"),
			},
		},
		{
			name: "dependencies are decided", check: with(checkDecisions), want: 1,
			bad: fstest.MapFS{"docs/decisions/0001-used.md": file("We use `example.org/used`.\n")},
		},
		{
			name: "go.mod tells the truth", check: with(checkRequirements), want: 2,
			bad: fstest.MapFS{"go.mod": file("module m\n\nrequire (\n\texample.org/used v1.0.0\n\texample.org/other " +
				"v1.0.0 // indirect\n\texample.org/left v1.0.0\n)\n")},
		},
	})
}
