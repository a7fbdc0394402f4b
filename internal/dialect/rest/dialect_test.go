package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/httpapi"
	"millrace/internal/job"
	"millrace/internal/operator"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fixture is the protocol in the API of a real engine.
type fixture struct {
	t       testing.TB
	engine  *engine.Engine
	service *operator.Service
	handler http.Handler
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		tb.Fatal(err)
	}
	d := New(Options{Engine: e})
	f := &fixture{t: tb, engine: e}
	f.service, err = operator.New(operator.Options{
		Engine: e, DoorName: dialect.DoorName, SampleEvery: time.Hour,
		AddNames: d.AddNames,
	})
	if err != nil {
		tb.Fatal(err)
	}
	f.handler = httpapi.NewHandler(f.service, httpapi.HandlerOptions{Mounted: d.Handlers()})
	tb.Cleanup(f.close)
	return f
}

// close stops everything. Closing twice is harmless.
func (f *fixture) close() {
	f.service.Close()
	if err := f.engine.Close(); err != nil {
		f.t.Error(err)
	}
}

// do runs a command, which must succeed.
func (f *fixture) do(cmd job.Command) job.Result {
	f.t.Helper()
	r := f.engine.NewCaller().Do(f.t.Context(), cmd)[0]
	if r.Err != nil {
		f.t.Fatalf("%T: %v", cmd, r.Err)
	}
	return r
}

func (f *fixture) push(queue string, s job.Spec) job.ID {
	f.t.Helper()
	s.Namespace, s.Queue = "ns", queue
	if s.Body != nil {
		s.BodyKind = job.BodyBytes
	}
	return f.do(&job.Push{Spec: s}).ID
}

func (f *fixture) get(queue string, id job.ID) job.Job {
	f.t.Helper()
	j, err := f.engine.Get(job.ByID("ns", queue, id))
	if err != nil {
		f.t.Fatal(err)
	}
	return j
}

