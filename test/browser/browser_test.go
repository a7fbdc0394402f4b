package browser

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"millrace/test/suite"
)

// program is the server under test.
var program suite.Program

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, &program))
}

// start starts a server, and stops it with the test.
func start(t *testing.T, args ...string) map[string]string {
	t.Helper()
	return program.Serve(t, []string{"web", "masenko", "faktory", "workq", "lmstfy"}, args...).Addrs
}

// install is the command that brings what the tests need.
const install = "make browser, as root where Debian packages are missing, installs it"

// tool finds a program of the machine.
func tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed (Debian package %s): %s", name, debianPackage, install)
	}
	return path
}

// passed tells how many tests of a script passed.
var passed = regexp.MustCompile(`(?m)^# pass (\d+)$`)

// scriptPatience bounds the run of one script.
const scriptPatience = 10 * time.Minute

// script runs a script of tests in the browser.
func script(t *testing.T, name string, env ...string) {
	t.Helper()
	node := tool(t, "node", "nodejs")
	env = append(env, "CHROMIUM="+tool(t, "chromium", "chromium"))
	for _, module := range []string{"playwright-core", "axe-core", "@seriousme/openapi-schema-validator"} {
		if _, err := os.Stat(filepath.Join("node_modules", module)); errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the npm module %s is not installed (npm ci in test/browser): %s", module, install)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=tap", name)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // what a script leaves running must not keep its output open
	err := cmd.Run()
	if m := passed.FindSubmatch(out.Bytes()); err != nil || m == nil || string(m[1]) == "0" {
		t.Errorf("%s: %v\n%s", name, err, out.String())
	}
}

// seeded starts a server with jobs of several protocols, and returns the address of its pages.
func seeded(t *testing.T, batches ...batch) string {
	t.Helper()
	addrs := start(t)
	worker := seedFaktory(t, addrs["faktory"])
	seedWorkq(t, addrs["workq"])
	seedLMSTFY(t, addrs["lmstfy"])
	seedMasenko(t, addrs["masenko"], batches)
	seedTokens(t, addrs["web"])
	keepBusy(t, addrs["masenko"], worker)
	return "http://" + addrs["web"]
}

// TestPages visits every page.
func TestPages(t *testing.T) {
	t.Parallel()
	script(t, "pages.test.mjs", "BASE="+seeded(t, batch{"bulk", 500}))
}

// TestActions presses every button.
func TestActions(t *testing.T) {
	t.Parallel()
	script(t, "actions.test.mjs", "BASE="+seeded(t, batch{"bulk", 500}, batch{"mass", 60_000}))
}

// TestLogin uses a server that asks for a password.
func TestLogin(t *testing.T) {
	t.Parallel()
	addrs := start(t, "--web-password", "p&ss wörd", "--web-read-password", "just look")
	seedLMSTFY(t, addrs["lmstfy"])
	script(t, "login.test.mjs", "BASE=http://"+addrs["web"], "PASSWORD=p&ss wörd", "READ_PASSWORD=just look")
}

// TestSites has web pages of other sites try to reach every port of a server without a login.
func TestSites(t *testing.T) {
	t.Parallel()
	addrs := start(t, "--tarantool15-addr", "127.0.0.1:0")
	script(t, "sites.test.mjs", "BASE=http://"+addrs["web"])
}
