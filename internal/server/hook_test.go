package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/job"
)

const testHookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A hook of the file calls its URL when a job dies. It goes with the file, and a wrong one is told with its line.
func TestHookOfFile(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		called <- r.Header.Get("webhook-id") + " " + string(body)
	}))
	defer receiver.Close()
	f := newFollowed(t, "masenko.addr")
	f.flags["hooks.secret"], f.flags["hooks.allow"] = testHookSecret, "127.0.0.1"
	f.write("[[hook]]\nqueue = \"q\"\nurl = \""+receiver.URL+"\"\n[[hook]]\nqueue = \"p\"\npush = \"graves\"\n", "")
	first, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, first, Options{Reloads: f.reloads, Reload: f.load})
	die := func(queue string) {
		t.Helper()
		do := func(cmd job.Command) job.Result {
			res := r.server.engine.NewCaller().Do(t.Context(), cmd)[0]
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			return res
		}
		id := do(&job.Push{Spec: job.Spec{Namespace: "default", Queue: queue}}).ID
		do(&job.Kill{Ref: job.ByID("default", queue, id)})
	}
	die("q")
	if got := <-called; !strings.HasPrefix(got, "1.2 {\"event\":\"died\"") {
		t.Errorf("called with %s", got)
	}
	die("p")
	graves := func() uint64 {
		q, _, err := r.server.engine.Queue("default", "graves")
		if err != nil {
			t.Fatal(err)
		}
		return q.Counts[job.Ready]
	}
	if n := graves(); n != 1 {
		t.Errorf("%d jobs were pushed", n)
	}
	reload := func(own, says string) {
		t.Helper()
		f.write(own, "")
		f.reloads <- syscall.SIGHUP
		until(t, says, func() bool { return strings.Contains(r.log.String(), says) })
	}
	reload("\n[[hook]]\nqueue = \"p\"\n", "own.toml:2: hook: push and url: name one of them")
	die("p")
	if n := graves(); n != 2 {
		t.Errorf("%d jobs were pushed", n)
	}
	reload("", "configuration reloaded")
	die("p")
	if n := graves(); n != 2 {
		t.Errorf("%d jobs were pushed", n)
	}
}