func (f *fixture) request(path, body string) *http.Request {
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, "/api/v1/namespaces/ns"+path,
		strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// want sends a request that must be answered with a code, and returns the answer.
func want[T any](f *fixture, code int, path, body string) (value T) {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, f.request(path, body))
	if w.Code != code {
		f.t.Fatalf("%s %.80s: %d %s, want %d", path, body, w.Code, w.Body, code)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		f.t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	return value
}

func TestPush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	out := want[api.PushResult](f, 200, "/queues/mails/jobs", `{"jobs":[
		{"type":"Mail","body":{"to":"ann"},"priority":5,"retry":3,"lease_seconds":90,"group":"g"},
		{"body_text":"hello","delay_seconds":60},
		{"body_base64":"AAE=","key":"once","unique":true},
		{"body":[1,2],"body_kind":"args","key":"once","unique":true},
		{"ttl_seconds":3600,"keep":true},
		{"run_at":"2999-01-01T00:00:00Z"}]}`)
	if out.Pushed != 5 || out.Existed != 1 || out.Refused != 0 || len(out.Jobs) != 6 {
		t.Fatalf("%+v", out)
	}
	if dup := out.Jobs[3]; !dup.Exists || dup.ID != out.Jobs[2].ID || dup.State != "ready" {
		t.Errorf("the second with a key: %+v", dup)
	}
	states := ""
	for _, j := range out.Jobs {
		states += " " + j.State
	}
	if states != " ready scheduled ready ready ready scheduled" {
		t.Errorf("states:%s", states)
	}
	first := f.get("mails", out.Jobs[0].ID)
	p := first.Policy
	if first.Type != "Mail" || string(first.Body) != `{"to":"ann"}` || first.BodyKind != job.BodyJSON ||
		first.Origin != dialect.DoorAdmin ||
		first.Group != "g" || p.Priority != 5 || p.MaxFails != 4 || p.Lease != 90*time.Second ||
		p.Exhaust != job.ExhaustDead {
		t.Errorf("%+v", first)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("x", api.NameMax+1)
	for _, c := range []struct{ body, want string }{
		{``, "push 1 to 1000"},
		{`{"jobs":[]}`, "push 1 to 1000"},
		{`{"jobs":[` + strings.Repeat(`{},`, pushMax) + `{}]}`, "push 1 to 1000"},
		{`{"jobs":[null]}`, "the job is null: send an object"},
		{`{"jobs":[{},null]}`, "number 2: the job is null"},
		{`{"jobs":[{"colour":"red"}]}`, "colour"},
		{`{"jobs":[{},{"type":"` + long + `"}]}`, "number 2: type is longer"},
		{`{"jobs":[{"key":"` + long + `"}]}`, "key is longer"},
		{`{"jobs":[{"unique":true}]}`, "needs a key"},
		{`{"jobs":[{"body":1,"body_text":"x"}]}`, "name one of them"},
		{`{"jobs":[{"body":{},"body_kind":"args"}]}`, "JSON array"},
		{`{"jobs":[{"body_text":"x","body_kind":"json"}]}`, "one JSON value"},
		{`{"jobs":[{"body_text":"x","body_kind":"none"}]}`, "there is a body"},
		{`{"jobs":[{"body_kind":"xml"}]}`, "none of none, bytes"},
		{`{"jobs":[{"delay_seconds":-1}]}`, "delay_seconds"},
		{`{"jobs":[{"delay_seconds":1,"run_at":"2030-01-01T00:00:00Z"}]}`, "name one of them"},
		{`{"jobs":[{"ttl_seconds":1e99}]}`, "ttl_seconds"},
		{`{"jobs":[{"lease_seconds":-1}]}`, "lease_seconds"},
		{`{"jobs":[{"retry":-1}]}`, "retry"},
		{`{"jobs":[{"priority":9999999999}]}`, "priority"},
		{`{"jobs":[{"keep":true}]}`, "needs ttl_seconds"},
	} {
		if p := want[api.Problem](f, 400, "/queues/q/jobs", c.body); !strings.Contains(p.Detail, c.want) {
			t.Errorf("%.80s: %s, want %q", c.body, p.Detail, c.want)
		}
	}
	want[api.Problem](f, 400, "/queues/"+long+"/jobs", `{"jobs":[{}]}`)
	if infos, err := f.engine.Queues("ns", "", 0); err != nil || len(infos) != 0 {
		t.Errorf("something was pushed: %v, %v", infos, err)
	}
}

// Some of several jobs may be refused: each is told.
func TestPushPartly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do(&job.Configure{Namespace: "ns", Queue: "small", Settings: job.Settings{Capacity: 1}})
	out := want[api.PushResult](f, 200, "/queues/small/jobs", `{"jobs":[{},{}]}`)
	if out.Pushed != 1 || out.Refused != 1 || out.Jobs[1].Problem == nil || out.Jobs[1].Problem.Status != 409 {
		t.Errorf("%+v", out)
	}
}

