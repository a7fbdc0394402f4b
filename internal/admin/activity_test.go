package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// What operators do is kept with who did it, also across a restart, and no more than a bounded number.
func TestActivities(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	f := openFixture(t, st, Options{}, HandlerOptions{})
	id := f.push(job.Spec{Queue: "q"})
	other := f.push(job.Spec{Queue: "q"})
	said := func(f *fixture, want ...string) {
		t.Helper()
		var got []string
		for _, a := range f.service.Activities() {
			got = append(got, fmt.Sprintf("%s: %d by %s", a.What, a.Jobs, a.Via))
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	call := func(method, target, body string) {
		t.Helper()
		r := request(t, method, target, body)
		r.Header.Set("User-Agent", "curl/8.0 (some system)")
		if w := f.send(r); w.Code >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	call("GET", "/api/v1/queues", "")
	call("POST", "/api/v1/namespaces/ns/queues/q/pause", "")
	call("POST", "/api/v1/actions", fmt.Sprintf(`{"action":"kill","jobs":[{"namespace":"ns","queue":"q","id":%d},{"namespace":"ns","queue":"q","id":%d}]}`, id, other))
	call("POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", id), `{"action":"retry"}`)
	call("DELETE", "/api/v1/namespaces/ns/queues/q", "")
	want := []string{"remove queue q: 2 by curl/8.0", fmt.Sprintf("retry job %d of queue q: 1 by curl/8.0", id), "kill chosen jobs: 2 by curl/8.0", "pause queue q: 0 by curl/8.0"}
	said(f, want...)
	if _, err := f.service.Respawn(t.Context(), "ns", "none", RespawnOptions{Limit: 1}); err == nil {
		t.Error("there is no such queue")
	}
	said(f, want...) // nobody in particular, and nothing
	f.close()

	f = openFixture(t, st, Options{}, HandlerOptions{})
	said(f, want...)
	ctx := context.WithValue(t.Context(), actorKey{}, actor{"::1", "test"})
	for i := range activityKept + 10 {
		f.service.Note(ctx, i, "%s", strings.Repeat("ä", activityText))
	}
	f.close()
	f = openFixture(t, st, Options{}, HandlerOptions{})
	defer f.close()
	list := f.service.Activities()
	if len(list) != activityKept || list[0].Jobs != activityKept+9 || list[len(list)-1].Jobs != 10 || len(list[0].What) != activityText {
		t.Errorf("%d are kept, %+v to %+v", len(list), list[0], list[len(list)-1])
	}
}

// The figures of a type are those of all its queues.
func TestTypes(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone, TimedTypes: 10, TimedQueues: 10})
	if err != nil {
		t.Fatal(err)
	}
	service, err := New(Options{Engine: e, SampleEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, engine: e, service: service}
	defer f.close()
	for _, queue := range []string{"a", "b"} {
		id := f.push(job.Spec{Queue: queue, Type: "Mail"})
		f.do(&job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1}, &job.Ack{Ref: job.ByID("ns", queue, id), Need: job.NeedLeased})
	}
	got := f.service.Types()
	if len(got) != 1 || got[0].Type != "Mail" || got[0].Others || got[0].Wait == nil || got[0].Wait.Jobs != 2 || got[0].Run == nil || got[0].Run.Jobs != 2 {
		t.Errorf("%+v", got)
	}
}
