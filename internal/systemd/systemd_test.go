package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childEnv makes this test binary a service that systemd has given sockets.
const childEnv = "SYSTEMD_TEST_TAKE"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(child(name))
	}
	os.Exit(m.Run())
}

// child takes the sockets of one name, greets whoever connects to them, and prints
// the names that are left.
func child(name string) int {
	s, err := Attach(os.Environ())
	if err == nil {
		var listeners []*net.TCPListener
		listeners, err = s.Take(name)
		for _, l := range listeners {
			var conn net.Conn
			if conn, err = l.Accept(); err != nil {
				break
			}
			_, err = io.WriteString(conn, "hello\n")
			err = errors.Join(err, conn.Close(), l.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = fmt.Fprintln(os.Stdout, strings.Join(s.Left(), " ")) // the test misses it
	return 0
}

// service is the command that runs child with the files as its sockets. The shell
// knows the process id that exec keeps, as systemd does.
func service(t *testing.T, name string, environ []string, files ...*os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+name), environ...)
	cmd.ExtraFiles = files
	return cmd
}

// listen returns a listener and its socket for handing over.
func listen(t *testing.T) (addr string, file *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	file, err = l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return l.Addr().String(), file
}

func TestSockets(t *testing.T) {
	t.Parallel()
	firstAddr, first := listen(t)
	_, other := listen(t)
	secondAddr, second := listen(t)
	cmd := service(t, "a.addr", []string{"LISTEN_FDS=3", "LISTEN_FDNAMES=a.addr:b.addr:a.addr"}, first, other, second)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{firstAddr, secondAddr} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil || string(text) != "hello\n" {
			t.Errorf("%s: %q, %v", addr, text, err)
		}
		_ = conn.Close()
	}
	if err := cmd.Wait(); err != nil || stdout.String() != "b.addr\n" {
		t.Errorf("left %q, %v: %s", stdout.String(), err, stderr.String())
	}
}

func TestSocketsRefused(t *testing.T) {
	t.Parallel()
	regular, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = regular.Close() })
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close() })
	path, err := unix.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = path.Close() })
	for _, c := range []struct {
		name    string
		environ []string
		files   []*os.File
		want    string
	}{
		{"no number", []string{"LISTEN_FDS=two"}, nil, `LISTEN_FDS: "two"`},
		{"too many", []string{"LISTEN_FDS=5000"}, nil, `LISTEN_FDS: "5000"`},
		{"names", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=a:b"}, []*os.File{regular}, "2 names for 1 sockets"},
		{"a file", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=x"}, []*os.File{regular}, `socket "x"`},
		{"a path", []string{"LISTEN_FDS=1"}, []*os.File{path}, "no TCP address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := "x"
			if c.name == "a path" {
				name = unnamed
			}
			out, err := service(t, name, c.environ, c.files...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Without systemd, and with variables that are meant for another process, nothing
// happens.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{
		nil,
		{"LISTEN_PID=1", "LISTEN_FDS=1", "WATCHDOG_PID=1", "WATCHDOG_USEC=1000"},
		{"LISTEN_FDS=1", "NOTIFY_SOCKET="},
	} {
		s, err := Attach(environ)
		if err != nil {
			t.Fatalf("%q: %v", environ, err)
		}
		if len(s.Left()) != 0 || s.WatchdogInterval() != 0 {
			t.Errorf("%q: sockets %q, watchdog %s", environ, s.Left(), s.WatchdogInterval())
		}
		if got, err := s.Take("a"); err != nil || len(got) != 0 {
			t.Errorf("%q: took %v, %v", environ, got, err)
		}
		if err := errors.Join(s.Notify(Ready), s.Close()); err != nil {
			t.Errorf("%q: %v", environ, err)
		}
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	abstract := "@millrace-systemd-test-" + strconv.Itoa(os.Getpid())
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), abstract} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		s, err := Attach([]string{
			"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=3000000",
			"WATCHDOG_PID=" + strconv.Itoa(os.Getpid()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.WatchdogInterval(); got != 1500*time.Millisecond {
			t.Errorf("watchdog every %s", got)
		}
		for _, states := range [][]string{{Ready, Status("a\nb")}, {Alive}, {Stopping}} {
			if err := s.Notify(states...); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		buf := make([]byte, 1024)
		for range 3 {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(buf[:n]))
		}
		if want := []string{"READY=1\nSTATUS=a b", "WATCHDOG=1", "STOPPING=1"}; !slices.Equal(got, want) {
			t.Errorf("%s got %q, want %q", name, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ entry, want string }{
		{"NOTIFY_SOCKET=vsock:2:1", "neither a path nor an abstract socket"},
		{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "none"), "NOTIFY_SOCKET: "},
		{"WATCHDOG_USEC=soon", `WATCHDOG_USEC: "soon"`},
		{"WATCHDOG_USEC=0", `WATCHDOG_USEC: "0"`},
		{"WATCHDOG_USEC=9223372036854775807", "WATCHDOG_USEC"},
	} {
		if _, err := Attach([]string{c.entry}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.entry, err)
		}
	}
}