// A worker's life: it waits, gets a job with its whole body, holds on to it and settles it. Nobody else can.
func TestWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		body := strings.Repeat("x", api.ContentMax+1)
		got := make(chan api.Work)
		go func() {
			got <- want[api.Work](f, 200, "/fetch", `{"queues":["a","b"],"wait_seconds":300,"worker":"me"}`)
		}()
		testkit.Advance(t, 4*time.Minute)
		id := f.push("b", job.Spec{Body: []byte(body), Policy: job.Policy{MaxFails: 9, Lapse: job.LapseFail}})
		w := <-got
		if len(w.Jobs) != 1 || w.Jobs[0].ID != id || w.Jobs[0].Queue != "b" || string(w.Jobs[0].Body.Base64) != body ||
			w.Jobs[0].Body.Truncated {
			t.Fatalf("%d jobs", len(w.Jobs))
		}
		if left := w.Jobs[0].Lease.LeftSeconds; left == nil || *left != api.LeaseDefault.Seconds() {
			t.Errorf("lease %+v", w.Jobs[0].Lease)
		}
		path := fmt.Sprintf("/jobs/%d/", id)
		named := fmt.Sprintf(`{"queue":"b","holder":%q`, w.Holder)
		if d, err := f.service.Job("ns", "b", id); err != nil || d.Lease.Worker != "me" || d.Lease.Holder != w.Holder {
			t.Errorf("held by %+v, %v", d.Lease, err)
		}
		testkit.Advance(t, 50*time.Second)
		s := want[api.Settled](f, 200, path+"extend", named+`,"lease_seconds":120}`)
		if until := time.Now().Add(2 * time.Minute); s.State != "running" || s.Until == nil ||
			s.Until.Sub(until).Abs() > time.Millisecond {
			t.Errorf("extended: %+v, want until %s", s, until)
		}
		testkit.Advance(t, 110*time.Second)
		if st := f.get("b", id).State; st != job.Leased {
			t.Errorf("it is %s", st.Name())
		}
		want[api.Problem](f, 409, path+"ack", `{"queue":"b","holder":"1-2"}`)
		s = want[api.Settled](f, 200, path+"fail", named+`,"type":"exit 1","message":"no","backtrace":["a","b"]}`)
		j, err := f.engine.Get(job.ByID("ns", "b", id))
		if err != nil || s.State != "ready" || j.Fails != 1 || j.Failures[0].Message != "no" ||
			len(j.Failures[0].Backtrace) != 2 {
			t.Errorf("failed: %+v, %+v, %v", s, j.Failures, err)
		}
		again := want[api.Work](f, 200, "/fetch",
			fmt.Sprintf(`{"queues":["b"],"holder":%q,"lease_seconds":5}`, w.Holder))
		if again.Holder != w.Holder || len(again.Jobs) != 1 || again.Jobs[0].Attempts != 2 {
			t.Errorf("again: %+v", again.Holder)
		}
		s = want[api.Settled](f, 200, path+"release", named+`,"delay_seconds":30}`)
		if s.State != "scheduled" || s.RunAt == nil {
			t.Errorf("released: %+v", s)
		}
		testkit.Advance(t, 31*time.Second)
		want[api.Work](f, 200, "/fetch", fmt.Sprintf(`{"queues":["b"],"holder":%q,"lease_seconds":5}`, w.Holder))
		testkit.Advance(t, 6*time.Second) // too long
		want[api.Problem](f, 409, path+"ack", named+`}`)
		want[api.Work](f, 200, "/fetch", fmt.Sprintf(`{"queues":["b"],"holder":%q}`, w.Holder))
		s = want[api.Settled](f, 200, path+"ack", named+`,"result":{"ok":true}}`)
		if s.State != "gone" {
			t.Errorf("acked: %+v", s)
		}
		want[api.Problem](f, 404, path+"ack", named+`}`)
		f.close()
	})
}

// The result of an ack is kept with a job that is.
func TestAckResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct{ given, want string }{
		{`"result":[1]`, "[1]"}, {`"result_text":"done"`, "done"}, {`"result_base64":"AAE="`, "\x00\x01"},
	} {
		id := f.push("q", job.Spec{Policy: job.Policy{Keep: true}})
		w := want[api.Work](f, 200, "/fetch", `{"queues":["q"]}`)
		s := want[api.Settled](f, 200, fmt.Sprintf("/jobs/%d/ack", id),
			fmt.Sprintf(`{"queue":"q","holder":%q,%s}`, w.Holder, c.given))
		j, err := f.engine.Get(job.ByID("ns", "q", id))
		if err != nil || s.State != "done" || string(j.Result) != c.want {
			t.Errorf("%s: %+v, %q, %v", c.given, s, j.Result, err)
		}
	}
	want[api.Problem](f, 400, "/jobs/1/ack", `{"queue":"q","holder":"1-1","result":1,"result_text":"x"}`)
}

func TestWorkRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.push("q", job.Spec{})
	for _, c := range []struct{ path, body, want string }{
		{"/fetch", `{}`, "queues"},
		{"/fetch", `{"queues":[""]}`, "queue: it is missing"},
		{"/fetch", `{"queues":["q"],"max":101}`, "max"},
		{"/fetch", `{"queues":["q"],"wait_seconds":301}`, "wait_seconds"},
		{"/fetch", `{"queues":["q"],"wait_seconds":-1}`, "wait_seconds"},
		{"/fetch", `{"queues":["q"],"lease_seconds":0.5}`, "lease_seconds"},
		{"/fetch", `{"queues":["q"],"lease_seconds":-5}`, "lease_seconds"},
		{"/fetch", `{"queues":["q"],"holder":"me"}`, "holder"},
		{"/fetch", `{"queues":["q"],"worker":"` + strings.Repeat("x", api.NameMax+1) + `"}`, "worker"},
		{"/jobs/1/ack", `{"holder":"1-1"}`, "queue: it is missing"},
		{"/jobs/1/ack", `{"queue":"q"}`, "holder"},
		{"/jobs/1/fail", `{"queue":"q"}`, "holder"},
		{
			"/jobs/1/fail", `{"queue":"q","holder":"1-1","message":"` + strings.Repeat("x", failTextMax+1) + `"}`,
			"at most",
		},
		{
			"/jobs/1/fail", `{"queue":"q","holder":"1-1","backtrace":["` + strings.Repeat("x", failTextMax+1) + `"]}`,
			"at most",
		},
		{"/jobs/1/extend", `{"queue":"q","holder":"1-1","lease_seconds":0}`, "lease_seconds"},
		{"/jobs/1/extend", `{"queue":"q","holder":"1-1","lease_seconds":-1}`, "lease_seconds"},
		{"/jobs/1/extend", `{"queue":"q"}`, "holder"},
		{"/jobs/1/release", `{"queue":"q","holder":"1-1","delay_seconds":-1}`, "delay_seconds"},
		{"/jobs/1/release", `{"queue":"q"}`, "holder"},
	} {
		if p := want[api.Problem](f, 400, c.path, c.body); !strings.Contains(p.Detail, c.want) {
			t.Errorf("%s %.60s: %s, want %q", c.path, c.body, p.Detail, c.want)
		}
	}
	for _, verb := range []string{"ack", "fail", "extend", "release"} {
		want[api.Problem](f, 404, "/jobs/x/"+verb, `{"queue":"q","holder":"1-1"}`)
	}
	if f.get("q", 1).State != job.Ready {
		t.Error("something was done")
	}
}

// Only the latest names of workers are remembered.
func TestNames(t *testing.T) {
	t.Parallel()
	var s names
	holder := func(i int) job.Holder { return job.Holder{Node: 1, Num: uint64(i) + 1} }
	s.note(holder(0), "")
	for i := range namesMax + 2 {
		s.note(holder(i), fmt.Sprint(i))
		s.note(holder(i), fmt.Sprint(i))
	}
	known := make(map[job.Holder]string)
	s.add(known)
	if len(known) != namesMax || known[holder(0)] != "" || known[holder(1)] != "" || known[holder(2)] != "2" ||
		known[holder(namesMax+1)] == "" {
		t.Errorf("%d names", len(known))
	}
}

// brokenWriter is a client that has gone.
type brokenWriter struct{ header http.Header }

func (w *brokenWriter) Header() http.Header { return w.header }

func (w *brokenWriter) WriteHeader(int) {}

func (w *brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// Jobs that do not reach their worker are ready as if they had not been fetched.
func TestDeliveryGivenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.push("q", job.Spec{})
	fetch := f.request("/fetch", `{"queues":["q"]}`)
	f.handler.ServeHTTP(&brokenWriter{http.Header{}}, fetch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.handler.ServeHTTP(httptest.NewRecorder(), f.request("/fetch", `{"queues":["q"]}`).WithContext(ctx))
	j, err := f.engine.Get(job.ByID("ns", "q", id))
	if err != nil || j.State != job.Ready || j.Attempts != 0 {
		t.Errorf("%s with %d attempts, %v", j.State, j.Attempts, err)
	}
}
