// Package migrate moves from the original servers: each is started, filled by a real client, migrated by the command
// while that is killed again and again, and worked off here by the same client.
package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"

	"millrace/test/clients/kit"
)

// programs is where the original servers are built to.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "millrace-originals-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := kit.Main(m)
	_ = os.RemoveAll(programs) // nothing to be done about it
	os.Exit(code)
}

// patience is how long anything may take that nothing announces.
const patience = time.Minute

// built are the servers that have been built, one at a time.
var built sync.Mutex

// build builds an original server in the version that test/peers names.
func build(t *testing.T, name, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	path := filepath.Join(programs, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg)
	cmd.Dir = filepath.Join("..", "..", "peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// installed finds a server that Debian brings.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run test/clients/install.sh", err)
	}
	return path
}

// start starts a server for the length of the test, and returns once it listens at the address. Stop stops it earlier.
func start(t *testing.T, network, addr, path string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it starts itself
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log tells why
		close(ended)
	}()
	stop = sync.OnceFunc(func() {
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(patience):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), out.String())
		}
	})
	t.Cleanup(stop)
	await(t, path+" listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), network, addr)
		if err != nil {
			select {
			case <-ended:
				t.Fatalf("%s has ended:\n%s", path, out.String())
			default:
			}
			return false
		}
		return c.Close() == nil
	})
	return stop
}

// await waits for something that nothing announces.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !there() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// freeAddr is an address at which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := harness.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// tempDir is a directory with a short path, as sockets need it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mr-") //nolint:usetesting // that of the test has too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // nothing to be done about it
	return dir
}

// report is what the command tells of a migration.
type report struct {
	Left   uint64 `json:"source_jobs"`
	Queues []struct {
		Queue, State                           string
		Read, Arrived, Repeated, Refused, Here uint64
	}
	Problems []struct{ ID, Queue, State, Problem string }
}

// sum adds up the figures of all jobs.
func (r *report) sum() (read, arrived, repeated, refused uint64) {
	for _, q := range r.Queues {
		if q.State != "paused" && q.State != "queue" {
			read, arrived, repeated, refused = read+q.Read, arrived+q.Arrived, repeated+q.Repeated, refused+q.Refused
		}
	}
	return read, arrived, repeated, refused
}

// migrate runs the command to its end.
func migrate(t *testing.T, s *kit.Server, args ...string) report {
	t.Helper()
	cmd := kit.Command(t, append([]string{"migrate", "--json", "--api", "http://" + s.Addr("web")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var r report
	if jerr := json.Unmarshal(out, &r); jerr != nil {
		t.Fatalf("migrate: %v, %v\n%s%s", err, jerr, out, stderr.String())
	}
	if err != nil && len(r.Problems) == 0 {
		t.Fatalf("migrate: %v\n%s", err, stderr.String())
	}
	return r
}

// interrupt runs the command some times and kills it at some moment each time.
func interrupt(t *testing.T, s *kit.Server, args ...string) {
	t.Helper()
	for range 4 {
		cmd := kit.Command(t, append([]string{"migrate", "--api", "http://" + s.Addr("web")}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // however it ends
		kill.Stop()
	}
}

// everything checks that a run, after others, leaves nothing out and brings nothing twice.
func everything(t *testing.T, s *kit.Server, jobs uint64, args ...string) report {
	t.Helper()
	dry := migrate(t, s, append([]string{"--dry-run"}, args...)...)
	if read, _, _, _ := dry.sum(); read != jobs || dry.Left != jobs {
		t.Fatalf("the dry run: %+v, want %d jobs", dry, jobs)
	}
	interrupt(t, s, args...)
	first := migrate(t, s, args...)
	read, arrived, repeated, refused := first.sum()
	if read != jobs || arrived+repeated+refused != jobs || first.Left != jobs {
		t.Fatalf("%+v, want %d jobs", first, jobs)
	}
	for _, q := range first.Queues {
		if q.Here < q.Arrived+q.Repeated {
			t.Errorf("%+v: some are missing", q)
		}
	}
	nothing(t, s, jobs, args...)
	return first
}

// nothing checks that a run brings nothing that has arrived before.
func nothing(t *testing.T, s *kit.Server, jobs uint64, args ...string) {
	t.Helper()
	r := migrate(t, s, args...)
	if read, arrived, _, _ := r.sum(); read != jobs || arrived != 0 {
		t.Errorf("once more: %+v, want none of %d jobs", r, jobs)
	}
}

// hostPort splits an address.
func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
