package operator

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// ask is a request and the code that answers it.
type ask struct {
	method, target, body string
	code                 int
	of                   string // which fixture answers; empty is the one with jobs
}

// TestDocument calls every operation so that it answers with every code that the document lists, and
// checks every answer.
func TestDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDocument)
}

func testDocument(t *testing.T) {
	doc := testkit.LoadOpenAPI(t, Document)
	registry := &fakeWorkers{workers: []api.Worker{{
		ID: "w1", Hostname: "h", PID: 7, State: "running",
		Leases: job.Holder{Node: 1, Num: 77},
	}, {ID: "w2", State: "quiet"}}}
	tokens := &fakeTokens{tokens: []api.Token{{
		Namespace: "ns", Pool: "fast", Secret: "a-token-that-is-long",
		Exists: true, Limits: &api.TokenLimits{Reads: 1, Interval: 1},
	}}}
	f := newFixture(t, Options{
		BackupDir: t.TempDir(), Tokens: tokens, Version: "1.2.3", Durability: "fsync", DataDir: "/data",
		Workers: []WorkerRegistry{registry},
		Connections: func() []api.Connections {
			return []api.Connections{{Protocol: "p", Namespace: "ns", Addresses: []string{"a:1"}, Open: 1}}
		},
		Settings: func() []api.Setting {
			return []api.Setting{{
				Key: "k", Value: "v", Source: "default",
				Help: "Help.",
			}}
		},
		FreeBytes:   func() (uint64, error) { return 1 << 40, nil },
		SampleEvery: time.Second, Cluster: &fakeCluster{}, Adopt: adoptWords,
	}, HandlerOptions{})
	ids := f.allStates("q")
	f.allStates("other")
	batch := f.do(&job.NewBatch{Namespace: "ns", Text: "all of them", OpenFor: time.Hour})[0].Batch
	second := f.do(&job.NewBatch{Namespace: "ns", Parent: batch, OpenFor: time.Hour})[0].Batch
	f.push(job.Spec{Queue: "q", Key: "tracked", Tracked: true, Batch: batch, Group: "g", TTL: time.Hour})
	tracked := f.push(job.Spec{
		Queue: "t", Key: "told", Tracked: true, Body: []byte{0xff, 0},
		Policy: job.Policy{Lease: time.Minute},
	})
	f.do(&job.Report{Namespace: "ns", Key: "told", Percent: 50, SetPercent: true, Text: "half", SetText: true})
	f.do(&job.SetHooks{
		Source: job.SourceFile,
		Hooks:  []job.Hook{{Namespace: "ns", Queue: "filed", Job: job.Spec{Namespace: "ns", Queue: "graves"}}},
	})
	testkit.Advance(t, 25*time.Second)

	guarded := newFixture(t, Options{}, HandlerOptions{Login: auth.NewLogin(auth.LoginOptions{
		Password:     "op",
		ReadPassword: "look",
	})})
	full := newFixture(t, Options{}, HandlerOptions{})
	full.fill(1000, "a")
	for range bulkOpenMax {
		full.want(202, "POST", "/api/v1/bulk", `{"action":"kill"}`, nil)
	}
	full.service.sampler.streams = streamMax
	token := f.tokenID(tokens.tokens[0])
	stopped := newFixture(t, Options{
		BackupDir: t.TempDir(), Adopt: adoptWords,
		Tokens: &fakeTokens{err: job.ErrDraining},
	}, HandlerOptions{})
	stopped.close()
	guessed := newFixture(t, Options{}, HandlerOptions{Login: auth.NewLogin(auth.LoginOptions{
		Password: "op", Throttle: auth.NewThrottle(nil),
	})})
	for i := 0; guessed.guess(i) != 429; i++ {
	}
	foreign := newFixture(t, Options{}, HandlerOptions{Site: auth.NewSite(auth.SiteOptions{Open: ProbePaths()})})
	noSpace := openFixture(t, fullStore{memstore.New()}, Options{
		Adopt: adoptWords, Tokens: &fakeTokens{tokens: tokens.tokens, full: true},
	}, HandlerOptions{})
	standby := &fixture{t: t, handler: Standby(Options{}, StandbyOptions{
		Cluster: &fakeCluster{}, Login: auth.NewLogin(auth.LoginOptions{}),
		Leader: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { NoLeader(w, "no node leads") }),
	})}
	fixtures := map[string]*fixture{
		"": f, "guarded": guarded, "guessed": guessed, "foreign": foreign, "full": full, "noSpace": noSpace,
		"standby": standby, "stopped": stopped,
	}

	var bulk, running api.Bulk
	f.want(202, "POST", "/api/v1/bulk", `{"action":"kick","filter":{"queue":"none"}}`, &bulk)
	f.until(bulk.ID)
	list, err := full.service.Bulks(api.PageOf{})
	if err != nil {
		t.Fatal(err)
	}
	running = list.Bulk[0]

	large := `{"action":"` + strings.Repeat("x", ImportBodyMax) + `"}`
	at := strings.NewReplacer("{namespace}", "ns", "{queue}", "q", "{id}", fmt.Sprint(ids["ready"]), "{bulk}", bulk.ID,
		"{batch}", fmt.Sprint(uint64(batch)), "{token}", "token", "{import}", "token", "{source}", "old",
		"{name}", "entry")
	var asks []ask
	for _, r := range api.Routes {
		target := at.Replace(r.Path)
		o := doc.Operation(t, r.Method, r.Path)
		has := func(code string) bool { _, ok := o.Responses[code]; return ok }
		asks = append(asks, ask{r.Method, target + "?colour=red", "", 400, ""})
		asks = append(asks, ask{r.Method, target, "", 403, ""})
		if has("401") {
			asks = append(asks, ask{r.Method, target, "", 401, "guarded"}, ask{r.Method, target, "", 429, "guessed"})
		}
		if r.Role > auth.RoleRead {
			asks = append(asks, ask{r.Method, target, "", 403, "guarded"})
		}
		if has("421") {
			asks = append(asks, ask{r.Method, target, "", 421, "foreign"})
		}
		if !r.Anywhere {
			asks = append(asks, ask{r.Method, target, "", 503, "standby"})
		}
		if has("413") {
			asks = append(asks, ask{r.Method, target, large, 413, ""}, ask{r.Method, target, "text", 415, ""})
		}
	}
	asks = append(asks, []ask{
		{"GET", "/api/v1/server", "", 200, ""},
		{"GET", "/api/v1/namespaces", "", 200, ""},
		{"GET", "/api/v1/namespaces", "", 503, "stopped"},
		{"GET", "/api/v1/queues", "", 200, ""},
		{"GET", "/api/v1/queues?namespace=ns&name=othe&limit=1", "", 200, ""},
		{"GET", "/api/v1/queues", "", 503, "stopped"},
		{"GET", "/api/v1/namespaces/ns/queues/q", "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/queues/none", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/queues/q", "", 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/queues/q/pause", `{"for_seconds":60}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/pause", "", 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/none/pause", "", 404, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/pause", "", 503, "stopped"},
		{
			"PUT", "/api/v1/namespaces/ns/queues/limited/limits",
			`{"concurrency":2,"worker":1,"slot_seconds":60,"rate":"100/s"}`, 200, "",
		},
		{"PUT", "/api/v1/namespaces/ns/queues/none/limits", `{}`, 404, ""},
		{
			"PUT", "/api/v1/namespaces/ns/queues/limited/limits",
			`{"group_concurrency":2,"group_rate":"10/s","group_burst":3}`, 200, "",
		},
		{"PUT", "/api/v1/namespaces/ns/queues/limited/limits", `{"group_rate":"often"}`, 400, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/fair/fairness", `{"on":true,"weights":{"gold":5}}`, 200, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/fair/fairness", `{"on":true,"weights":{"gold":5000}}`, 400, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/none/fairness", `{"on":false}`, 404, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/q/fairness", `{"on":true}`, 503, "stopped"},
		{"GET", "/api/v1/namespaces/ns/queues/fair/fairness", "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/queues/none/fairness", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/queues/q/fairness", "", 503, "stopped"},
		{"PUT", "/api/v1/namespaces/ns/queues/q/limits", `{"worker":1}`, 503, "stopped"},
		{"GET", "/api/v1/namespaces/ns/queues/limited/limits", "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/queues/limited", "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/queues/none/limits", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/queues/q/limits", "", 503, "stopped"},
		{"PUT", "/api/v1/namespaces/ns/queues/hooked/hook", `{"push":"graves"}`, 200, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/hooked/hook", `{"push":"graves","url":"https://example.org/"}`, 400, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/hooked/hook", `{"url":"https://example.org/"}`, 400, ""},
		{"PUT", "/api/v1/namespaces/ns/queues/q/hook", `{"push":"graves"}`, 503, "stopped"},
		{"GET", "/api/v1/namespaces/ns/queues/hooked/hook", "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/queues/none/hook", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/queues/q/hook", "", 503, "stopped"},
		{"GET", "/api/v1/hooks?namespace=ns", "", 200, ""},
		{"GET", "/api/v1/hooks", "", 503, "stopped"},
		{"PUT", "/api/v1/namespaces/ns/queues/filed/hook", `{"push":"graves"}`, 409, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/filed/hook", "", 409, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/hooked/hook", "", 204, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/hooked/hook", "", 404, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/q/hook", "", 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/queues/q/resume", "", 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/none/resume", "", 404, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/resume", "", 503, "stopped"},
		{"GET", "/api/v1/jobs", "", 200, ""},
		{"GET", "/api/v1/jobs?limit=2", "", 200, ""},
		{"GET", "/api/v1/jobs", "", 503, "stopped"},
		{"GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d?queue=t", tracked), "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/jobs/4711", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/jobs/1", "", 503, "stopped"},
		{"GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/body", ids["ready"]), "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/jobs/4711/body", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/jobs/1/body", "", 503, "stopped"},
		{
			"POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", ids["buried"]),
			`{"action":"kick","state":"buried"}`, 200, "",
		},
		{
			"POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", ids["ready"]),
			`{"action":"kick","state":"buried"}`, 409, "",
		},
		{"POST", "/api/v1/namespaces/ns/jobs/4711/actions", `{"action":"kill"}`, 404, ""},
		{"POST", "/api/v1/namespaces/ns/jobs/1/actions", `{"action":"kill","queue":"q"}`, 503, "stopped"},
		{"POST", "/api/v1/actions", fmt.Sprintf(`{"action":"kill","jobs":[{"namespace":"ns","id":%d,"state":"retrying"},{"namespace":"ns","id":9999}]}`, ids["retrying"]), 200, ""},
		{"POST", "/api/v1/actions", `{"action":"kill","jobs":[{"namespace":"ns","id":1}]}`, 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/queues/q/respawn", `{"limit":1}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/none/respawn", "", 404, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/respawn", "", 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/queues/q/purge", `{"state":"done"}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/none/purge", `{"state":"done"}`, 404, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/purge", `{"state":"done"}`, 503, "stopped"},
		{"DELETE", "/api/v1/namespaces/ns/queues/q?if_idle", "", 409, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/t?keep=true", "", 200, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/none", "", 404, ""},
		{"DELETE", "/api/v1/namespaces/ns/queues/q", "", 503, "stopped"},
		{"GET", "/api/v1/bulk", "", 200, ""},
		{
			"POST", "/api/v1/bulk", `{"action":"retry","filter":{"states":["failed"],"after":"2000-01-01T00:00:00Z"}}`,
			202, "",
		},
		{"POST", "/api/v1/bulk", `{"action":"kill"}`, 429, "full"},
		{"POST", "/api/v1/bulk", `{"action":"kill"}`, 503, "stopped"},
		{"GET", "/api/v1/bulk/" + bulk.ID, "", 200, ""},
		{"GET", "/api/v1/bulk/none", "", 404, ""},
		{"POST", "/api/v1/bulk/" + bulk.ID + "/cancel", "", 200, ""},
		{"POST", "/api/v1/bulk/none/cancel", "", 404, ""},
		{"DELETE", "/api/v1/bulk/" + running.ID, "", 409, "full"},
		{"DELETE", "/api/v1/bulk/" + bulk.ID, "", 204, ""},
		{"DELETE", "/api/v1/bulk/none", "", 404, ""},
		{"GET", "/api/v1/workers", "", 200, ""},
		{"GET", "/api/v1/workers?limit=1", "", 200, ""},
		{"POST", "/api/v1/workers/signal", `{"signal":"quiet","id":"w1"}`, 200, ""},
		{"POST", "/api/v1/workers/signal", `{"signal":"stop"}`, 200, ""},
		{"POST", "/api/v1/workers/signal", `{"signal":"stop","id":"w9"}`, 404, ""},
		{"GET", "/api/v1/connections", "", 200, ""},
		{"GET", "/api/v1/batches?namespace=ns&limit=1", "", 200, ""},
		{"GET", "/api/v1/batches?namespace=ns", "", 503, "stopped"},
		{"GET", fmt.Sprintf("/api/v1/namespaces/ns/batches/%d", second), "", 200, ""},
		{"GET", "/api/v1/namespaces/ns/batches/4711", "", 404, ""},
		{"GET", "/api/v1/namespaces/ns/batches/1", "", 503, "stopped"},
		{"GET", "/api/v1/tokens?limit=1", "", 200, ""},
		{"GET", "/api/v1/tokens", "", 503, "stopped"},
		{"POST", "/api/v1/tokens", `{"namespace":"ns","description":"d"}`, 201, ""},
		{
			"POST", "/api/v1/tokens",
			`{"namespace":"ns","pool":"fast","description":"d","token":"a-token-that-is-long"}`,
			409, "",
		},
		{"POST", "/api/v1/tokens", `{"namespace":"ns","description":"d"}`, 503, "stopped"},
		{"POST", "/api/v1/tokens", `{"namespace":"ns","description":"d"}`, 507, "noSpace"},
		{"GET", "/api/v1/tokens/" + token, "", 200, ""},
		{"GET", "/api/v1/tokens/none", "", 404, ""},
		{"GET", "/api/v1/tokens/none", "", 503, "stopped"},
		{"PUT", "/api/v1/tokens/" + token + "/limits", `{"reads":1,"writes":2,"interval_seconds":3}`, 200, ""},
		{"PUT", "/api/v1/tokens/none/limits", `{"reads":1,"writes":2,"interval_seconds":3}`, 404, ""},
		{"PUT", "/api/v1/tokens/none/limits", `{"reads":1,"writes":2,"interval_seconds":3}`, 503, "stopped"},
		{
			"PUT", "/api/v1/tokens/" + noSpace.tokenID(tokens.tokens[0]) + "/limits",
			`{"reads":1,"writes":2,"interval_seconds":3}`, 507, "noSpace",
		},
		{"DELETE", "/api/v1/tokens/" + token + "/limits", "", 200, ""},
		{"DELETE", "/api/v1/tokens/none/limits", "", 404, ""},
		{"DELETE", "/api/v1/tokens/none/limits", "", 503, "stopped"},
		{"DELETE", "/api/v1/tokens/" + token, "", 204, ""},
		{"DELETE", "/api/v1/tokens/none", "", 404, ""},
		{"DELETE", "/api/v1/tokens/none", "", 503, "stopped"},
		{"GET", "/api/v1/storage", "", 200, ""},
		{"GET", "/api/v1/settings", "", 200, ""},
		{"GET", "/api/v1/live", "", 200, ""},
		{"GET", "/api/v1/events", "", 429, "full"},
		{"GET", "/api/v1/history?resolution=10s", "", 200, ""},
		{"GET", "/api/v1/history", "", 503, "stopped"},
		{"GET", "/api/v1/history/parts?period=hour", "", 200, ""},
		{"GET", "/api/v1/history/parts", "", 503, "stopped"},
		{"GET", "/api/v1/history/type?type=t", "", 200, ""},
		{"GET", "/api/v1/history/type?type=t", "", 503, "stopped"},
		{"GET", "/api/v1/types", "", 200, ""},
		{"GET", "/api/v1/types?period=day", "", 200, ""},
		{"GET", "/api/v1/types?period=day", "", 503, "stopped"},
		{"GET", "/api/v1/failures", "", 200, ""},
		{"GET", "/api/v1/failures?namespace=ns&queue=q", "", 200, ""},
		{"GET", "/api/v1/failures", "", 503, "stopped"},
		{"GET", "/api/v1/activity", "", 200, ""},
		{"GET", "/openapi.json", "", 200, ""},
		{"GET", "/livez", "", 200, ""},
		{"GET", "/readyz?verbose", "", 200, ""},
		{"GET", "/readyz?verbose", "", 503, "stopped"},
		{"GET", "/healthz", "", 200, ""},
		{"GET", "/healthz", "", 503, "stopped"},
		{"GET", "/api/v1/cluster", "", 200, ""},
		{"GET", "/api/v1/cluster", "", 404, "full"},
		{"POST", "/api/v1/cluster/transfer", "", 202, ""},
		{"POST", "/api/v1/cluster/transfer", "", 409, ""}, // the second time
		{"POST", "/api/v1/cluster/transfer", "", 404, "full"},
		{"POST", "/api/v1/cluster/members", `{"name":"d","addr":"127.0.0.1:4"}`, 202, ""},
		{"POST", "/api/v1/cluster/members", `{"name":"taken","addr":"127.0.0.1:4"}`, 409, ""},
		{"POST", "/api/v1/cluster/members", `{"name":"d"}`, 400, ""},
		{"POST", "/api/v1/cluster/members", `{"name":"d","addr":"127.0.0.1:4"}`, 404, "full"},
		{"DELETE", "/api/v1/cluster/members/b", "", 200, ""},
		{"DELETE", "/api/v1/cluster/members/a", "", 409, ""},
		{"DELETE", "/api/v1/cluster/members/z", "", 404, ""},
		{"DELETE", "/api/v1/cluster/members/b", "", 404, "full"},
	}...)
	asks = append(asks, workAsks(t, f, full)...)
	asks = append(asks, cronAsks(f)...)
	for _, state := range slices.Sorted(maps.Keys(ids)) {
		asks = slices.Insert(asks, 0, ask{"GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d", ids[state]), "", 200, ""})
	}
	seen := make(map[string]map[string]bool)
	for _, a := range asks {
		called := fixtures[a.of]
		r := request(t, a.method, a.target, a.body)
		if a.code == 415 {
			r.Header.Set("Content-Type", "text/plain")
		}
		if a.of != "guarded" && a.code != 415 && a.method == "POST" && isLines(a.target) {
			r.Header.Set("Content-Type", api.MediaLines)
		}
		switch {
		case a.code == 403 && a.of == "":
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		case a.code == 403:
			r.SetBasicAuth("", "look")
		case a.of == "guessed":
			r.SetBasicAuth("", "another guess")
		}
		w := called.send(r)
		path := patternOf(t, a.method, a.target)
		o := doc.Operation(t, a.method, path)
		if o == nil {
			t.Fatalf("%s %s is not in the document", a.method, path)
		}
		what := fmt.Sprintf("%s %s %.100s", a.method, a.target, a.body)
		if w.Code != a.code {
			t.Errorf("%s: %d %s, want %d", what, w.Code, w.Body, a.code)
		}
		doc.Fits(t, o, what, w)
		name := a.method + " " + path
		if seen[name] == nil {
			seen[name] = make(map[string]bool)
		}
		seen[name][fmt.Sprint(w.Code)] = true
	}
	for _, op := range doc.Operations() {
		method, path, _ := strings.Cut(op, " ")
		for code := range doc.Operation(t, method, path).Responses {
			// A failing disk is not for this test, and a stream has one of its own.
			if !seen[op][code] && code != "500" && op+code != "GET /api/v1/events200" {
				t.Errorf("%s: %s was never answered", op, code)
			}
		}
	}
	full.service.sampler.streams = 0
}

