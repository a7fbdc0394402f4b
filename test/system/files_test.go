package system

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
)

// everyListener are the listeners that are on by default, besides that of Masenko.
var everyListener = append(wire.Listeners()[1:], "admin")

// limitFiles returns how to start a server that may have only so many files open.
func limitFiles(o harness.Options, soft, hard int) harness.Options {
	o.Args = append([]string{"-c", fmt.Sprintf(`ulimit -Sn %d && ulimit -Hn %d && exec "$0" "$@"`, soft, hard), o.Bin},
		o.Args...)
	o.Bin = "/bin/sh"
	o.Env = append(o.Env, "MILLRACE_WORKQ_ADDR=127.0.0.1:0")
	o.Also = everyListener
	return o
}

// TestSilentConnections takes all descriptors that the server has for connections while jobs are pushed and the store
// makes files: it refuses connections and nothing else.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	const hard, pushes = 256, 300
	dir := suite.DataDir(t)
	s := suite.Start(t, limitFiles(options(dir, "--store-memtable", "1MiB"), 64, hard))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(limits, fmt.Appendf(nil, "Max open files            %d ", hard-1)) {
		t.Errorf("the soft limit is not raised:\n%s", limits)
	}
	await(t, s, 0, `"msg":"open files","limit":255`)

	pusher := dial(t, s.Addr)
	if reply, err := pusher.Do("PING"); err != nil || reply != "PONG {}" { // now it has its seat
		t.Fatalf("%q, %v", reply, err)
	}
	silent := flood(t, s, 2*hard)
	payload := strings.Repeat("x", 32<<10)
	for i := range pushes {
		if _, err := pusher.Push("q", fmt.Sprint(payload, i)); err != nil {
			t.Fatalf("push %d: %v\n%s", i, err, s.Stderr())
		}
	}
	if open := openFiles(t, s.Pid()); open >= hard {
		t.Errorf("%d of %d files are open", open, hard)
	}
	for _, c := range silent {
		_ = c.Close() // the server may have closed it first
	}
	// A new client gets in when the server has noticed.
	for deadline := time.Now().Add(harness.Patience); ; {
		c, err := harness.Dial(s.Addr)
		if err == nil {
			reply, doErr := c.Do("PING")
			_ = c.Close() // it has been refused, or was of use
			if err = doErr; err == nil && reply == "PONG {}" {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no new connection after the others have gone: %v", err)
		}
	}
	stop(t, s)
	tables, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files in the data directory", len(tables))
}

// flood opens connections on all listeners that say nothing.
func flood(t *testing.T, s *harness.Server, count int) []net.Conn {
	t.Helper()
	var silent []net.Conn
	t.Cleanup(func() {
		for _, c := range silent {
			_ = c.Close() // most are closed already
		}
	})
	for len(silent) < count {
		for _, addr := range s.Addrs {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, c)
		}
	}
	return silent
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestFewFiles starts a server that may have too few files open to be of use.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	exit := refused(t, limitFiles(options(suite.DataDir(t)), 100, 100))
	if exit.Code != 1 || !strings.Contains(exit.Stderr, "LimitNOFILE") {
		t.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
	}
}
