// Command plants asks the test suites whether they are any good: it plants one bug
// after the other in a copy of a source file that only the compiler sees (an
// overlay; the tree is not touched), runs the suites on it, and tells which of them
// fail.
//
// It knows the bugs as replacements of text, so a change of the code near one asks
// for a new replacement here, and it says so.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/test/harness"
)

func main() {
	only := flag.String("only", "", "plant only bugs whose name contains this")
	in := flag.String("suites", "", "run only suites whose name contains one of these, separated by commas")
	out := flag.String("report", "", "document to write the table into, between the marks for plants")
	check := flag.Bool("check", false, "only see whether every bug can still be planted, and compiles")
	flag.Parse()
	if err := run(log.New(os.Stdout, "", 0), *only, *in, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// suite is a set of tests that may find a bug.
type suite struct {
	name    string
	args    []string // of go test
	timeout time.Duration
}

var suites = []suite{
	{"unit tests and scripts", []string{"./internal/engine/..."}, 5 * time.Minute},
	{"log", []string{"./internal/commitlog/..."}, 5 * time.Minute},
	{"store", []string{"./internal/store/..."}, 5 * time.Minute},
	{"simulation", []string{"./internal/sim", "-run", "^TestSim", "-args", "-sim.runs=40"}, 5 * time.Minute},
	{"torture", []string{
		"./test/torture", "-run", "TestKill|TestLinearizable|TestBonds", "-timeout", "150s", "-args", "-kills=8",
		"-rounds=3", "-bondkills=6",
	}, 5 * time.Minute},
	{"faults", []string{"./test/faults", "-run", "TestFlips|TestTears|TestTorn|TestCutAnywhere|TestSegments|TestIOErrors|TestPowerLoss|TestBackups|TestGolden"}, 5 * time.Minute},
	{"cluster parts", []string{"./internal/replica", "./internal/raftlog", "./internal/cluster"}, 5 * time.Minute},
	{"cluster simulation", []string{"./internal/sim/clustersim", "-run", "^TestSimCluster", "-args", "-sim.runs=200"}, 5 * time.Minute},
	{"library simulation", []string{"./internal/sim/raftsim", "-run", "^TestSim", "-timeout", "150s", "-args", "-sim.runs=24"}, 5 * time.Minute},
	{"nodes", []string{"./internal/server", "-run", "^TestNode"}, 5 * time.Minute},
}

func run(say *log.Logger, only, in, report string, check bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "millrace-plants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	var table strings.Builder
	table.WriteString("| bug | found by | not by |\n| --- | --- | --- |\n")
	missed := 0
	for _, p := range plants {
		if !strings.Contains(p.name, only) {
			continue
		}
		overlay, err := p.plant(root, dir)
		if err == nil {
			err = p.build(root, overlay)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if check {
			continue
		}
		found, not := p.try(say, root, overlay, in)
		if len(found) == 0 {
			missed++
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", p.name, strings.Join(found, ", "), strings.Join(not, ", "))
	}
	if check {
		return nil
	}
	say.Printf("\n%s", &table)
	if report != "" {
		if err := harness.Publish(report, "plants", table.String()); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d bugs were found by no suite", missed)
	}
	return nil
}

// plant writes the source with the bug, and the overlay that names it.
func (p plant) plant(root, dir string) (string, error) {
	path := filepath.Join(root, p.file)
	text, err := os.ReadFile(path) //nolint:gosec // our own source
	if err != nil {
		return "", err
	}
	text, err = p.change(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.file, err)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, text, 0o600); err != nil { //nolint:gosec // a directory of our own
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, overlay, 0o600)
}

// change returns a source with the bug in it.
func (p plant) change(text []byte) ([]byte, error) {
	switch n := bytes.Count(text, []byte(p.old)); n {
	case 0:
		for line := range strings.Lines(p.old) {
			if !bytes.Contains(text, []byte(line)) {
				return nil, fmt.Errorf("it stood at a line that is no longer there: %q", strings.TrimSpace(line))
			}
		}
		return nil, errors.New("the lines at which it stood no longer follow each other")
	case 1:
		return bytes.Replace(text, []byte(p.old), []byte(p.new), 1), nil
	default:
		return nil, fmt.Errorf("there are %d places for it, the text is too short", n)
	}
}

// build compiles the server with the bug: a suite that fails because of the compiler has
// found nothing.
func (p plant) build(root, overlay string) error {
	cmd := exec.Command("go", "build", "-overlay="+overlay, "./internal/...") //nolint:gosec // our own source
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile it: %w\n%s", err, out)
	}
	return nil
}

// try runs suites and returns the names of those that fail and of those that do not.
func (p plant) try(say *log.Logger, root, overlay, in string) (found, not []string) {
	for _, s := range suites {
		if !slices.ContainsFunc(strings.Split(in, ","),
			func(part string) bool { return strings.Contains(s.name, part) }) {
			continue
		}
		began := time.Now()
		text, failed := s.run(root, overlay)
		verdict := "does not find"
		if failed {
			found = append(found, s.name)
			verdict = "finds"
		} else {
			not = append(not, s.name)
		}
		say.Printf("%s %s: %s (%v) %s", s.name, verdict, p.name, time.Since(began).Round(time.Second), text)
	}
	return found, not
}

// run runs a suite with an overlay, and returns the first test that fails and the first complaint, if it does.
func (s suite) run(root, overlay string) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, s.args...)...) //nolint:gosec // our own tests
	cmd.Dir = root
	cmd.WaitDelay = time.Second
	// The suites build the server themselves, and must build it with the bug.
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay, "TEST_TIER=full")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", false
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "it hangs", true
	}
	test := ""
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok && test == "" {
			test, _, _ = strings.Cut(name, " ")
		}
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return fmt.Sprintf("%s: %.200s", test, strings.TrimSpace(line)), true
		}
	}
	return fmt.Sprintf("%.200s", out), true
}
