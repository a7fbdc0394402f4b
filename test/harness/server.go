package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Build compiles the server into dir, as a release would, and returns the path
// of the binary.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return BuildFrom(ctx, root, dir)
}

// BuildFrom does what Build does with the source in root, which may be of another commit. The go tool compiles only
// what differs between the two, because -trimpath leaves out where the source is.
func BuildFrom(ctx context.Context, root, dir string) (string, error) {
	return build(ctx, root, dir, []string{"CGO_ENABLED=0"}, "-trimpath")
}

// BuildPlain compiles the server without what makes a release fast, so that most of it is what
// go test has compiled already.
func BuildPlain(ctx context.Context, dir string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return build(ctx, root, dir, nil, "-pgo=off")
}

func build(ctx context.Context, root, dir string, env []string, flags ...string) (string, error) {
	bin := filepath.Join(dir, "millrace")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", bin, "./cmd/millrace")...) //nolint:gosec // our own build
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return bin, nil
}

// listening is the example file's entry for a listener that is on by default.
var listening = regexp.MustCompile(`# (MILLRACE_\w+), --\S+\n# \w+ = "[^"]*:\d+"`)

// FreePorts returns the environment in which the server listens on a free port
// wherever it would listen by default, so that several run beside each other. It
// asks the server's own example file, so that no protocol is forgotten.
func FreePorts(ctx context.Context, bin string) ([]string, error) {
	example, err := exec.CommandContext(ctx, bin, "config", "example").Output()
	if err != nil {
		return nil, fmt.Errorf("print the example configuration: %w", err)
	}
	return freePorts(string(example))
}

func freePorts(example string) ([]string, error) {
	var env []string
	for _, m := range listening.FindAllStringSubmatch(example, -1) {
		env = append(env, m[1]+"=127.0.0.1:0")
	}
	if len(env) == 0 {
		return nil, errors.New("the example configuration has no listener")
	}
	return env, nil
}

// FreeAddr gives no address twice in one process, and begins elsewhere in another one.
var (
	begun = rand.Uint32N(1 << 30) //nolint:gosec // no secret
	given atomic.Uint32
)

// FreeAddr returns an address of this machine at which nobody listens. Its port lies below those that systems hand out
// by themselves, so that nobody gets it by chance before the caller listens there.
func FreeAddr(ctx context.Context) (string, error) {
	const first, count, tries = 10_000, 22_000, 100
	var err error
	for range tries {
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp",
			fmt.Sprintf("127.0.0.1:%d", first+(begun+given.Add(1))%count)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("no free port in %d tries: %w", tries, err)
}

// moduleRoot looks for the server's source from the working directory upwards,
// past the modules that the tests of other people's clients are in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "millrace")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no cmd/millrace here or above")
		}
		dir = parent
	}
}

// Options says how to start the server.
type Options struct {
	Bin  string
	Args []string
	Env  []string // added to the environment
	Dir  string   // working directory
	// Files are inherited, as descriptors from 3 on.
	Files []*os.File
	// Listener is the listener whose line on stdout means that the server is up;
	// empty means masenko.
	Listener string
	// Also are more listeners to wait for.
	Also []string
	// Patience bounds the start; zero means two minutes.
	Patience time.Duration
}

// Server is a running server process.
type Server struct {
	// Addr is the address of the listener that was waited for, and Addrs those of
	// all that were, by name.
	Addr  string
	Addrs map[string]string
	// Ready is how long the start took, from the fork to the listener's line.
	Ready time.Duration

	cmd  *exec.Cmd
	done chan struct{} // closed by the goroutine that waits for the process
	err  error         // of Wait; valid once done is closed

	mu     sync.Mutex // guards what follows
	stdout []string
	stderr bytes.Buffer
}

// ExitError is the end of a process that was expected to come up.
type ExitError struct {
	Code   int
	Stdout string
	Stderr string
}

