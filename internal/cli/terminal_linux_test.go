package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"millrace/internal/testkit"
)

// terminal is a pseudo-terminal: what is written to the one end is typed at the other.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	ioctl := func(request uintptr, arg *uint32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request,
			uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	var unlock, number uint32
	ioctl(syscall.TIOCSPTLCK, &unlock)
	ioctl(syscall.TIOCGPTN, &number)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// On a terminal what takes something away asks first.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	for _, c := range []struct {
		answer string
		status int
		left   string
	}{{"\n", 1, "1 0 0 0 0 0 0"}, {"no\n", 1, "1 0 0 0 0 0 0"}, {"Yes\n", 0, "0 0 0 0 0 0 0"}} {
		person, program := terminal(t)
		if _, err := io.WriteString(person, c.answer); err != nil {
			t.Fatal(err)
		}
		got := s.with(program, "queue", "purge", "mails")
		if got.status != c.status || !strings.HasPrefix(got.stderr, "Delete 1 job of queue mails? [y/N] ") ||
			s.counts("mails") != c.left {
			t.Errorf("%q: %+v, left %s", c.answer, got, s.counts("mails"))
		}
	}
	// The null device looks like a terminal, but nobody is there.
	s.ok("push mails x")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	if got := s.with(null, "queue", "purge", "mails"); got.status != exitUsage ||
		!strings.Contains(got.stderr, "add --yes") || s.counts("mails") != "1 0 0 0 0 0 0" {
		t.Errorf("the null device: %+v, left %s", got, s.counts("mails"))
	}
}

// The whole program, on a terminal, with a real server.
func TestTop(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.ok("push mails x")
	person, program := terminal(t)
	size := [4]uint16{24, 80}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), syscall.TIOCSWINSZ,
		uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
	seen := &screen{changed: make(chan struct{})}
	go seen.read(person)
	status := make(chan int, 1)
	var stderr testkit.Buffer
	environ := append(s.environ, "TERM=xterm-256color")
	go func() {
		status <- Main([]string{"top", "--every", "50ms"},
			Process{Stdin: program, Stdout: program, Stderr: &stderr, Environ: environ})
	}()
	press := func(keys string) {
		t.Helper()
		if _, err := io.WriteString(person, keys); err != nil {
			t.Fatal(err)
		}
	}
	seen.await(t, "mails")
	press("p")
	seen.await(t, "mails is paused")
	if got := s.ok("queue ls --json"); !strings.Contains(got, `"paused":true`) {
		t.Errorf("%s", got)
	}
	press("2")
	seen.await(t, "WORKER")
	press("q")
	if got := <-status; got != exitOK {
		t.Errorf("status %d: %s", got, stderr.String())
	}
}
