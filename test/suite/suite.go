package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/tier"
)

// Program is the server under test.
type Program struct {
	Bin string
	Env []string // has it take free ports, so that several run beside each other
}

// Build compiles the server into dir, unless the program has a binary already, and adds
// to its environment that all ports are free ones. The full tier has it as a release would be.
func (p *Program) Build(dir string) (err error) {
	if p.Bin == "" {
		build := tier.Pick(harness.Build, harness.BuildPlain)
		if p.Bin, err = build(context.Background(), dir); err != nil {
			return err
		}
	}
	ports, err := harness.FreePorts(context.Background(), p.Bin)
	p.Env = append(ports, p.Env...)
	return err
}

// Main builds the server, runs the tests of a package and returns the exit status. It is
// what TestMain calls.
func Main(m *testing.M, p *Program) int {
	dir, err := os.MkdirTemp("", "millrace-suite-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
		err = p.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// DataDir is a directory that does not exist yet.
func DataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// Start starts a server that is killed at the end of the test, if it still runs.
func Start(t *testing.T, o harness.Options) *harness.Server {
	t.Helper()
	s, err := harness.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Serve starts a server on a directory of its own and returns once the listeners that are
// named serve. The test fails if the server does not end cleanly after it; its log is shown
// if the test has failed.
func (p *Program) Serve(t *testing.T, listeners []string, args ...string) *harness.Server {
	t.Helper()
	// The context of a test ends before its cleanup, and would kill the server.
	s, err := harness.Start(context.WithoutCancel(t.Context()), harness.Options{
		Bin: p.Bin, Args: append([]string{"serve", "--data-dir", DataDir(t)}, args...), Env: p.Env,
		Listener: listeners[0], Also: listeners[1:],
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(harness.StopPatience); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.Stderr())
		}
	})
	return s
}

// CutShort starts the server and kills it a moment later, while it recovers, and
// reports whether that came before the server was up.
func CutShort(t *testing.T, o harness.Options, moment time.Duration) bool {
	t.Helper()
	o.Patience = moment
	s, err := harness.Start(t.Context(), o)
	if err == nil {
		s.Kill()
		return false
	}
	if _, ended := errors.AsType[*harness.ExitError](err); ended {
		t.Error(err)
	}
	return true
}
