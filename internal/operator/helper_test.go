package operator

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect/rest"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// fixture is a service on a real engine.
type fixture struct {
	t       *testing.T
	engine  *engine.Engine
	service *Service
	handler http.Handler
	log     *testkit.Buffer
}

// newFixture opens an engine and a service on it, which are closed with the test.
func newFixture(t *testing.T, o Options, ho HandlerOptions) *fixture {
	t.Helper()
	return openFixture(t, memstore.New(), o, ho)
}

func openFixture(t *testing.T, st store.Store, o Options, ho HandlerOptions) *fixture {
	t.Helper()
	e, err := engine.Open(engine.Options{
		Store: st, Durability: engine.DurabilityNone, TimedTypes: 10, FreeFloor: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, engine: e, log: new(testkit.Buffer)}
	o.Engine, o.Logger = e, slog.New(slog.NewTextHandler(f.log, nil))
	if o.DoorName == nil {
		o.DoorName = func(d job.Door) string { return fmt.Sprintf("door%d", d) }
	}
	if o.SampleEvery == 0 {
		o.SampleEvery = time.Hour // only the first sample, unless a test asks for more
	}
	if f.service, err = New(o); err != nil {
		t.Fatal(err)
	}
	ho.Mounted = rest.New(rest.Options{Engine: e}).Handlers()
	f.handler = NewHandler(f.service, ho)
	t.Cleanup(f.close)
	return f
}

// close stops everything. Closing twice is harmless.
func (f *fixture) close() {
	f.service.Close()
	if err := f.engine.Close(); err != nil {
		f.t.Error(err)
	}
}

// do runs commands, all of which must succeed.
func (f *fixture) do(cmds ...job.Command) []job.Result {
	f.t.Helper()
	results := f.engine.NewCaller().Do(f.t.Context(), cmds...)
	for i := range results {
		if results[i].Err != nil {
			f.t.Fatalf("%T: %v", cmds[i], results[i].Err)
		}
	}
	return results
}

func (f *fixture) push(s job.Spec) job.ID {
	f.t.Helper()
	if s.Namespace == "" {
		s.Namespace = "ns"
	}
	if s.Queue == "" {
		s.Queue = "q"
	}
	if s.Body != nil && s.BodyKind == job.BodyNone {
		s.BodyKind = job.BodyBytes
	}
	return f.do(&job.Push{Spec: s})[0].ID
}

// fetch takes the one job that is ready.
func (f *fixture) fetch(queue string) job.ID {
	f.t.Helper()
	jobs := f.do(&job.Fetch{
		Namespace: "ns", Queues: []string{queue}, Max: 1, Lease: time.Hour, LeaseSet: true, Door: 2,
		Holder: job.Holder{Node: 1, Num: 77},
	})[0].Jobs
	if len(jobs) != 1 {
		f.t.Fatal("nothing to fetch")
	}
	return jobs[0].ID
}

// allStates makes a job in each state of a queue, and returns them. The blocked one waits for the ready one.
func (f *fixture) allStates(queue string) map[string]job.ID {
	f.t.Helper()
	ids := make(map[string]job.ID)
	by := job.Failure{Type: "Boom", Message: "It broke", Backtrace: []string{"a.rb:1", "b.rb:2"}}
	failing := func(state string, p job.Policy) {
		ids[state] = f.push(job.Spec{Queue: queue, Policy: p, Body: []byte(state)})
		f.fetch(queue)
		f.do(&job.Fail{
			Ref: job.ByID("ns", queue, ids[state]), Need: job.NeedLeased, Failure: by,
			Result: []byte("why"),
		})
	}
	failing("retrying", job.Policy{
		MaxFails: 5,
		Backoff:  job.Backoff{Unit: time.Hour, Power: 1, Base: time.Second, Jitter: 3},
	})
	failing("failed", job.Policy{MaxFails: 1, Exhaust: job.ExhaustKeep})
	failing("dead", job.Policy{MaxFails: 1, Exhaust: job.ExhaustDead})
	ids["done"] = f.push(job.Spec{Queue: queue, Policy: job.Policy{Keep: true}})
	f.fetch(queue)
	f.do(&job.Ack{Ref: job.ByID("ns", queue, ids["done"]), Need: job.NeedLeased, Result: []byte(`{"answer":42}`)})
	ids["running"] = f.push(job.Spec{Queue: queue, Type: "Held"})
	f.fetch(queue)
	ids["buried"] = f.push(job.Spec{Queue: queue})
	f.do(&job.Bury{Ref: job.ByID("ns", queue, ids["buried"]), Need: job.NeedAny})
	ids["scheduled"] = f.push(job.Spec{Queue: queue, Delay: time.Hour})
	ids["ready"] = f.push(job.Spec{
		Queue: queue, Key: "key-" + queue, Type: "Mail", Body: []byte(`{"to":"ann"}`),
		BodyKind: job.BodyJSON, Origin: 3,
	})
	ready, err := f.engine.Get(job.ByID("ns", queue, ids["ready"]))
	if err != nil {
		f.t.Fatal(err)
	}
	ids["blocked"] = f.push(job.Spec{Queue: queue, BlockedBy: []job.Blocker{{QueueNum: ready.QueueNum, ID: ready.ID}}})
	for state, id := range ids {
		if got := f.state(id); got != state {
			f.t.Fatalf("job %d is %s, not %s", id, got, state)
		}
	}
	return ids
}

// state returns where a job stands; gone if it is not there.
func (f *fixture) state(id job.ID) string {
	f.t.Helper()
	j, err := f.engine.Get(job.ByID("ns", "", id))
	if api.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return j.State.Name()
}

// request makes one; a body is JSON.
func request(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// call sends a request and returns the answer.
func (f *fixture) call(method, target, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	return f.send(request(f.t, method, target, body))
}

func (f *fixture) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

// want sends a request that must be answered with a code, and reads the answer into value.
func (f *fixture) want(code int, method, target, body string, value any) {
	f.t.Helper()
	w := f.call(method, target, body)
	if w.Code != code {
		f.t.Fatalf("%s %s %s: %d %s, want %d", method, target, body, w.Code, w.Body, code)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), value); err != nil {
		f.t.Fatalf("%s %s: %v in %s", method, target, err, w.Body)
	}
}

// mustProblem reads an answer that must be a problem.
func mustProblem(t *testing.T, w *httptest.ResponseRecorder) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if p.Status != w.Code || p.Title == "" || !strings.HasPrefix(p.Type, "urn:millrace:problem:") ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	return p
}
