package lmstfy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// template turns a pattern of the code into one of the documents.
func template(path string) string {
	return regexp.MustCompile(`:(\w+)`).ReplaceAllString(path, "{$1}")
}

// TestDocumentsComplete holds the documents and the code together: every route is in the
// document, and nothing else is.
func TestDocumentsComplete(t *testing.T) {
	t.Parallel()
	public := []string{"GET " + openapiPath}
	for _, r := range routes[1:] {
		public = append(public, r.method+" "+template(r.path))
	}
	var admin []string
	for _, r := range adminRoutes {
		method := r.method
		if method == "" {
			method = http.MethodGet // any; one is enough to tell
		}
		admin = append(admin, method+" "+template(r.path))
	}
	for name, c := range map[string]struct {
		text []byte
		code []string
	}{"public": {openapiPublic(), public}, "admin": {openapiAdmin(), admin}} {
		d := testkit.LoadOpenAPI(t, c.text)
		slices.Sort(c.code)
		if got := d.Operations(); !slices.Equal(got, c.code) {
			t.Errorf("%s: the document has\n%s\nthe code has\n%s", name, strings.Join(got, "\n"),
				strings.Join(c.code, "\n"))
		}
		for _, op := range d.Operations() {
			method, path, _ := strings.Cut(op, " ")
			if o := d.Operation(t, method, path); o.Summary == "" || len(o.Responses) == 0 {
				t.Errorf("%s: says too little", op)
			}
		}
	}
}

// ask is a request and the code that answers it.
type ask struct {
	method, target, body string
	code                 int
	broken               bool // the engine has stopped
}

func newTestEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestPublicDocument calls every operation so that it answers with every code that the
// document lists, and checks the answers.
func TestPublicDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testPublicDocument) // so that no time passes, with which wrong logins are forgiven
}

