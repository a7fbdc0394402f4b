package tidy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// anything, in a row of the table, allows every package of the module.
const anything = "*"

// mayImport says which packages of this module a package may import, as paths
// below the module's own (internal/ left out). Only what is compiled into the
// server counts: a test may import what it needs.
var mayImport = map[string][]string{
	"job":    {},
	"config": {},
	"auth":   {},
	"record": {"job"},
	"store":  {"plant", "timing"},
	"timing": {},
	"plant":  {},

	"schedule": {},

	"store/memstore":    {"job", "store"},
	"store/pebblestore": {"plant", "store", "commitlog", "commitlog/filelog"},

	"commitlog":         {"timing"},
	"commitlog/filelog": {"commitlog", "plant", "store", "timing"},
	"commitlog/memlog":  {"commitlog", "store"},

	"replica": {"job", "store", "commitlog"},
	"raftlog": {"job", "plant", "replica", "commitlog", "commitlog/filelog", "timing"},
	"cluster": {"job", "plant", "timing", "commitlog/filelog"},

	"engine/machine": {"job", "plant", "record", "schedule"},
	"engine":         {"job", "plant", "record", "store", "timing", "engine/machine"},

	"dialect/jsonscan": {},

	"dialect":      {"job", "api", "engine", "timing", "auth", "config", "dialect/jsonscan"},
	"dialect/*":    {"job", "engine", "dialect", "auth", "config", "dialect/jsonscan"},
	"dialect/rest": {"job", "api", "engine", "dialect", "config"},
	// It shows its tokens to operators.
	"dialect/lmstfy": {"job", "api", "engine", "dialect", "auth", "config", "dialect/jsonscan"},

	"dialect/tarantool/iproto": {},
	"dialect/tarantool/box15":  {},
	"dialect/tarantool/lua":    {"dialect/tarantool/iproto"},
	"dialect/tarantool/proc":   {"job", "engine", "dialect", "dialect/tarantool/iproto", "dialect/tarantool/box15"},
	"dialect/tarantool/queue":  {"job", "engine", "dialect", "dialect/tarantool/iproto", "dialect/tarantool/proc"},
	"dialect/tarantool/legacy": {"job", "engine", "dialect", "dialect/tarantool/iproto", "dialect/tarantool/proc"},

	"api":         {"job", "auth"},
	"api/openapi": {"job", "api", "auth"},
	"operator":    {"job", "api", "engine", "history", "auth", "timing", "schedule", "hook"},
	"httpapi":     {"api", "auth", "history", "operator"},
	"web":         {"job", "api", "auth", "operator", "httpapi"},
	"metrics":     {"job", "engine", "auth", "timing"},
	"history":     {"job", "engine", "timing"},

	"statsd":  {},
	"hook":    {"job", "engine"},
	"otlp":    {"job"},
	"systemd": {},
	"wire":    {},
	"bench":   {"wire"},
	"demo":    {"api", "apiclient"},
	"offline": {"job", "engine", "store", "store/pebblestore", "commitlog/filelog"},

	"apiclient": {"job", "api"},
	"server":    {anything},
	"migrate":   {"job", "dialect", "dialect/jsonscan", "api"},
	"top":       {"job", "api"},
	"cli": {
		"server", "config", "job", "offline", "api", "apiclient", "migrate", "top", "bench", "demo",
		"schedule", "timing",
	},
	"cmd/millrace": {"cli"},

	"tidy":           {},
	"sim":            {anything},
	"sim/clustersim": {},
	"sim/raftsim":    {},
	"testkit":        {anything},
	"test/harness":   {},
	"test/tier":      {},
	"test/suite":     {"test/harness", "test/tier"},
	"test/system":    {"test/harness"},
	"test/faults":    {},
	"test/hostile":   {},
	"test/shards":    {},
	"test/interop":   {},
	"test/torture":   {"test/harness"},
	"test/plants":    {},

	"test/packaging":     {},
	"test/packaging/deb": {"test/harness"},

	"test/monitoring":          {"test/harness"},
	"test/monitoring/promtool": {"test/monitoring"},

	"test/bench": {"test/harness", "bench", "wire", "job", "engine", "store/pebblestore"},
}

// forTests reports whether only tests, and others of its kind, may import a
// package: by its name, or because it is below test.
func forTests(name string) bool {
	return strings.HasSuffix(name, "test") || strings.HasPrefix(name, "test/") ||
		slices.Contains([]string{"sim", "testkit", "tidy"}, name)
}

// aboveServer may not be imported by the server, although it imports anything else.
var aboveServer = []string{"cli", "cmd/millrace"}

// ownedBy says which third-party code is confined to which packages, so that it
// can be replaced there.
var ownedBy = map[string][]string{
	"github.com/cockroachdb/pebble/": {"commitlog/filelog", "raftlog", "store/pebblestore", "store/storetest"},
	"github.com/hashicorp/":          {"raftlog", "cluster"},
	"github.com/redis/":              {"migrate"},
	"github.com/robfig/cron":         {"schedule"},
}

