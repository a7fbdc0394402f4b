package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
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
	want := []string{
		"remove queue q: 2 by curl/8.0", fmt.Sprintf("retry job %d of queue q: 1 by curl/8.0", id),
		"kill chosen jobs: 2 by curl/8.0", "pause queue q: 0 by curl/8.0",
	}
	said(f, want...)
	if _, err := f.service.Respawn(t.Context(), "ns", "none", api.RespawnOptions{Limit: 1}); err == nil {
		t.Error("there is no such queue")
	}
	said(f, want...) // nobody in particular, and nothing
	f.close()

	f = openFixture(t, st, Options{}, HandlerOptions{})
	said(f, want...)
	ctx := context.WithValue(t.Context(), actorKey{}, actor{"::1", "test"})
	f.service.Note(ctx, 0, "look")
	f.close()
	f = openFixture(t, st, Options{}, HandlerOptions{})
	said(f, append([]string{"look: 0 by test"}, want...)...) // none has taken the place of another
	for i := range activityKept + 10 {
		f.service.Note(ctx, i, "%s", strings.Repeat("ä", activityText))
	}
	if n := len(f.service.Activities()); n != activityKept {
		t.Errorf("%d are told", n)
	}
	f.close()
	f = openFixture(t, st, Options{}, HandlerOptions{})
	defer f.close()
	list := f.service.Activities()
	if len(list) != activityKept || list[0].Jobs != activityKept+9 || list[len(list)-1].Jobs != 10 ||
		len(list[0].What) != activityText {
		t.Errorf("%d are kept, %+v to %+v", len(list), list[0], list[len(list)-1])
	}
}

// The figures of a type are those of all its queues.
func TestTypes(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{
		Store: memstore.New(), Durability: engine.DurabilityNone,
		TimedTypes: 10, TimedQueues: 10,
	})
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
		f.do(&job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1},
			&job.Ack{Ref: job.ByID("ns", queue, id), Need: job.NeedLeased})
	}
	all, err := f.service.Types("")
	if got := all.Types; err != nil || len(got) != 1 || got[0].Type != "Mail" || got[0].Others || got[0].Fetched != 2 ||
		got[0].Acked != 2 || got[0].Wait == nil || got[0].Wait.Jobs != 2 || got[0].Run == nil || got[0].Run.Jobs != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The history of a type has what was fetched, acked and failed in each slot, and goes on after a restart.
func TestTypeHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		open := func() *fixture {
			return openFixture(t, st, Options{SampleEvery: time.Second}, HandlerOptions{})
		}
		f := open()
		testkit.Advance(t, 2*time.Second)
		work := func(typ string, wait, run time.Duration, ok bool) {
			t.Helper()
			id := f.push(job.Spec{Queue: "q", Type: typ, Policy: job.Policy{MaxFails: 1}})
			testkit.Advance(t, wait)
			f.do(&job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})
			testkit.Advance(t, run)
			if ok {
				f.do(&job.Ack{Ref: job.ByID("ns", "q", id), Need: job.NeedLeased})
			} else {
				f.do(&job.Fail{Ref: job.ByID("ns", "q", id), Need: job.NeedLeased})
			}
			testkit.Advance(t, time.Second)
		}
		work("Mail", 2*time.Second, 3*time.Second, true)
		work("Mail", 2*time.Second, 3*time.Second, false)
		testkit.Advance(t, 2*time.Minute)
		work("Mail", time.Second, 5*time.Second, true)
		work("", 0, 0, true)                           // jobs without a type have no history
		f.do(&job.Remove{Namespace: "ns", Queue: "q"}) // what was sampled stays although the queue goes
		testkit.Advance(t, time.Minute)
		work("Mail", time.Second, 5*time.Second, true)
		f.close()

		f = open()
		defer f.close()
		work("Mail", time.Second, 5*time.Second, true)
		testkit.Advance(t, 2*time.Minute)
		var h api.History
		f.want(200, "GET", "/api/v1/history/type?type=Mail", "", &h)
		var fetched, acked, failed uint64
		for _, p := range h.Points {
			fetched, acked, failed = fetched+p.Fetched, acked+p.Acked, failed+p.Failed
			if p.Fetched > 0 && (p.Wait == nil || p.Run == nil || !near(p.Run.P95, p.Run.Mean)) {
				t.Errorf("%+v", p)
			}
		}
		if fetched != 5 || acked != 4 || failed != 1 {
			t.Errorf("%d fetched, %d acked, %d failed", fetched, acked, failed)
		}
		var got api.Types
		f.want(200, "GET", "/api/v1/types?period=hour", "", &got)
		if len(got.Types) != 1 || got.Types[0].Fetched != 5 || got.Seconds < 60 || got.Types[0].Wait == nil ||
			!near(got.Types[0].Wait.P50, 1) {
			t.Errorf("%+v", got)
		}
		f.want(400, "GET", "/api/v1/types?period=year", "", nil)
		f.want(400, "GET", "/api/v1/history/type", "", nil)
	})
}

// What changes limits, cron entries, tokens and the cluster is noted, too.
func TestActivityOfAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Cluster: &fakeCluster{}, Tokens: &fakeTokens{}}, HandlerOptions{})
	defer f.close()
	var made api.NewToken
	f.want(201, "POST", "/api/v1/tokens", `{"namespace":"ns","description":"d","token":"a-token-that-is-long"}`, &made)
	for _, c := range [][3]string{
		{"PUT", "/api/v1/namespaces/ns/queues/q/limits", `{"concurrency":2,"rate":"5/m","burst":3}`},
		{"PUT", "/api/v1/namespaces/ns/queues/q/limits", `{}`},
		{"PUT", "/api/v1/namespaces/ns/cron/nightly", `{"schedule":"0 3 * * *","queue":"q","job":{"type":"t"}}`},
		{"POST", "/api/v1/namespaces/ns/cron/nightly/pause", ""},
		{"POST", "/api/v1/namespaces/ns/cron/nightly/resume", ""},
		{"POST", "/api/v1/namespaces/ns/cron/nightly/run", ""},
		{"DELETE", "/api/v1/namespaces/ns/cron/nightly", ""},
		{"PUT", "/api/v1/tokens/" + made.ID + "/limits", `{"reads":600,"writes":0,"interval_seconds":60}`},
		{"DELETE", "/api/v1/tokens/" + made.ID + "/limits", ""},
		{"DELETE", "/api/v1/tokens/" + made.ID, ""},
		{"POST", "/api/v1/cluster/members", `{"name":"c","addr":"10.0.0.3:7430"}`},
		{"DELETE", "/api/v1/cluster/members/b", ""},
		{"POST", "/api/v1/cluster/transfer", ""},
	} {
		if w := f.send(request(t, c[0], c[1], c[2])); w.Code >= http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
	var list api.ActivityList
	f.want(200, "GET", "/api/v1/activity", "", &list)
	var got []string
	for _, a := range list.Activity {
		got = append(got, a.What)
	}
	slices.Reverse(got)
	want := []string{
		"make token …long for namespace ns", "set limits of queue q: 2 at a time, rate 5/m, burst 3",
		"set limits of queue q: none",
		"set cron entry nightly: 0 3 * * * to queue q", "pause cron entry nightly", "resume cron entry nightly",
		"run cron entry nightly",
		"remove cron entry nightly", "limit token …long of namespace ns: 600 reads, 0 writes in 60 s",
		"remove the limits of token …long of namespace ns", "remove token …long of namespace ns",
		"make node c at 10.0.0.3:7430 a member of the cluster", "remove node b from the cluster",
		"ask for another leader",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
