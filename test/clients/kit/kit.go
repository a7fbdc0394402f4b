// Package kit is what the tests of all client libraries share: the real binary,
// built once for each test package and started for each test, certificates, and
// clients of other languages, whose scripts report in the Test Anything Protocol.
//
// It asserts nothing about the server, knows it only from outside, and is
// imported by tests only. What is missing on the machine fails the test that
// needs it, with the command that installs it; nothing is skipped.
package kit

import (
	"net"
	"os/exec"
	"strconv"
	"testing"

	"millrace/test/suite"
)

// program is the server under test.
var program suite.Program

// Main builds the server, runs the tests of a package and returns the exit
// status. It is what TestMain calls.
func Main(m *testing.M) int { return suite.Main(m, &program) }

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

// Start starts the server with the arguments, every listener on a free port, and
// returns once the listeners that are named serve. The test fails if the server
// does not end cleanly after it; its log is shown if the test has failed.
func Start(t *testing.T, listeners []string, args ...string) *Server {
	t.Helper()
	return &Server{addrs: program.Serve(t, listeners, args...).Addrs}
}

// Command is a command of the binary, to be run.
func Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), program.Bin, args...) //nolint:gosec // the binary under test
}
