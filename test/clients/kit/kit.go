// Package kit is what the tests of all client libraries share: the real binary,
// built once for each test package and started for each test, certificates, and
// clients of other languages, whose scripts report in the Test Anything Protocol.
//
// It asserts nothing about the server, knows it only from outside, and is
// imported by tests only. What is missing on the machine fails the test that
// needs it, with the command that installs it; nothing is skipped.
package kit

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"millrace/test/harness"
)

// binary is the server under test, and ports the environment in which it takes
// free ports.
var (
	binary string
	ports  []string
)

// Main builds the server, runs the tests of a package and returns the exit
// status. It is what TestMain calls.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	ctx := context.Background()
	if binary, err = harness.Build(ctx, dir); err == nil {
		ports, err = harness.FreePorts(ctx, binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Server is a server that runs for the length of a test.
type Server struct {
	addrs map[string]string
}

// Addr is the address of one of the listeners that Start was asked for.
func (s *Server) Addr(listener string) string { return s.addrs[listener] }

// HostPort is the address of a listener in two parts.
func (s *Server) HostPort(t *testing.T, listener string) (host string, port int) {
	t.Helper()
	host, text, err := net.SplitHostPort(s.Addr(listener))
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return host, port
}

// stopPatience is how long a server may take to end after the test, its clients
// being gone.
const stopPatience = 10 * time.Second

// Start starts the server with the arguments, every listener on a free port, and
// returns once the listeners that are named serve. The test fails if the server
// does not end cleanly after it; its log is shown if the test has failed.
func Start(t *testing.T, listeners []string, args ...string) *Server {
	t.Helper()
	args = append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data")}, args...)
	// The context of a test ends before its cleanup, and would kill the server.
	s, err := harness.Start(context.WithoutCancel(t.Context()), harness.Options{
		Bin: binary, Args: args, Env: ports, Listener: listeners[0], Also: listeners[1:],
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(stopPatience); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.Stderr())
		}
	})
	return &Server{addrs: s.Addrs}
}