func testPublicDocument(t *testing.T) {
	t.Helper()
	doc := testkit.LoadOpenAPI(t, openapiPublic())
	d := New(Options{Options: dialect.Options{Engine: newTestEngine(t)}, Auth: true, MaxBody: 100})
	d.opts.Throttle = auth.NewThrottle(nil)
	stopped := newTestEngine(t)
	broken := New(Options{Options: dialect.Options{Engine: stopped}})
	if err := stopped.Close(); err != nil {
		t.Fatal(err)
	}
	const token, limited = "12345678901234567890", "limited-1234567890123"
	for _, k := range []string{token, limited} {
		if err := d.registry.addToken(tokenKey{poolDefault, "ns", k}, "d"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.registry.setLimits(tokenKey{poolDefault, "ns", limited}, limits{1, 1, 1000}, false); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 101)
	asks := []ask{{"GET", openapiPath, "", 200, false}}
	for _, r := range routes[1:] {
		path := strings.NewReplacer(":namespace", "ns", ":queue", "q", ":job_id", "x").Replace(r.path)
		bad := strings.NewReplacer(":namespace", "n!", ":queue", "q", ":job_id", "x").Replace(r.path)
		asks = append(asks, ask{r.method, bad, "", 400, false}, ask{r.method, path + "?token=warm:x", "", 404, false})
		if !r.open {
			asks = append(asks, ask{r.method, path, "", 401, false}, ask{r.method, path + "?token=x", "", 401, false})
		}
		body, code := "", 503
		if strings.HasSuffix(r.path, "bulk") {
			body = "[1]"
		}
		if r.method == http.MethodGet && r.side == sideRead {
			code = 404 // a consumer is answered as usual
		}
		asks = append(asks, ask{r.method, path, body, code, true})
	}
	with := func(target string) string { return target + "token=" + token }
	asks = append(asks, []ask{
		{"PUT", with("/api/ns/q?tries=2&"), "body", 201, false},
		{"PUT", with("/api/ns/q?tries=x&"), "body", 400, false},
		{"PUT", with("/api/ns/q?"), large, 413, false},
		{"PUT", "/api/ns/q?token=" + limited, "", 201, false},
		{"PUT", "/api/ns/q?token=" + limited, "", 429, false},
		{"PUT", "/api/ns/q/bulk?token=" + limited, "[1]", 429, false},
		{"PUT", with("/api/ns/q/bulk?"), "[1,2]", 201, false},
		{"PUT", with("/api/ns/q/bulk?"), "[]", 400, false},
		{"PUT", with("/api/ns/q/bulk?"), `["` + large + `"]`, 413, false},
		{"PUT", with("/api/ns/q/job/x?"), "", 201, false},
		{"PUT", with("/api/ns/q/job/x?"), large, 413, false},
		{"GET", with("/api/ns/q/peek?"), "", 200, false},
		{"GET", with("/api/ns/none/peek?"), "", 404, false},
		{"GET", with("/api/ns/q?"), "", 200, false},
		{"GET", with("/api/ns/q?count=3&ttr=0&"), "", 200, false},
		{"GET", with("/api/ns/q?count=0&"), "", 400, false},
		{"GET", with("/api/ns/none?"), "", 404, false},
		{"GET", with("/api/ns/none?timeout=1&"), strings.Repeat("x", 100<<10), 413, false},
		{"GET", "/api/ns/q?token=" + limited, "", 200, false},
		{"GET", "/api/ns/q?token=" + limited, "", 429, false},
		{"GET", with("/api/ns/q/job/x?"), "", 404, false},
		{"GET", with("/api/ns/q/job/HEAD?"), "", 200, false},
		{"GET", "/api/ns/q/size", "", 200, false},
		{"GET", "/api/ns/q/deadletter/size", "", 200, false},
		{"GET", with("/api/ns/q/deadletter?"), "", 200, false},
		{"PUT", with("/api/ns/q/deadletter?"), "", 200, false},
		{"PUT", with("/api/ns/q/deadletter?limit=0&"), "", 400, false},
		{"DELETE", with("/api/ns/q/deadletter?"), "", 204, false},
		{"DELETE", with("/api/ns/q/job/x?"), "", 204, false},
		{"DELETE", with("/api/ns/q?"), "", 204, false},
	}...)
	for i := range 59 { // with the one above all that an address may give at once
		asks = append(asks, ask{"DELETE", fmt.Sprintf("/api/ns%d/q?token=wrong", i), "", 401, false})
	}
	for _, r := range routes[1:] {
		if path := strings.NewReplacer(":namespace", "ns", ":queue", "q", ":job_id", "x").Replace(r.path); !r.open {
			asks = append(asks, ask{r.method, path + "?token=other", "", 429, false})
		}
	}
	seen := make(map[string]map[string]bool)
	var head struct {
		ID string `json:"deadletter_head"`
	}
	for _, a := range asks {
		h := d.serveHTTP
		if a.broken {
			h = broken.serveHTTP
		}
		if strings.Contains(a.target, "HEAD") {
			w := httptest.NewRecorder()
			d.serveHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", with("/api/ns/q/deadletter?"), nil))
			if err := json.Unmarshal(w.Body.Bytes(), &head); err != nil {
				t.Fatal(err)
			}
			a.target = strings.Replace(a.target, "HEAD", head.ID, 1)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), a.method, a.target, strings.NewReader(a.body))
		r.Header.Set(headerTrace, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		h(w, r)
		path, _, _ := strings.Cut(a.target, "?")
		key := openapiPath
		if found := parsePath(a.method, path); found.route != routeNone {
			key = template(routes[found.route].path)
		}
		o := doc.Operation(t, a.method, key)
		if o == nil {
			t.Errorf("%s %s is not in the document", a.method, key)
			continue
		}
		if w.Code != a.code {
			t.Errorf("%s %s: %d %s, want %d", a.method, a.target, w.Code, w.Body, a.code)
		}
		doc.Fits(t, o, a.method+" "+a.target, w)
		if !slices.Contains(slices.Collect(maps.Keys(w.Header())), headerRequestID) {
			t.Errorf("%s %s: no %s", a.method, a.target, headerRequestID)
		}
		name := a.method + " " + key
		if seen[name] == nil {
			seen[name] = make(map[string]bool)
		}
		seen[name][fmt.Sprint(w.Code)] = true
	}
	for _, op := range doc.Operations() {
		method, path, _ := strings.Cut(op, " ")
		for _, code := range slices.Sorted(maps.Keys(doc.Operation(t, method, path).Responses)) {
			// A failing disk is not for this test, and whoever only takes cannot find the server without space.
			spared := code == "500" || op == "GET /api/{namespace}/{queue}" && code == "503"
			if !spared && !seen[op][code] {
				t.Errorf("%s: %s was never answered", op, code)
			}
		}
	}
}

// TestAdminDocument calls every operation of the admin API.
func TestAdminDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAdminDocument) // so that no time passes, with which wrong logins are forgiven
}

