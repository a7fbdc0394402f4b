package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/job"
	"millrace/internal/testkit"
)

// A lease whose time is up while its answer is being written ends when it has been, and not before.
func TestLeaseWaitsForAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.push(job.Spec{Queue: "q", Body: []byte(strings.Repeat("x", 10000))})
		l := testkit.Listen(16) // so that a write waits for the reader
		srv := &http.Server{Handler: f.handler, ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		c, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		body := `{"queues":["q"],"lease_seconds":1}`
		asked := fmt.Sprintf("POST /api/v1/namespaces/ns/fetch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if _, err := io.WriteString(c, asked); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(t, 3*time.Second)
		counted := func(leased, ready, lapsed uint64) {
			t.Helper()
			synctest.Wait()
			q, err := f.service.Queue("ns", "q")
			if err != nil || q.Counts["running"] != leased || q.Counts["ready"] != ready || q.Totals["lapsed"] != lapsed {
				t.Errorf("%+v, %v", q, err)
			}
		}
		counted(1, 0, 0)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		counted(0, 1, 1)
		_, _ = resp.Body.Close(), c.Close() // they cannot fail
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		f.close()
	})
}
