package migrate

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/test/clients/kit"
)

// TestMemory reads a queue that is far larger than the memory that the command uses for it.
func TestMemory(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	socket := filepath.Join(dir, "r.sock")
	start(
		t,
		"unix",
		socket,
		installed(t, "redis-server"),
		"--port",
		"0",
		"--unixsocket",
		socket,
		"--dir",
		dir,
		"--save",
		"",
		"--loglevel",
		"warning",
	)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	in := bufio.NewReader(c)
	redis := func(words ...string) {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
		if _, err := c.Write([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); err != nil || line[0] != ':' {
			t.Fatalf("%q, %v", line, err)
		}
	}
	const (
		jobs, size = 80_000, 4000 // 320 MB
		most       = 160 << 10    // kB
	)
	redis("SADD", "queues", "large")
	filling := strings.Repeat("x", size)
	for i := 0; i < jobs; {
		push := []string{"LPUSH", "large"}
		for range 500 {
			push = append(
				push,
				fmt.Sprintf(`{"jid":"job-%020d","queue":"large","jobtype":"T","args":[%q]}`, i, filling),
			)
			i++
		}
		redis(push...)
	}
	s := kit.Start(t, []string{"web", kit.Faktory})
	cmd := kit.Command(t, "migrate", "--dry-run", "--api", "http://"+s.Addr("web"), "faktory", "unix://"+socket)
	out, err := cmd.CombinedOutput()
	if err != nil ||
		!strings.Contains(string(out), fmt.Sprintf("%d jobs read from faktory: %d would arrive", jobs, jobs)) {
		t.Fatalf("%v\n%s", err, out)
	}
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); !ok || used.Maxrss > most {
		t.Errorf("it used %d kB of memory, want at most %d", used.Maxrss, most)
	}
}