// Error tells the exit status and what the process said.
func (e *ExitError) Error() string {
	return fmt.Sprintf("the server exited with status %d:\n%s%s", e.Code, e.Stdout, e.Stderr)
}

// Start starts the server and returns once it serves. A process that ends
// instead is an *ExitError.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Listener == "" {
		o.Listener = "masenko"
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	s := &Server{cmd: exec.CommandContext(ctx, o.Bin, o.Args...), done: make(chan struct{})} //nolint:gosec // the binary under test
	// Servers run side by side, so nothing listens on a fixed port unless asked to.
	s.cmd.Env = append(append(os.Environ(), "MILLRACE_WORKQ_ADDR=off", "MILLRACE_BEANSTALKD_ADDR=off"), o.Env...)
	s.cmd.Dir = o.Dir
	s.cmd.ExtraFiles = o.Files
	s.cmd.Stderr = lockedWriter{s}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	up := make(chan map[string]string, 1)
	listeners := slices.Sorted(slices.Values(append([]string{o.Listener}, o.Also...)))
	go s.watch(stdout, slices.Compact(listeners), up)
	select {
	case s.Addrs = <-up:
		s.Addr = s.Addrs[o.Listener]
		s.Ready = time.Since(started)
		return s, nil
	case <-s.done:
		return nil, &ExitError{
			Code: s.cmd.ProcessState.ExitCode(), Stdout: strings.Join(s.Stdout(), "\n"),
			Stderr: s.Stderr(),
		}
	case <-time.After(o.Patience):
		s.Kill()
		return nil, fmt.Errorf("the server did not come up within %v:\n%s%s", o.Patience,
			strings.Join(s.Stdout(), "\n"), s.Stderr())
	}
}

// watch collects stdout until it ends, announces the listeners once all of them
// are there, and then waits for the process, because Wait may not be called
// before the reading is done.
func (s *Server) watch(stdout io.Reader, listeners []string, up chan<- map[string]string) {
	defer close(s.done)
	addrs := make(map[string]string)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		s.stdout = append(s.stdout, line)
		s.mu.Unlock()
		for _, l := range listeners {
			addr, ok := listenerAddr(line, l)
			if _, known := addrs[l]; !ok || known {
				continue
			}
			if addrs[l] = addr; len(addrs) == len(listeners) {
				up <- addrs
			}
		}
	}
	s.err = s.cmd.Wait()
}

// listenerAddr finds the address in the line of a listener: a line that begins
// with its name and has an address of numbers in it.
func listenerAddr(line, listener string) (string, bool) {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '/' })
	if len(fields) == 0 || strings.TrimSuffix(fields[0], ":") != listener {
		return "", false
	}
	for _, f := range fields[1:] {
		colon := strings.LastIndexByte(f, ':')
		if colon > 0 && colon < len(f)-1 && strings.Trim(f[colon+1:], "0123456789") == "" {
			return f, true
		}
	}
	return "", false
}

// lockedWriter collects stderr.
type lockedWriter struct{ s *Server }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.stderr.Write(p)
}

// Stdout returns the lines printed so far.
func (s *Server) Stdout() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.stdout...)
}

// Stderr returns the log so far.
func (s *Server) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// Pid returns the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill ends the process with SIGKILL and returns when it has gone.
func (s *Server) Kill() {
	// The only error is that the process has ended, which is what is wanted.
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Signal sends a signal.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// ExitCode returns the exit status once Done is closed, -1 if a signal ended it.
func (s *Server) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// StopPatience is how long a server may take to end on a busy machine, its clients being gone. Only one that hangs
// takes longer.
const StopPatience = 2 * time.Minute

// Stop asks the process to end and returns when it has; an exit status other
// than zero is an error.
func (s *Server) Stop(patience time.Duration) error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.done:
		if s.err != nil {
			return fmt.Errorf("the server ended with %w\n%s", s.err, s.Stderr())
		}
		return nil
	case <-time.After(patience):
		s.Kill()
		return fmt.Errorf("the server did not end within %v", patience)
	}
}
