package system

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// activated returns how to start the server as systemd would: with open sockets under
// these names. The shell knows the process id, which exec keeps.
func activated(dir string, names string, files []*os.File, env ...string) harness.Options {
	o := options(dir)
	o.Args = append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, o.Bin}, o.Args...)
	o.Bin, o.Files = "/bin/sh", files
	count := string(rune('0' + len(files)))
	o.Env = slices.Concat(o.Env, []string{"LISTEN_FDS=" + count, "LISTEN_FDNAMES=" + names}, env)
	return o
}

// socket opens a listening socket for handing over, and keeps it open as systemd does.
func socket(t *testing.T, addr string) (string, *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close() // the file keeps it open
	t.Cleanup(func() { _ = file.Close() })
	return at, file
}

// notified reads the states that the server sends until one of them is there.
func notified(t *testing.T, conn *net.UnixConn, state string) []string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	var all []string
	buf := make([]byte, 4096)
	for !slices.Contains(all, state) {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("no %s among %q: %v", state, all, err)
		}
		all = append(all, strings.Split(string(buf[:n]), "\n")...)
	}
	return all
}

// TestSystemd starts, stops and restarts the server as a unit with sockets of its own:
// systemd is told, and whoever connects between the two finds nobody missing.
func TestSystemd(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	workqAddr, workq := socket(t, "127.0.0.1:0")
	masenkoAddr, masenko := socket(t, "127.0.0.1:0")
	dir := suite.DataDir(t)
	o := activated(dir, "workq.addr:masenko.addr", []*os.File{workq, masenko}, "NOTIFY_SOCKET="+name,
		"WATCHDOG_USEC=200000")
	o.Also = []string{"workq"}

	s := suite.Start(t, o)
	if s.Addr != masenkoAddr || s.Addrs["workq"] != workqAddr {
		t.Errorf("serves %v, want %s and %s", s.Addrs, masenkoAddr, workqAddr)
	}
	states := notified(t, conn, "READY=1")
	if !slices.Contains(states, "STATUS=opening "+dir) {
		t.Errorf("no status while opening: %q", states)
	}
	notified(t, conn, "WATCHDOG=1")
	if _, err := dial(t, masenkoAddr).Push("q", "kept"); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	notified(t, conn, "STOPPING=1")

	between := dial(t, masenkoAddr)
	between.QueueFetch("q", time.Second)
	if err := between.Send(time.Second); err != nil {
		t.Fatal(err)
	}
	again := suite.Start(t, o)
	if j, ok, err := between.ReplyJob(); err != nil || !ok || j.Payload != "kept" {
		t.Errorf("the client that came between the two got %+v, %v, %v", j, ok, err)
	}
	stop(t, again)
}

// TestSystemdRefusals checks that no socket is left without a server behind it, and
// that one from systemd must be as safe as one from the configuration.
func TestSystemdRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, addr, key string
		count           int
		want            []string
	}{
		{
			"unknown name", "127.0.0.1:0", "mascara.addr", 1,
			[]string{`socket named "mascara.addr"`, "FileDescriptorName=", "masenko.addr"},
		},
		{"too many", "127.0.0.1:0", "masenko.addr", 2, []string{"2 sockets of that name, but the key has 1 addresses"}},
		{
			"open to everybody", "0.0.0.0:0", "masenko.addr", 1,
			[]string{"ListenStream=", "without authentication", "listen.insecure"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var files []*os.File
			var names []string
			for range c.count {
				_, file := socket(t, c.addr)
				files, names = append(files, file), append(names, c.key)
			}
			exit := refused(t, activated(suite.DataDir(t), strings.Join(names, ":"), files))
			if exit.Code != 1 {
				t.Errorf("exit status %d, want 1", exit.Code)
			}
			for _, want := range c.want {
				if !strings.Contains(exit.Stderr, want) {
					t.Errorf("the message does not say %q:\n%s", want, exit.Stderr)
				}
			}
		})
	}
}
