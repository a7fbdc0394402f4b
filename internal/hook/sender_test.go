package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

var testSecret = []byte("twenty-four bytes or more")

// verify checks a signature as a receiver does, by the text of the specification.
func verify(secret []byte, h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+string(body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Fields(h.Get("webhook-signature")), want)
}

// received is a call as its receiver has it.
type received struct {
	id, event string
	signed    bool
	dead      job.ID
}

// receiver answers calls with what answer says.
func receiver(t *testing.T, answer func(n int32) int) (url string, calls chan received) {
	t.Helper()
	calls = make(chan received, 100)
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got struct {
			Event string `json:"event"`
			ID    job.ID `json:"id"`
		}
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		calls <- received{r.Header.Get("webhook-id"), got.Event, verify(testSecret, r.Header, body), got.ID}
		if code := answer(n.Add(1)); code == http.StatusFound {
			http.Redirect(w, r, "/elsewhere", code)
		} else {
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/dead", calls
}

type fixture struct {
	t      *testing.T
	engine *engine.Engine
	sender *Sender
	log    *testkit.Buffer
}

func newFixture(t *testing.T, allow ...netip.Prefix) *fixture {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	log := new(testkit.Buffer)
	return &fixture{t, e, New(Options{
		Engine: e, Secrets: [][]byte{[]byte("another one, that is newer"), testSecret}, Allow: allow, Version: "1",
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}), log}
}

func (f *fixture) do(cmd job.Command) job.Result {
	f.t.Helper()
	r := f.engine.NewCaller().Do(f.t.Context(), cmd)[0]
	if r.Err != nil {
		f.t.Fatal(r.Err)
	}
	return r
}

// die has a job die in a queue whose hook calls a URL, and returns its id.
func (f *fixture) die(url string) job.ID {
	f.t.Helper()
	call := Call(url, 1)
	call.Policy.Backoff = job.Backoff{Unit: time.Millisecond, Power: 1}
	call.Policy.MaxFails = 3
	f.do(&job.SetHooks{Hooks: []job.Hook{{Namespace: "n", Queue: "q", Job: call}}})
	id := f.do(&job.Push{Spec: job.Spec{Namespace: "n", Queue: "q"}}).ID
	f.do(&job.Kill{Ref: job.ByID("n", "q", id)})
	return id
}

// left waits until no call is left to be made, and n are dead.
func (f *fixture) left(dead uint64) {
	f.t.Helper()
	for {
		q, _, err := f.engine.Queue(Namespace, Queue)
		if err != nil {
			f.t.Fatal(err)
		}
		if q.Total() == dead && q.Counts[job.Dead] == dead {
			return
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatalf("left are %v", q.Counts)
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *fixture) run() {
	ended := make(chan struct{})
	ctx := f.t.Context()
	go func() {
		defer close(ended)
		f.sender.Run(ctx)
	}()
	f.t.Cleanup(func() { <-ended })
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// A call is repeated until it succeeds, with the same id, which no other death has. The log tells of the first failure
// after a success.
func TestCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t, loopback)
	url, calls := receiver(t, func(n int32) int { return []int{500, 302, 204, 503, 200}[n-1] })
	f.run()
	dead := f.die(url)
	first := <-calls
	if want := (received{first.id, "died", true, dead}); first != want || first.id == "" {
		t.Errorf("called with %+v", first)
	}
	for range 2 {
		if again := <-calls; again != first {
			t.Errorf("called again with %+v, not %+v", again, first)
		}
	}
	f.left(0)
	if other := f.die(url); other == dead {
		t.Error("another job has the same id")
	}
	if next := <-calls; next.id == first.id || !next.signed {
		t.Errorf("the next death is called with %+v", next)
	}
	f.left(0)
	if sent, failed := f.sender.Sent(); sent != 2 || failed != 3 {
		t.Errorf("%d sent, %d failed", sent, failed)
	}
	if n := strings.Count(f.log.String(), "a call failed"); n != 2 {
		t.Errorf("%d failures were told:\n%s", n, f.log)
	}
}

// A call that the end of the server cuts off has not failed: the next server makes it.
func TestCutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, loopback)
	never := make(chan struct{})
	url, calls := receiver(t, func(int32) int {
		<-never
		return 200
	})
	t.Cleanup(func() { close(never) })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.sender.Run(ctx)
	}()
	f.die(url)
	<-calls
	stop()
	<-ended
	page, err := f.engine.List(engine.ListOptions{Namespace: Namespace, Queue: Queue, State: job.Ready, Limit: 10})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Fails != 0 {
		t.Errorf("%+v, %v", page.Jobs, err)
	}
	if sent, failed := f.sender.Sent(); sent != 0 || failed != 0 {
		t.Errorf("%d sent, %d failed", sent, failed)
	}
}

// A call that fails too often is dead, and a private address is never called, whatever name leads there.
func TestCallsFail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url, calls := receiver(t, func(int32) int { return 200 })
	f.run()
	f.die(url)
	f.left(1)
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/dead"))
	if err != nil {
		t.Fatal(err)
	}
	f.die("http://localhost:" + port + "/dead")
	f.left(2)
	if len(calls) > 0 {
		t.Error("a private address was called")
	}
	page, err := f.engine.List(engine.ListOptions{
		Namespace: Namespace, Queue: Queue, State: job.Dead,
		Limit: 10, Bodies: true,
	})
	if err != nil || len(page.Jobs) != 2 {
		t.Fatalf("%d dead: %v", len(page.Jobs), err)
	}
	for i := range page.Jobs {
		if text := page.Jobs[i].Failures[0].Message; !strings.Contains(text, "hooks.allow") {
			t.Errorf("a job tells %q", text)
		}
	}
}

// Who pushes jobs to the queue of calls has no call made.
func TestForged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, loopback)
	url, calls := receiver(t, func(int32) int { return 200 })
	f.do(&job.Push{Spec: Call(url, 1)})
	f.run()
	f.left(0)
	if len(calls) > 0 {
		t.Error("it was called")
	}
}
