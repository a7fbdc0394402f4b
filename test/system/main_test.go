package system

import (
	"errors"
	"flag"
	"os"
	"testing"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
	"millrace/test/suite"
)

var (
	killCount = flag.Int("kills", 0, "how often the server is killed under load; zero: what the tier asks for")
	connCount = flag.Int("conns", 1000, "idle connections that wait in a fetch")
)

// program is the server under test.
var program suite.Program

func TestMain(m *testing.M) {
	flag.StringVar(&program.Bin, "bin", "", "server to test; without it one is built")
	flag.Parse()
	os.Exit(suite.Main(m, &program))
}

// options returns how to start a server on dir, on ports of its own.
func options(dir string, args ...string) harness.Options {
	return harness.Options{
		Bin:  program.Bin,
		Args: append([]string{"serve", "--data-dir", dir}, args...), Env: program.Env,
	}
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
	if err := s.Stop(harness.StopPatience); err != nil {
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
