package tidy

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is the tree the rules are applied to.
func repository(t *testing.T) fs.FS {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return os.DirFS(root)
}

// complain reports every complaint as an error of its own.
func complain(t *testing.T, complaints []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		t.Error(c)
	}
}

// notOurs are directories whose files nobody wrote by hand.
var notOurs = []string{
	".git", "bin", "dist", "millrace-data", "test/clients/node/node_modules",
	"test/browser/node_modules",
}

// files returns the paths below dir for which keep answers true, in order. A
// directory that does not exist has no files.
func files(tree fs.FS, dir string, keep func(p string) bool) ([]string, error) {
	var out []string
	if _, err := fs.Stat(tree, dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err := fs.WalkDir(tree, dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(notOurs, p):
			return fs.SkipDir
		case !d.IsDir() && keep(p):
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

func isGo(p string) bool { return path.Ext(p) == ".go" }

// source is one parsed Go file.
type source struct {
	path string
	fset *token.FileSet
	file *ast.File
}

func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// inFixture reports whether p is test data, which no rule about code is for.
func inFixture(p string) bool { return slices.Contains(strings.Split(path.Dir(p), "/"), "testdata") }

// sources parses every Go file of the tree.
func sources(tree fs.FS) ([]source, error) {
	paths, err := files(tree, ".", func(p string) bool { return isGo(p) && !inFixture(p) })
	if err != nil {
		return nil, err
	}
	out := make([]source, 0, len(paths))
	for _, p := range paths {
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		out = append(out, source{path: p, fset: fset, file: f})
	}
	return out, nil
}