// fullStore is on a disk that has no space left.
type fullStore struct{ store.Store }

func (fullStore) FreeBytes() (uint64, error) { return 0, nil }

// guess tries a wrong password and returns the code of the answer.
func (f *fixture) guess(number int) int {
	r := request(f.t, "GET", "/api/v1/server", "")
	r.SetBasicAuth("", fmt.Sprint("guess ", number))
	return f.send(r).Code
}

// isLines reports whether a request has JSON lines in it.
func isLines(target string) bool {
	return strings.HasPrefix(target, "/api/v1/imports/") || strings.HasPrefix(target, "/api/v1/migrations/")
}

// patternOf returns the path of the route that a request goes to.
func patternOf(t *testing.T, method, target string) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, r := range api.Routes {
		mux.HandleFunc(r.Method+" "+r.Path, func(http.ResponseWriter, *http.Request) {})
	}
	_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), method, target, nil))
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// fakeWorkers is a registry as a protocol has one.
type fakeWorkers struct {
	workers []api.Worker
	told    []string
}

func (f *fakeWorkers) Namespace() string     { return "ns" }
func (f *fakeWorkers) Workers() []api.Worker { return f.workers }

func (f *fakeWorkers) Signal(id string, s api.Signal) int {
	n := 0
	for _, w := range f.workers {
		if id == "" || id == w.ID {
			n++
		}
	}
	f.told = append(f.told, fmt.Sprintf("%s %s %d", s, id, n))
	return n
}
