package system

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
)

var (
	killCount = flag.Int("kills", 20, "how often the server is killed under load")
	connCount = flag.Int("conns", 1000, "idle connections that wait in a fetch")
)

// binary is the server under test, and ports the environment in which it takes
// free ports.
var (
	binary string
	ports  []string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-system-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	if binary, err = harness.Build(context.Background(), dir); err == nil {
		ports, err = harness.FreePorts(context.Background(), binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// options returns how to start a server on dir, on ports of its own.
func options(dir string, args ...string) harness.Options {
	return harness.Options{Bin: binary, Args: append([]string{"serve", "--data-dir", dir}, args...), Env: ports}
}

// start starts a server that is killed at the end of the test, if it still runs.
func start(t *testing.T, o harness.Options) *harness.Server {
	t.Helper()
	s, err := harness.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// refused starts a server that must not come up, and returns its end.
func refused(t *testing.T, o harness.Options) *harness.ExitError {
	t.Helper()
	s, err := harness.Start(t.Context(), o)
	if err == nil {
		s.Kill()
		t.Fatal("the server came up")
	}
	var exit *harness.ExitError
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit
}

// stop ends the server as an operator would.
func stop(t *testing.T, s *harness.Server) {
	t.Helper()
	if err := s.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// dial connects for the length of the test.
func dial(t *testing.T, addr string) *harness.Client {
	t.Helper()
	c, err := harness.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it first
	return c
}

// dataDir is a directory that does not exist yet.
func dataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}