// goPackage is what the go tool tells about one package.
type goPackage struct {
	ImportPath   string
	Module       *struct{ Path string }
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// goList runs go list at the root of the module.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	// With a profile a package that a command has would be listed a second time, for that command.
	cmd := exec.CommandContext(t.Context(), "go", append([]string{
		"list", "-pgo=off", "-json=ImportPath,Module,Standard,Imports,TestImports,XTestImports",
	}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs
		case err != nil:
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

const module = "millrace"

// short is a package's name in the table, or false if it is of another module.
func short(importPath string) (string, bool) {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	return strings.TrimPrefix(rest, "internal/"), ours
}

// row finds a package's row in the table: its own, or that of all dialects. A
// package below a dialect belongs to it. A package of test helpers, such as
// storetest, needs no row.
func row(name string) (allowed []string, ok bool) {
	if allowed, ok = mayImport[name]; ok {
		return allowed, true
	}
	if strings.HasSuffix(name, "test") {
		return []string{anything}, true
	}
	if rest, isDialect := strings.CutPrefix(name, "dialect/"); isDialect {
		own, _, _ := strings.Cut(rest, "/")
		return append(slices.Clone(mayImport["dialect/*"]), "dialect/"+own), true
	}
	return nil, false
}

// allows reports whether a row lets its package import name. A dialect's row
// covers the packages below that dialect.
func allows(allowed []string, name string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		below := strings.HasPrefix(a, "dialect/") && strings.HasPrefix(name, a+"/")
		return a == anything || a == name || below
	})
}

func checkImports(pkgs []goPackage) []string {
	var out []string
	for _, p := range pkgs {
		name, ours := short(p.ImportPath)
		if !ours {
			continue
		}
		allowed, ok := row(name)
		if !ok {
			out = append(out, fmt.Sprintf("%s: not in the import table of internal/tidy: give it a row", name))
			continue
		}
		for _, imp := range p.Imports {
			target, ours := short(imp)
			if !ours {
				out = append(out, checkOwner(name, imp)...)
				continue
			}
			switch {
			case !allows(allowed, target):
				out = append(out, fmt.Sprintf("%s may not import %s", name, target))
			case forTests(target) && !forTests(name):
				out = append(out, fmt.Sprintf("%s imports %s, which is for tests only", name, target))
			case name == "server" && slices.Contains(aboveServer, target):
				out = append(out, fmt.Sprintf("%s imports %s, which is above it", name, target))
			}
		}
	}
	return out
}

func checkOwner(name, imp string) []string {
	for prefix, owners := range ownedBy {
		if strings.HasPrefix(imp, prefix) && !slices.Contains(owners, name) {
			return []string{fmt.Sprintf("%s imports %s: only %s may", name, imp, strings.Join(owners, ", "))}
		}
	}
	return nil
}

func TestImports(t *testing.T) {
	t.Parallel()
	complain(t, checkImports(goList(t, "./...")), nil)
}

func TestImportsRule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pkg, imp string
		bad            bool
	}{
		{"job imports nothing", "internal/job", "internal/store", true},
		{"the machine does not see the store", "internal/engine/machine", "internal/store", true},
		{"the machine writes records", "internal/engine/machine", "internal/record", false},
		{"the engine takes no implementation", "internal/engine", "internal/store/pebblestore", true},
		{"a dialect goes through the engine", "internal/dialect/a", "internal/engine", false},
		{"a dialect leaves the store alone", "internal/dialect/a", "internal/store", true},
		{"a dialect leaves other dialects alone", "internal/dialect/a", "internal/dialect/b", true},
		{"a dialect has parts", "internal/dialect/a", "internal/dialect/a/wire", false},
		{"a part of a dialect is bound like it", "internal/dialect/a/wire", "internal/store", true},
		{"helpers of tests see everything", "internal/dialect/a/atest", "internal/store/memstore", false},
		{"helpers stay with tests", "internal/dialect/a", "internal/dialect/a/atest", true},
		{"the server is not built from test code", "internal/server", "internal/testkit", true},
		{"the server is below the command line", "internal/server", "internal/cli", true},
		{"main is thin", "cmd/millrace", "internal/server", true},
		{"a package nobody placed", "internal/util", "fmt", true},
		{"one owner of the storage engine", "internal/engine", "github.com/cockroachdb/pebble/v2", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			imp := tt.imp
			if strings.HasPrefix(imp, "internal/") {
				imp = module + "/" + imp
			}
			got := checkImports([]goPackage{{ImportPath: module + "/" + tt.pkg, Imports: []string{imp}}})
			if (len(got) > 0) != tt.bad {
				t.Errorf("%s importing %s: complaints %q, want any: %v", tt.pkg, tt.imp, got, tt.bad)
			}
		})
	}
}
