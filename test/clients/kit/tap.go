package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// install is the command that brings what the clients need.
const install = "make clients, as root where Debian packages are missing, installs it"

// scriptPatience bounds the run of one script.
const scriptPatience = 90 * time.Second

// Tool finds a program of the machine. A test that needs one that is not there
// fails.
func Tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed (Debian package %s): %s", name, debianPackage, install)
	}
	return path
}

// Node runs a script of test/clients/node that uses an npm module, with env added
// to its environment, and makes each of its tests a subtest.
func Node(t *testing.T, script, module string, env ...string) {
	t.Helper()
	node := Tool(t, "node", "nodejs")
	dir := filepath.Join("..", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", module)); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the npm module %s is not installed (npm ci in test/clients/node): %s", module, install)
	}
	runTAP(t, dir, env, node, "--test-reporter=tap", script)
}

// Perl runs a script of test/clients/perl that uses a Perl module, likewise.
func Perl(t *testing.T, script, module, debianPackage string, env ...string) {
	t.Helper()
	perl := Tool(t, "perl", "perl")
	probe := exec.CommandContext(t.Context(), perl, "-M"+module, "-e", "1") //nolint:gosec // our own script
	if out, err := probe.CombinedOutput(); err != nil {
		t.Fatalf("the Perl module %s is not installed (Debian package %s): %s\n%s", module, debianPackage, install, out)
	}
	runTAP(t, filepath.Join("..", "perl"), env, perl, script)
}

// runTAP runs a program in dir.
func runTAP(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // our own script
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// What a script leaves running must not keep its output open.
	cmd.WaitDelay = time.Second
	runErr := cmd.Run()
	results, err := parseTAP(stdout.String())
	for _, r := range results {
		t.Run(r.name, func(t *testing.T) {
			if !r.ok {
				t.Errorf("not ok\n%s", r.detail)
			}
		})
	}
	if err = errors.Join(err, runErr); err != nil || t.Failed() {
		t.Errorf("%s: %v\n%s\n%s", filepath.Base(name), err, stdout.String(), stderr.String())
	}
}

// result is one test point.
type result struct {
	name   string
	ok     bool
	detail string
}

var (
	point = regexp.MustCompile(`^(not )?ok (\d+)(?: - (.*))?$`)
	plan  = regexp.MustCompile(`^1\.\.(\d+)$`)
)

// parseTAP reads the test points of a run. One without a plan, or with another
// number of points than planned, is an error: the script ended early. So are
// points that were skipped.
func parseTAP(text string) ([]result, error) {
	var results []result
	planned := -1
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := plan.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return results, err
			}
			planned = n
			continue
		}
		m := point.FindStringSubmatch(line)
		switch {
		case m != nil && strings.Contains(m[3], " # "):
			return results, fmt.Errorf("a test that does not count: %s", line)
		case m != nil:
			results = append(results, result{name: m[3], ok: m[1] == ""})
		case len(results) > 0:
			results[len(results)-1].detail += line + "\n"
		}
	}
	switch {
	case planned < 0:
		return results, errors.New("no plan: the script did not come to its end")
	case planned == 0:
		return results, errors.New("no tests")
	case planned != len(results):
		return results, fmt.Errorf("%d tests of %d", len(results), planned)
	default:
		return results, nil
	}
}
