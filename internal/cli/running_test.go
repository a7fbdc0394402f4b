package cli

import (
	"bufio"
	"io"
	"os"
	"testing"

	"millrace/internal/testkit"
)

// running is a command that runs beside the test.
type running struct {
	t       *testing.T
	signals chan os.Signal
	lines   *bufio.Scanner // of its standard output
	stderr  *testkit.Buffer
	status  chan int
}

func (s *asked) start(args ...string) *running {
	s.t.Helper()
	stdout, out := io.Pipe()
	r := &running{
		t: s.t, signals: make(chan os.Signal, 2), lines: bufio.NewScanner(stdout),
		stderr: new(testkit.Buffer), status: make(chan int, 1),
	}
	go func() {
		r.status <- Main(args, Process{Stdout: out, Stderr: r.stderr, Environ: s.environ, Signals: r.signals})
		_ = out.Close()
	}()
	return r
}

// line returns the next line that a command prints.
func (r *running) line() string {
	r.t.Helper()
	if !r.lines.Scan() {
		r.t.Fatalf("nothing more is printed:\n%s", r.stderr)
	}
	return r.lines.Text()
}

// end waits for the end.
func (r *running) end() int {
	r.t.Helper()
	for r.lines.Scan() { // what is left
	}
	return <-r.status
}
