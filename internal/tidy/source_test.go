package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// checkProtocolNames keeps the engine one engine: below the dialects no file and
// no directory may name a protocol, because where protocols differ the
// difference is data.
func checkProtocolNames(tree fs.FS) ([]string, error) {
	names := []string{"faktory", "workq", "masenko", "tarantool", "lmstfy", "beanstalk"}
	var out []string
	for _, dir := range []string{"internal/job", "internal/record", "internal/engine", "internal/store"} {
		paths, err := files(tree, dir, func(string) bool { return true })
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			text, err := fs.ReadFile(tree, p)
			if err != nil {
				return nil, err
			}
			// A golden store is binary: a name in it would be an accident.
			if bytes.IndexByte(text, 0) >= 0 {
				text = nil
			}
			for _, n := range names {
				if strings.Contains(strings.ToLower(p), n) || bytes.Contains(bytes.ToLower(text), []byte(n)) {
					out = append(out, fmt.Sprintf("%s names the protocol %s: below the dialects a difference "+
						"is a policy", p, n))
				}
			}
		}
	}
	return out, nil
}

// maxColumns is how wide a line may be.
const maxColumns = 120

// checkWidth asks for lines that can be read beside something else. Left out are comments that are indented, because an
// address or a drawing cannot be broken, text between backquotes, which means what it is, and what is said to the
// linter behind the code.
func checkWidth(tree fs.FS) ([]string, error) {
	paths, err := files(tree, ".", func(p string) bool { return strings.HasSuffix(p, ".go") })
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range paths {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		verbatim, number := verbatimLines(text), 0
		for line := range strings.Lines(string(text)) {
			number++
			line, _, _ = strings.Cut(line, " //nolint")
			columns := width(line)
			if columns <= maxColumns || verbatim[number] || strings.HasPrefix(strings.TrimLeft(line, "\t"), "//  ") {
				continue
			}
			out = append(out, fmt.Sprintf("%s:%d: the line has %d columns: %d are enough", p, number, columns,
				maxColumns))
		}
	}
	return out, nil
}

// verbatimLines returns the numbers of the lines that have text between backquotes.
func verbatimLines(text []byte) map[int]bool {
	set := token.NewFileSet()
	f := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, 0)
	out := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		if tok == token.STRING && lit[0] == '`' {
			first := f.Line(pos)
			for i := range strings.Count(lit, "\n") + 1 {
				out[first+i] = true
			}
		}
	}
}

// width returns how many columns a line has, a tab being four columns wide.
func width(line string) int {
	return utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
}

// phrases are habits that docs/style.md names, with what to write instead. They are looked for in comments;
// test/docs looks for those in documents.
var phrases = map[string]string{
	"in whatever":           "in any",
	"but for ":              "except for",
	"anew":                  "again, rebuilt",
	"so many of":            "n of",
	"does not go on as if ": "never carries on as if",
	"so many for":           "n for",
	"so many times":         "n times",
	"at most so many":       "at most n",
	"so much of":            "enough of, this much of",
	"of whatever":           "of any",
	"by whomever":           "by anyone",
	"by somebody's will":    "on request",
	"is none any more":      "is not one any more",
	"has its fill":          "is at its limit",
	"as far as that goes":   "as well as it can",
	"goes round in a":       "loops",
	"by and by":             "later, step by step",
}

func checkPhrases(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range all {
		if !strings.HasPrefix(s.path, "internal/") {
			continue
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for phrase, better := range phrases {
					if strings.Contains(strings.ToLower(c.Text)+" ", phrase) {
						out = append(out, fmt.Sprintf("%s:%d: %q: write %q", s.path, s.line(c.Pos()), phrase, better))
					}
				}
			}
		}
	}
	return out, nil
}

// checkPackageComments asks for exactly what a reader of the package list sees:
// a comment on the package clause of one file.
func checkPackageComments(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	documented := map[string]bool{}
	var dirs []string
	for _, s := range all {
		dir := path.Dir(s.path)
		if _, seen := documented[dir]; !seen {
			documented[dir] = false
			dirs = append(dirs, dir)
		}
		if s.file.Doc != nil && !strings.HasSuffix(s.file.Name.Name, "_test") {
			documented[dir] = true
		}
	}
	var out []string
	for _, dir := range dirs {
		if !documented[dir] {
			out = append(out, dir+": no package comment: say what it owns, what it must never do and who calls it")
		}
	}
	return out, nil
}

// checkCalls refuses sleeping, which hides a race instead of waiting for the
// event, and skipping, which hides a test.
func checkCalls(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	skips := []string{"Skip", "Skipf", "SkipNow"}
	testers := []string{"t", "b", "f", "tb"}
	var out []string
	for _, s := range all {
		testing := slices.ContainsFunc(s.file.Imports,
			func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch {
			case x.Name == "time" && sel.Sel.Name == "Sleep" && path.Dir(s.path) != "internal/testkit":
				out = append(out, fmt.Sprintf("%s:%d: time.Sleep: wait on an event", s.path, s.line(sel.Pos())))
			case testing && slices.Contains(testers, x.Name) && slices.Contains(skips, sel.Sel.Name):
				out = append(out, fmt.Sprintf("%s:%d: %s.%s: a test runs or it is not there", s.path, s.line(sel.Pos()),
					x.Name, sel.Sel.Name))
			}
			return true
		})
	}
	return out, nil
}

