package apiclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/dialect/rest"
	"millrace/internal/engine"
	"millrace/internal/httpapi"
	"millrace/internal/job"
	"millrace/internal/operator"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// serve serves the operator API on a real engine, below a path as a proxy may.
func serve(t *testing.T, login auth.LoginOptions) (*httptest.Server, *engine.Engine) {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	service, err := operator.New(operator.Options{
		Engine: e, Version: "1.2.3", SampleEvery: time.Hour,
		BackupDir: os.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := httpapi.NewHandler(service, httpapi.HandlerOptions{
		Login:   auth.NewLogin(login),
		Mounted: rest.New(rest.Options{Engine: e}).Handlers(),
	})
	srv := httptest.NewServer(http.StripPrefix("/below", h))
	t.Cleanup(func() {
		srv.Close()
		service.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv, e
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// must returns a value that came without an error.
func must[T any](t *testing.T) func(value T, err error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Every call, with names that must be escaped.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, name := range []struct{ namespace, queue string }{
		{"a/b", "q?#%/é"},
		{".", ".."},
		{"..", "."},
		{"~.", "~~.."},
		{"~~..", "~."},
		{"~", "~a"},
		{"...", ". "},
		{"%2e", "%2E%2e"},
		{" ", "\t"},
		{"a/../b", "./."},
		{"//", "/"},
		{"ns", "\u202e\x00\n"},
	} {
		t.Run(name.namespace+" "+name.queue, func(t *testing.T) {
			t.Parallel()
			testCalls(t, name.namespace, name.queue)
		})
	}
}

func testCalls(t *testing.T, ns, queue string) {
	t.Helper()
	srv, _ := serve(t, auth.LoginOptions{})
	c := newClient(t, Options{URL: srv.URL + "/below/"})
	ctx := t.Context()
	if info := must[api.ServerInfo](t)(c.Server(ctx)); info.Version != "1.2.3" {
		t.Errorf("%+v", info)
	}
	pushed := must[api.PushResult](t)(c.Push(ctx, ns, queue, []*api.NewJob{
		{Payload: api.Payload{Body: []byte(`{"a":1}`)}}, {Key: "k"}, {TTL: 3600, Keep: true},
	}))
	if pushed.Pushed != 3 {
		t.Fatalf("%+v", pushed)
	}
	id := pushed.Jobs[0].ID
	if got := must[api.QueuePage](t)(c.Queues(ctx, api.QueueFilter{Namespace: ns, Name: queue},
		api.PageOf{Limit: 1})); len(got.Queues) != 1 {
		t.Errorf("%+v", got)
	}
	if q := must[api.Queue](t)(c.Queue(ctx, ns, queue)); q.Jobs != 3 {
		t.Errorf("%+v", q)
	}
	limits := api.Limits{Concurrency: 50, Rate: "1000/s", Burst: 1000}
	if q := must[api.Queue](t)(c.SetLimits(ctx, ns, queue, limits)); q.Limits == nil || q.Limits.Limits != limits {
		t.Errorf("%+v", q)
	}
	if l := must[api.Limits](t)(c.Limits(ctx, ns, queue)); l != limits {
		t.Errorf("%+v", l)
	}
	fair := api.Fairness{On: true, Weights: map[string]uint32{"gold": 5}}
	if q := must[api.Queue](t)(c.SetFairness(ctx, ns, queue, fair)); q.Fairness == nil ||
		q.Fairness.Weights["gold"] != 5 {
		t.Errorf("the queue is not fair: %+v", q.Fairness)
	}
	if f := must[api.Fairness](t)(c.Fairness(ctx, ns, queue)); !f.On || len(f.Weights) != 1 {
		t.Errorf("fairness is %+v", f)
	}
	if q := must[api.Queue](t)(c.SetLimits(ctx, ns, queue, api.Limits{})); q.Limits != nil {
		t.Errorf("%+v", q)
	}
	if q := must[api.Queue](t)(c.Pause(ctx, ns, queue, time.Minute)); !q.Paused || q.PausedUntil == nil {
		t.Errorf("%+v", q)
	}
	if q := must[api.Queue](t)(c.Resume(ctx, ns, queue)); q.Paused {
		t.Errorf("%+v", q)
	}
	if got := must[api.JobPage](t)(c.Jobs(ctx, api.Filter{Queue: queue, Ref: "k"}, api.PageOf{})); len(got.Jobs) != 1 {
		t.Errorf("%+v", got)
	}
	if d := must[api.JobDetail](t)(c.Job(ctx, ns, queue, id)); string(d.Body.JSON) != `{"a":1}` {
		t.Errorf("%+v", d)
	}
	body := must[io.ReadCloser](t)(c.Body(ctx, ns, "", id))
	if text, err := io.ReadAll(body); err != nil || string(text) != `{"a":1}` || body.Close() != nil {
		t.Errorf("%q, %v", text, err)
	}
	target := []api.Target{{Namespace: ns, Queue: queue, ID: id}}
	if out := must[[]api.Outcome](t)(c.ActAll(ctx, api.ActionBury, target, api.With{})); len(out) != 1 || !out[0].Done {
		t.Errorf("%+v", out)
	}
	b := must[api.Bulk](t)(c.StartBulk(ctx, api.ActionKick, api.Filter{Queue: queue}, api.With{}))
	for b.State == api.BulkWaiting || b.State == api.BulkRunning {
		b = must[api.Bulk](t)(c.Bulk(ctx, b.ID))
	}
	if b = must[api.Bulk](t)(c.CancelBulk(ctx, b.ID)); b.State != api.BulkDone || b.Done != 1 {
		t.Errorf("%+v", b)
	}
	must[api.Sample](t)(c.Live(ctx))

	w := must[api.Work](t)(c.Fetch(ctx, api.FetchOptions{
		Namespace: ns, Queues: []string{queue}, Max: 3,
		Wait: time.Second, Lease: time.Minute,
	}))
	if len(w.Jobs) != 3 {
		t.Fatalf("%d jobs", len(w.Jobs))
	}
	held := func(i int) api.Held {
		return api.Held{Namespace: ns, Queue: queue, ID: w.Jobs[i].ID, Holder: w.Holder}
	}
	if s := must[api.Settled](t)(c.Extend(ctx, held(0), time.Hour)); s.Until == nil ||
		time.Until(*s.Until) < 50*time.Minute {
		t.Errorf("%+v", s)
	}
	if s := must[api.Settled](t)(c.Release(ctx, held(0), time.Hour)); s.State != "scheduled" {
		t.Errorf("%+v", s)
	}
	if s := must[api.Settled](t)(c.Fail(ctx, held(1),
		api.Failed{Type: "T", Message: "m", Backtrace: []string{"b"}})); s.State != "retrying" {
		t.Errorf("%+v", s)
	}
	for i := range w.Jobs {
		if w.Jobs[i].ID == pushed.Jobs[2].ID {
			if s := must[api.Settled](t)(c.Ack(ctx, held(i), []byte("done"))); s.State != "done" {
				t.Errorf("%+v", s)
			}
		}
	}
	stream := must[io.ReadCloser](t)(c.Export(ctx, api.Filter{Namespace: ns}, ""))
	lines, err := io.ReadAll(stream)
	if err != nil || strings.Count(string(lines), "\n") != 5 || stream.Close() != nil {
		t.Errorf("%v in\n%s", err, lines)
	}
	if r := must[api.ImportResult](t)(c.Import(ctx, api.ImportOptions{Token: "t", Line: 1, Duplicates: true},
		lines)); r.Imported != 3 {
		t.Errorf("%+v", r)
	}
	if m := must[api.ImportMark](t)(c.ImportMark(ctx, "t")); m.Line != 5 {
		t.Errorf("%+v", m)
	}
	dir := t.TempDir() + "/copy"
	if got := must[api.Backup](t)(c.Backup(ctx, dir)); got.Dir != dir {
		t.Errorf("%+v", got)
	}
	if n := must[api.Count](t)(c.Purge(ctx, ns, queue, "scheduled")); n.Jobs == 0 {
		t.Errorf("%+v", n)
	}
	must[api.Count](t)(c.RemoveQueue(ctx, ns, queue, api.RemoveOptions{Keep: true}))
	must[api.Count](t)(c.RemoveQueue(ctx, ns, queue, api.RemoveOptions{IfIdle: true}))
	_, err = c.Queue(ctx, ns, queue)
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Status != 404 || !strings.Contains(p.Detail, "no queue") {
		t.Errorf("%v", err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, auth.LoginOptions{Password: "op", ReadToken: "look"})
	for _, c := range []struct {
		o      Options
		status int
	}{{Options{}, 401}, {Options{Password: "op"}, 0}, {Options{Token: "look"}, 0}, {
		Options{Token: "op"},
		401,
	}, {Options{Token: "look", Password: "op"}, 0}} {
		c.o.URL = srv.URL + "/below"
		_, err := newClient(t, c.o).Server(t.Context())
		p, refused := errors.AsType[*api.Problem](err)
		if c.status == 0 && err != nil || c.status != 0 && (!refused || p.Status != c.status) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "localhost:1", "ftp://x", "http://", "http://%"} {
		if _, err := New(Options{URL: text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if c := newClient(t, Options{URL: "http://user@x:1/a/?q#f"}); c.URL() != "http://x:1/a" {
		t.Errorf("%s", c.URL())
	}
}

// What is no answer of ours is told as such.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page/api/v1/server":
			_, _ = io.WriteString(w, "<html>")
		case "/moved/api/v1/server":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/cut/api/v1/server":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		case "/cutproblem/api/v1/server":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(stranger.Close)
	for path, want := range map[string]string{
		"": "404 Not Found, which is no answer of a Millrace server", "/page": "cannot be read", "/moved": "302 Found",
		"/cut": "cannot be read", "/cutproblem": "unexpected EOF",
	} {
		_, err := newClient(t, Options{URL: stranger.URL + path}).Server(t.Context())
		if u, ok := errors.AsType[*Unreachable](err); !ok || !strings.Contains(u.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	gone := stranger.URL
	stranger.Close()
	_, err := newClient(t, Options{URL: gone}).Server(t.Context())
	if u, ok := errors.AsType[*Unreachable](err); !ok || u.Unwrap() == nil || strings.Count(u.Error(), gone) != 1 {
		t.Errorf("%v", err)
	}
}

// waiting waits until n callers wait, which nothing announces.
func waiting(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for e.Stats().Waiters != n {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d callers wait, not %d", e.Stats().Waiters, n)
		}
	}
}

// A wait that is given up is no fault of the server, and a job that was on its way goes back.
func TestCanceled(t *testing.T) {
	t.Parallel()
	srv, e := serve(t, auth.LoginOptions{})
	c := newClient(t, Options{URL: srv.URL + "/below"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Fetch(ctx, api.FetchOptions{Namespace: "ns", Queues: []string{"q"}, Wait: time.Minute})
		done <- err
	}()
	waiting(t, e, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	waiting(t, e, 0)
	r := e.NewCaller().Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q"}})[0]
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if j, err := e.Get(job.ByID("ns", "q", r.ID)); err != nil || j.State != job.Ready {
		t.Errorf("%s, %v", j.State, err)
	}
}
