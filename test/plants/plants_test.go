// Package plants asks whether the tests are any good: each bug of internal/plant is planted alone, and the test that is
// named here has to fail.
package plants

import (
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"millrace/test/tier"
)

var (
	all   = flag.Bool("plants.all", false, "plant all bugs; without it those of the machine, in the quick tier some")
	other = flag.String("plants.by", "", "ask another test than the one that is named: its package and "+
		"name, engine.TestKill")
	some = flag.String("plants.only", "", "plant only bugs whose name contains this")
)

const root = "../.."

// TestEachHasItsPlace asserts that each bug stands somewhere in the code, and that a test is named for it.
func TestEachHasItsPlace(t *testing.T) {
	t.Parallel()
	named, hooks := map[string]bool{}, map[string]bool{}
	for _, f := range found {
		named[string(f.bug)] = true
	}
	files := token.NewFileSet()
	list, err := parser.ParseFile(files, filepath.Join(root, "internal/plant/plants.go"), nil,
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(source, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "plant" {
					hooks[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(list, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			name, text := v.Names[0].Name, strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
			if !hooks[name] {
				t.Errorf("%s has no hook", name)
			}
			if !named[text] {
				t.Errorf("no test is named for %s", name)
			}
		}
		return true
	})
}

// TestEachIsFound plants one bug after the other.
func TestEachIsFound(t *testing.T) {
	t.Parallel()
	dir, built, left := t.TempDir(), map[string]string{}, tier.Pick(len(found), 3)
	for _, f := range found {
		if left == 0 && !*all || !*all && f.in != "engine/machine" || !strings.Contains(string(f.bug), *some) {
			continue
		}
		left--
		if in, test, ok := strings.Cut(*other, "."); ok {
			f.in, f.test = in, test
		}
		if built[f.in] == "" {
			built[f.in] = filepath.Join(dir, strings.ReplaceAll(f.in, "/", "-"))
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags=plants", "-o", built[f.in],
				"./internal/"+f.in)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build the tests of %s: %v\n%s", f.in, err, out)
			}
		}
		t.Run(string(f.bug), func(t *testing.T) {
			test := exec.CommandContext(t.Context(), built[f.in], "-test.run=^"+f.test+"$", "-test.failfast",
				"-test.timeout=5m")
			test.Dir = filepath.Join(root, "internal", f.in)
			test.Env = append(os.Environ(), "PLANT="+string(f.bug))
			out, err := test.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if err == nil {
				t.Errorf("%s of %s does not find it: %s", f.test, f.in, out)
			}
		})
	}
}
