package harness

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListenerAddr(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line, want string
	}{
		{"masenko 127.0.0.1:12345", "127.0.0.1:12345"},
		{"masenko: listening on 127.0.0.1:40001 (namespace default)", "127.0.0.1:40001"},
		{"  masenko   tcp://[::1]:40001", "[::1]:40001"},
		{"faktory 127.0.0.1:7419", ""},
		{"masenko off", ""},
		{"data: /tmp/masenko:1", ""},
	}
	for _, tt := range tests {
		if got, ok := listenerAddr(tt.line, "masenko"); got != tt.want || ok != (tt.want != "") {
			t.Errorf("listenerAddr(%q) = %q, %v, want %q", tt.line, got, ok, tt.want)
		}
	}
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	const example = "[a]\n\n# Where.\n# MILLRACE_A_ADDR, --a-addr\n# addr = \"127.0.0.1:12345\"\n\n" +
		"# MILLRACE_A_METRICS_ADDR, --a-metrics-addr\n# metrics_addr = \"off\"\n\n# MILLRACE_B_ADDR, --b-addr\n# " +
		"addr = \"127.0.0.1:7\"\n"
	env, err := freePorts(example)
	if want := "MILLRACE_A_ADDR=127.0.0.1:0 MILLRACE_B_ADDR=127.0.0.1:0"; err != nil || strings.Join(env, " ") != want {
		t.Errorf("freePorts: %q, %v, want %q", env, err, want)
	}
	if _, err := freePorts("# nothing\n"); err == nil {
		t.Error("no listener is no error")
	}
}

// TestProc reads what the kernel says about this very process.
func TestProc(t *testing.T) {
	t.Parallel()
	m, err := ReadMemory(os.Getpid())
	if err != nil || m.Resident < 1<<20 || m.Peak < m.Resident {
		t.Errorf("memory: %+v, %v", m, err)
	}
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		now, err := CPUTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now > before {
			break // the loop itself has used some
		}
		if time.Now().After(deadline) {
			t.Fatal("ten seconds of work have used no processor time")
		}
	}
	if _, err := ReadMemory(1 << 30); err == nil {
		t.Error("a process that cannot exist has memory")
	}
}

func TestDirSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 100, "sub/b": 23} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := DirSize(dir); err != nil || size != 123 {
		t.Errorf("DirSize: %d, %v, want 123", size, err)
	}
}

// TestClient reads replies as the server writes them, with one in the middle that
// is longer than the buffer.
func TestClient(t *testing.T) {
	t.Parallel()
	mine, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() }) // an end of a pipe closes without error
	c := &Client{conn: mine, in: bufio.NewReaderSize(mine, 64)}
	go func() {
		_, _ = theirs.Write([]byte("OK {\"id\":7}\nEMPTY {}\n" +
			"OK {\"id\":12,\"queue\":\"q\",\"name\":\"t\",\"payload\":\"" + strings.Repeat("y", 200) +
			"\",\"failures\":3}\n" +
			"ERR {\"msg\":\"no\"}\n"))
	}()
	if id, err := c.ReplyID(); err != nil || id != 7 {
		t.Errorf("ReplyID: %d, %v", id, err)
	}
	if j, ok, err := c.ReplyJob(); err != nil || ok {
		t.Errorf("empty: %+v, %v, %v", j, ok, err)
	}
	j, ok, err := c.ReplyJob()
	if want := (Job{ID: 12, Payload: strings.Repeat("y", 200), Failures: 3}); err != nil || !ok || j != want {
		t.Errorf("job: %+v, %v, %v, want %+v", j, ok, err, want)
	}
	if _, err := c.Reply(); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("refusal: %v", err)
	}
}