func testAdminDocument(t *testing.T) {
	t.Helper()
	doc := testkit.LoadOpenAPI(t, openapiAdmin())
	d := New(Options{Options: dialect.Options{Engine: newTestEngine(t)}, Version: "1"})
	guarded := New(Options{
		Options:  dialect.Options{Engine: newTestEngine(t)},
		Accounts: map[string]string{"ann": "x"}, Throttle: auth.NewThrottle(nil),
	}).AdminHandler()
	for i := range 10 { // all that may be wrong at once
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/limits", nil)
		r.SetBasicAuth("ann", fmt.Sprint("wrong ", i))
		guarded.ServeHTTP(httptest.NewRecorder(), r)
	}
	h := d.AdminHandler()
	const token = "12345678901234567890"
	asks := []ask{
		{method: "POST", target: "/token/ns?description=d&token=" + token, code: 201},
		{method: "POST", target: "/token/ns?description=d", code: 201},
		{method: "POST", target: "/token/ns", code: 400},
		{method: "GET", target: "/token/ns", code: 200},
		{method: "GET", target: "/token/ns?pool=unknown", code: 400},
		{method: "POST", target: "/token/ns/" + token + "/limit", body: `{"read":1,"write":2,"interval":3}`, code: 201},
		{method: "POST", target: "/token/ns/" + token + "/limit", body: `{"read":1,"write":2,"interval":3}`, code: 500},
		{method: "POST", target: "/token/ns/" + token + "/limit", body: `{"interval":3}`, code: 400},
		{method: "PUT", target: "/token/ns/" + token + "/limit", body: `{"read":1,"write":2,"interval":3}`, code: 200},
		{method: "PUT", target: "/token/ns/" + token + "/limit", body: `nonsense`, code: 400},
		{method: "PUT", target: "/token/ns/" + token + "/limit", body: `{"read":-1,"interval":3}`, code: 500},
		{method: "GET", target: "/token/ns/" + token + "/limit", code: 200},
		{method: "GET", target: "/token/ns/unknown/limit", code: 404},
		{method: "GET", target: "/limits", code: 200},
		{method: "DELETE", target: "/token/ns/" + token + "/limit", code: 200},
		{method: "DELETE", target: "/token/ns/" + token, code: 204},
		{method: "DELETE", target: "/token/ns/unknown:x", code: 400},
		{method: "GET", target: "/pools", code: 200},
		{method: "GET", target: "/info", code: 200},
		{method: "GET", target: "/info?pool=unknown", code: 200},
		{method: "GET", target: "/version", code: 200},
		{method: "GET", target: "/metrics", code: 200},
		{method: "GET", target: "/accesslog", code: 200},
		{method: "POST", target: "/accesslog?status=disable", code: 200},
		{method: "POST", target: "/accesslog?status=x", code: 400},
		{method: "GET", target: openapiPath, code: 200},
		{method: "GET", target: openapiAdminPath, code: 200},
		{method: "GET", target: "/debug/pprof/", code: 200},
		{method: "GET", target: "/debug/pprof/heap", code: 200},
		{method: "GET", target: "/debug/pprof/unknown", code: 404},
	}
	called := make(map[string]bool)
	for _, a := range asks {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), a.method, a.target, strings.NewReader(a.body)))
		path, _, _ := strings.Cut(a.target, "?")
		var r *adminRoute
		for i := range adminRoutes {
			if _, ok := adminRoutes[i].match(a.method, path); ok {
				r = &adminRoutes[i]
				break
			}
		}
		if r == nil {
			t.Fatalf("no route for %s", a.target)
		}
		o := doc.Operation(t, a.method, template(r.path))
		if o == nil {
			t.Errorf("%s %s is not in the document", a.method, r.path)
			continue
		}
		if w.Code != a.code {
			t.Errorf("%s %s: %d %s, want %d", a.method, a.target, w.Code, w.Body, a.code)
		}
		if w.Body.Len() > 0 || !strings.Contains(a.target, "pool=unknown") { // which is answered with nothing
			doc.Fits(t, o, a.method+" "+a.target, w)
		}
		if !slices.Contains(slices.Collect(maps.Keys(w.Header())), headerRequestID) {
			t.Errorf("%s %s: no %s", a.method, a.target, headerRequestID)
		}
		called[a.method+" "+template(r.path)] = true

		w = httptest.NewRecorder()
		guarded.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), a.method, a.target, strings.NewReader(a.body)))
		if (w.Code == http.StatusUnauthorized) != r.guarded || r.guarded && o.Responses["401"].Ref == "" {
			t.Errorf("%s %s without an account: %d", a.method, a.target, w.Code)
		}
		if !r.guarded {
			continue
		}
		w = httptest.NewRecorder()
		wrong := httptest.NewRequestWithContext(t.Context(), a.method, a.target, strings.NewReader(a.body))
		wrong.SetBasicAuth("ann", "wrong again")
		guarded.ServeHTTP(w, wrong)
		if doc.Fits(t, o, "a wrong account: "+a.method+" "+a.target, w); w.Code != http.StatusTooManyRequests {
			t.Errorf("%s %s with a wrong account: %d", a.method, a.target, w.Code)
		}
	}
	for _, op := range doc.Operations() {
		if !called[op] {
			t.Errorf("%s was never called", op)
		}
	}
}