var (
	unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	referenced = regexp.MustCompile(`\bTODO\([a-z]+\): .*(#\d+|decision \d{4})`)
)

// checkUnfinished lets a TODO stand only if it says where it is tracked.
func checkUnfinished(tree fs.FS) ([]string, error) {
	all, err := sources(tree)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range all {
		if path.Dir(s.path) == "internal/tidy" {
			continue // the rule itself
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if unfinished.MatchString(c.Text) && !referenced.MatchString(c.Text) {
					out = append(out, fmt.Sprintf("%s:%d: want TODO(name): reason, with an issue (#1) or a decision "+
						"(decision 0001)", s.path, s.line(c.Pos())))
				}
			}
		}
	}
	return out, nil
}

// mainLinesMax keeps logic out of the one place that no test can call.
const mainLinesMax = 30

func checkMain(tree fs.FS) ([]string, error) {
	paths, err := files(tree, "cmd", isGo)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range paths {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		if n := bytes.Count(text, []byte("\n")); n >= mainLinesMax {
			out = append(out, fmt.Sprintf("%s has %d lines: under %d it can only call internal/cli",
				p, n, mainLinesMax))
		}
	}
	return out, nil
}

// rule is a check of a tree of files, with a tree that breaks it.
type rule struct {
	name  string
	check func(fs.FS) ([]string, error)
	bad   fstest.MapFS
	want  int // complaints about bad
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// run applies the rules to the repository and each to its bad example.
func run(t *testing.T, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.check(repository(t))
			complain(t, got, err)
		})
		t.Run(r.name+" can fail", func(t *testing.T) {
			t.Parallel()
			got, err := r.check(r.bad)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != r.want {
				t.Errorf("complaints about the bad example: %q, want %d", got, r.want)
			}
		})
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	run(t, []rule{
		{
			name: "no protocol names below the dialects", check: checkProtocolNames, want: 2,
			bad: fstest.MapFS{
				"internal/job/a.go":                file("// as Faktory does\npackage job\n"),
				"internal/engine/workq_order.go":   file("package engine\n"),
				"internal/dialect/masenko/conn.go": file("package masenko\n"),
			},
		},
		{
			name: "lines are not too wide", check: checkWidth, want: 3,
			bad: fstest.MapFS{
				"internal/a/a.go": file("// " + strings.Repeat("a", 118) + "\n//   " + strings.Repeat("b", 118) +
					"\n// c\npackage a\n"),
				"internal/a/b.go": file("package a\n\nvar a = \"" + strings.Repeat("a", 118) + "\"\n"),
				"internal/a/c_test.go": file("package a\n\nvar c = 1 //nolint:gosec // " + strings.Repeat("c", 118) +
					"\n\nvar d = `\n" + strings.Repeat("d", 121) + "\n`\n\nvar e = \"" + strings.Repeat("e", 118) +
					"\"\n"),
			},
		},
		{
			name: "comments without the habits of docs/style.md", check: checkPhrases, want: 2,
			bad: fstest.MapFS{
				"internal/a/a.go": file("// Package a is made anew.\npackage a\n\nvar b = 1 // in whatever " +
					"case\n\nvar c = \"anew\"\n"),
				"test/a/a.go": file("// Package a is all there, but for this.\npackage a\n"),
			},
		},
		{
			name: "every package has a comment", check: checkPackageComments, want: 2,
			bad: fstest.MapFS{
				"internal/a/a.go":      file("package a\n"),
				"internal/b/b_test.go": file("// Package b_test does not count.\npackage b_test\n"),
				"internal/c/a.go":      file("package c\n"),
				"internal/c/doc.go":    file("// Package c is documented.\npackage c\n"),
			},
		},
		{
			name: "no sleeping and no skipping", check: checkCalls, want: 3,
			bad: fstest.MapFS{
				"internal/a/a.go":       file("package a\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
				"internal/testkit/a.go": file("package testkit\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
				"internal/a/a_test.go": file("package a\n\nimport \"testing\"\n\nfunc g(t *testing.T) { t.Skip(); " +
					"t.Skipf(\"\"); reader.Skip() }\n"),
			},
		},
		{
			name: "no loose ends", check: checkUnfinished, want: 2,
			bad: fstest.MapFS{
				"internal/a/a.go": file("package a\n\n// TODO: later\n\n// FIXME\n\n// TODO(ann): see #12.\n\n// " +
					"TODO(bob): decision 0003 says when.\n"),
			},
		},
		{
			name: "main is short", check: checkMain, want: 1,
			bad: fstest.MapFS{"cmd/millrace/main.go": file(strings.Repeat("//\n", mainLinesMax) + "package main\n")},
		},
	})
}
