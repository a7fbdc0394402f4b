// Package faktory runs the Go and the Node client of Faktory against the binary,
// each with and without a password and TLS. Workers in Go are in package
// faktoryworker, because that library keeps its worker's name in a global
// variable, which makes every connection of the process a worker's.
package faktory

import (
	"os"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"millrace/test/clients/kit"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m)) }

// TestGo runs everything that the Go client offers. The parts of a server share
// its sets and counters, so each starts with an empty server and has it alone.
func TestGo(t *testing.T) {
	t.Parallel()
	parts := []struct {
		name string
		test func(*testing.T, *faktory.Client)
	}{
		{"push and work", testPush},
		{"refusals", testRefusals},
		{"bulk", testBulk},
		{"large payload", testLarge},
		{"queues", testQueues},
		{"fail and retry", testFail},
		{"last failure", testLastFailure},
		{"scheduled", testScheduled},
		{"mutate", testMutate},
		{"info", testInfo},
		{"unique", testUnique},
		{"expiring", testExpiring},
		{"tracking", testTracking},
		{"batch", testBatch},
		{"batch with a failure", testBatchFailure},
		{"nested batch", testNestedBatch},
	}
	for _, kind := range kit.FaktoryKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			s := kind.Start(t)
			cl := open(t, s)
			for _, part := range parts {
				t.Run(part.name, func(t *testing.T) {
					ok(t, cl.Flush())
					part.test(t, cl)
				})
			}
			t.Run("handshake", func(t *testing.T) { testHandshake(t, s) })
		})
	}
}

// TestNode runs the tests of the Node client.
func TestNode(t *testing.T) {
	t.Parallel()
	for _, kind := range kit.FaktoryKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			kit.Node(t, "faktory.js", "faktory-worker", kind.Start(t).Env(t)...)
		})
	}
}

// server describes the server to the client library.
func server(s kit.FaktoryServer) *faktory.Server {
	out := faktory.DefaultServer()
	out.Address = s.Addr(kit.Faktory)
	out.Password = s.Password
	out.Timeout = 5 * time.Second
	if s.Certificate != nil {
		out.Network, out.TLS = "tcp+tls", s.Certificate.ClientTLS()
	}
	return out
}

// open connects for the length of the test.
func open(t *testing.T, s kit.FaktoryServer) *faktory.Client {
	t.Helper()
	cl, err := server(s).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// testHandshake tries what must not get in.
func testHandshake(t *testing.T, s kit.FaktoryServer) {
	srv := server(s)
	srv.Password = "wrong"
	cl, err := srv.Open()
	switch {
	case s.Password == "" && err != nil:
		t.Errorf("a password that nobody asked for: %v", err)
	case s.Password != "":
		refused(t, err, "ERR Invalid password")
	}
	if err == nil {
		ok(t, cl.Close())
	}
	if s.Certificate == nil {
		return
	}
	srv = server(s)
	srv.Network = "tcp"
	if _, err := srv.Open(); err == nil {
		t.Error("a server with TLS let a client without it in")
	}
	srv.Network, srv.TLS = "tcp+tls", faktory.DefaultServer().TLS
	if _, err := srv.Open(); err == nil {
		t.Error("a client took a certificate that it does not trust")
	}
}

// ok fails the test if a call did.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks that the server answered with an error line.
func refused(t *testing.T, err error, line string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), line) {
		t.Errorf("got %v, want %s", err, line)
	}
}

// push pushes a job.
func push(t *testing.T, cl *faktory.Client, job *faktory.Job) *faktory.Job {
	t.Helper()
	ok(t, cl.Push(job))
	return job
}

// fetch takes a job that must be there.
func fetch(t *testing.T, cl *faktory.Client, queues ...string) *faktory.Job {
	t.Helper()
	job, err := cl.Fetch(queues...)
	ok(t, err)
	if job == nil {
		t.Fatalf("nothing to fetch in %q", queues)
	}
	return job
}

// work takes a certain job and acknowledges it.
func work(t *testing.T, cl *faktory.Client, want *faktory.Job) {
	t.Helper()
	job := fetch(t, cl, want.Queue)
	if job.Jid != want.Jid {
		t.Fatalf("fetched %s %s, want %s %s", job.Type, job.Jid, want.Type, want.Jid)
	}
	ok(t, cl.Ack(job.Jid))
}

// state asks for the state of the server.
func state(t *testing.T, cl *faktory.Client) *faktory.FaktoryState {
	t.Helper()
	st, err := cl.CurrentState()
	ok(t, err)
	return st
}

// sets checks the sizes of the sets of the server.
func sets(t *testing.T, cl *faktory.Client, scheduled, retries, dead uint64) {
	t.Helper()
	got := state(t, cl).Data.Sets
	if got["scheduled"] != scheduled || got["retries"] != retries || got["dead"] != dead {
		t.Fatalf("sets: %v, want %d scheduled, %d retries, %d dead", got, scheduled, retries, dead)
	}
}

// instant parses a time that the server wrote.
func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	ok(t, err)
	if !strings.HasSuffix(text, "Z") {
		t.Errorf("%s is not in UTC", text)
	}
	return at
}

// around reports whether an instant is between two distances from now.
func around(at time.Time, from, to time.Duration) bool {
	d := time.Until(at)
	return d >= from && d <= to
}
