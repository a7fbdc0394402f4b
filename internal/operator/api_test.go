package operator

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	for _, ns := range []string{"a", "b", "c"} {
		for i := range 5 {
			f.push(job.Spec{Namespace: ns, Queue: fmt.Sprint("q", i), Origin: 3})
		}
	}
	follow := func(filter string, limit int) (names []string) {
		cursor := ""
		for {
			var p api.QueuePage
			f.want(200, "GET", fmt.Sprintf("/api/v1/queues?limit=%d&cursor=%s&%s", limit, cursor, filter), "", &p)
			if len(p.Queues) > limit {
				t.Fatalf("%d queues on a page of %d", len(p.Queues), limit)
			}
			for _, q := range p.Queues {
				names = append(names, q.Namespace+"/"+q.Name)
			}
			if cursor = p.Next; cursor == "" {
				return names
			}
		}
	}
	for filter, want := range map[string]int{
		"": 15, "namespace=b": 5, "name=3": 3, "namespace=b&name=3": 1,
		"namespace=x": 0, "name=q": 15,
	} {
		whole := follow(filter, api.PageMax)
		if len(whole) != want || !slices.IsSorted(whole) {
			t.Errorf("%q: %v", filter, whole)
		}
		for _, limit := range []int{1, 2, 5} {
			if got := follow(filter, limit); !slices.Equal(got, whole) {
				t.Errorf("%q in pages of %d: %v", filter, limit, got)
			}
		}
	}
}

// Names that a router would take out of a path are written with a mark, and each name in its own way.
func TestPathSegment(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for name, want := range map[string]string{
		".": "~.", "..": "~..", "~.": "~~.", "~~..": "~~~..", "...": "...", "~": "~", "~~": "~~", "~a": "~a",
		"a.": "a.", "~...": "~...",
		"%2e": "%252e", "a/b": "a%2Fb", " ": "%20", "é": "%C3%A9", "?#": "%3F%23", "/..": "%2F..",
		"/": "~%2F", "~/": "~~%2F", "//": "%2F%2F",
	} {
		got := api.PathSegment(name)
		plain, err := url.PathUnescape(got)
		if got != want || err != nil || api.NameIn(plain) != name || seen[got] != "" {
			t.Errorf("%q is %q, want %q, and read as %q", name, got, want, api.NameIn(plain))
		}
		seen[got] = name
	}
}

func TestJob(t *testing.T) {
	t.Parallel()
	registry := &fakeWorkers{workers: []api.Worker{{ID: "w1", Leases: job.Holder{Node: 1, Num: 77}}}}
	f := newFixture(t, Options{Workers: []WorkerRegistry{registry}}, HandlerOptions{})
	ids := f.allStates("q")
	get := func(state string) (d api.JobDetail) {
		t.Helper()
		f.want(200, "GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d", ids[state]), "", &d)
		if d.State != state || d.ID != ids[state] || d.Queue != "q" || d.Created == nil || d.Since == nil {
			t.Errorf("%+v", d)
		}
		return d
	}
	ready := get("ready")
	if ready.Key != "key-q" || ready.Type != "Mail" || ready.PushedBy != "door3" ||
		string(ready.Body.JSON) != `{"to":"ann"}` || ready.Body.Text != nil ||
		string(ready.Body.Base64) != `{"to":"ann"}` || ready.Preview != `{"to":"ann"}` || !ready.Blocks ||
		ready.BodyKind != "json" {
		t.Errorf("%+v", ready)
	}
	if blocked := get("blocked"); !slices.Equal(blocked.BlockedBy, []job.ID{ids["ready"]}) || blocked.Body != nil {
		t.Errorf("%+v", blocked)
	}
	leased := get("running")
	if l := leased.Lease; l == nil || l.Worker != "w1" || l.Holder == "" || l.FetchedBy != "door2" ||
		l.LeftSeconds == nil || *l.LeftSeconds > 3600 || *l.LeftSeconds < 3500 {
		t.Errorf("%+v", leased.Lease)
	}
	if d := get("scheduled"); d.RunAt == nil || d.Lease != nil {
		t.Errorf("%+v", d)
	}
	retrying := get("retrying")
	if p := retrying.Policy; p.MaxFails != 5 || p.Backoff == nil || p.Backoff.UnitSeconds != 3600 ||
		p.Backoff.BaseSeconds != 1 || p.Exhaust != "drop" {
		t.Errorf("%+v", p)
	}
	if len(retrying.Failures) != 1 || retrying.Failures[0].Message != "It broke" ||
		retrying.Failures[0].Kind != "worker" ||
		!slices.Equal(retrying.Failures[0].Backtrace, []string{"a.rb:1", "b.rb:2"}) || retrying.LastError == nil ||
		retrying.LastError.Backtrace != nil {
		t.Errorf("%+v", retrying)
	}
	if *retrying.Body.Text != "retrying" || retrying.Body.JSON != nil || retrying.BodySize != 8 {
		t.Errorf("%+v", retrying.Body)
	}
	if d := get("done"); d.Result == nil || string(d.Result.JSON) != `{"answer":42}` {
		t.Errorf("%+v", d.Result)
	}
	if d := get("failed"); d.Result == nil || *d.Result.Text != "why" {
		t.Errorf("%+v", d.Result)
	}
	w := f.call("GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/body?queue=q", ids["ready"]), "")
	if w.Body.String() != `{"to":"ann"}` || w.Header().Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	f.want(404, "GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d?queue=other", ids["ready"]), "", nil)
}

// TestBodies shows bodies of every kind: whatever they hold, the answer is JSON and loses nothing.
func TestBodies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	tests := []struct {
		name, body string
		kind       job.BodyKind
		json, text bool
		preview    string
	}{
		{"JSON", `{"a":"<script>"}`, job.BodyJSON, true, false, `{"a":"<script>"}`},
		{"JSON told to be bytes", `[1,2]`, job.BodyBytes, true, false, `[1,2]`},
		{"arguments", `[1]`, job.BodyArgs, true, false, `[1]`},
		{"text", "hello <b>\n", job.BodyBytes, false, true, "hello <b>\n"},
		{"empty", "", job.BodyBytes, false, true, ""},
		{"binary", "\x00\xff\x01", job.BodyBytes, false, false, ""},
		{"MessagePack that looks like text", "7", job.BodyMsgpack, false, false, "55"},
		{"MessagePack", "\x82\xa1a\x91\x01\xa1b\xa1<", job.BodyMsgpack, false, false, `{"a": [1], "b": "<"}`},
		{
			"long MessagePack", "\xd9\xff" + strings.Repeat("x", 255), job.BodyMsgpack, false, false,
			`"` + strings.Repeat("x", api.PreviewMax-1) + `"…`,
		},
		{"not quite MessagePack", "\xc1", job.BodyMsgpack, false, false, ""},
		{"control characters", "a\x1b[31m", job.BodyBytes, false, false, ""},
		{"not quite JSON", `{"a":1`, job.BodyJSON, false, true, `{"a":1`},
		{"JSON with bad UTF-8", "\"\xff\"", job.BodyJSON, false, false, ""},
		{"deeply nested", deep, job.BodyJSON, false, true, strings.Repeat("[", api.PreviewMax) + "…"},
		{"nested in a text", `"[[[[\"[["`, job.BodyJSON, true, false, `"[[[[\"[["`},
		{
			"long", strings.Repeat("ü", api.PreviewMax), job.BodyBytes, false, true,
			strings.Repeat("ü", api.PreviewMax/2) + "…",
		},
	}
	for _, tt := range tests {
		id := f.push(job.Spec{Body: []byte(tt.body), BodyKind: tt.kind})
		var d api.JobDetail
		f.want(200, "GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d?queue=q", id), "", &d)
		if d.Body == nil || string(d.Body.Base64) != tt.body || (d.Body.JSON != nil) != tt.json ||
			(d.Body.Text != nil) != tt.text || d.Preview != tt.preview || d.Body.Truncated {
			t.Errorf("%s: %.300s %.300q", tt.name, fmt.Sprintf("%+v", d.Body), d.Preview)
		}
		if d.Body.Text != nil && *d.Body.Text != tt.body {
			t.Errorf("%s: %q", tt.name, *d.Body.Text)
		}
	}
	large := strings.Repeat("x", api.ContentMax+1)
	id := f.push(job.Spec{Body: []byte(large)})
	var d api.JobDetail
	f.want(200, "GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d", id), "", &d)
	if !d.Body.Truncated || len(d.Body.Base64) != api.ContentMax || d.Body.Size != api.ContentMax+1 ||
		len(*d.Body.Text) != api.ContentMax {
		t.Errorf("%d of %d bytes", len(d.Body.Base64), d.Body.Size)
	}
	if w := f.call("GET", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/body", id), ""); w.Body.String() != large {
		t.Errorf("%d bytes", w.Body.Len())
	}
}

// What operators ask for is logged, and what they prove themselves with is not.
func TestOperatorRequestsAreLogged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{Login: auth.NewLogin(auth.LoginOptions{Token: "tok"})})
	f.push(job.Spec{})
	r := request(t, "POST", "/api/v1/namespaces/ns/queues/q/pause", "")
	r.Header.Set("Authorization", "Bearer tok")
	if w := f.send(r); w.Code != 200 || !strings.Contains(f.log.String(), "operator request") ||
		strings.Contains(f.log.String(), "tok") {
		t.Errorf("%d %s, log:\n%s", w.Code, w.Body, f.log)
	}
}

// A name that is none of the server's opens nothing but the probes.
func TestHosts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{
		Metrics: http.NotFoundHandler(), Health: http.NotFoundHandler(), UI: http.NotFoundHandler(),
		Site: auth.NewSite(auth.SiteOptions{Setting: "listen.hosts", Open: ProbePaths()}),
	})
	for path, code := range map[string]int{
		"/": 421, "/api/v1/jobs": 421, "/metrics": 421, "/openapi.json": 421, "/debug/pprof/": 421, "/none": 421,
		"/livez": 200, "/readyz": 200, "/healthz": 200, "/health": 404, "/livez/": 421,
	} {
		r := request(t, "GET", path, "")
		r.Host = "evil.example:7420"
		w := f.send(r)
		if w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if code == 421 {
			if p := mustProblem(t, w); !strings.Contains(p.Detail, "listen.hosts") {
				t.Errorf("%s: %+v", path, p)
			}
		}
		r.Host = "localhost:7420"
		if w := f.send(r); w.Code == 421 {
			t.Errorf("%s as localhost: %d %s", path, w.Code, w.Body)
		}
	}
}

// localAddr is the address that a request came to.
type localAddr string

func (localAddr) Network() string  { return "tcp" }
func (a localAddr) String() string { return string(a) }

var _ net.Addr = localAddr("")

func TestProfilerIsLocal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{Login: auth.NewLogin(auth.LoginOptions{
		Password:     "op",
		ReadPassword: "look",
	})})
	for _, tt := range []struct {
		local, remote, forwarded, password string
		code                               int
	}{
		{"127.0.0.1:7420", "127.0.0.1:5", "", "op", 200},
		{"[::1]:7420", "[::1]:5", "", "op", 200},
		{"127.0.0.1:7420", "127.0.0.1:5", "", "", 401},
		{"127.0.0.1:7420", "127.0.0.1:5", "", "look", 403},
		{"127.0.0.1:7420", "127.0.0.1:5", "10.0.0.1", "op", 403},
		{"10.0.0.2:7420", "127.0.0.1:5", "", "op", 403},
		{"127.0.0.1:7420", "10.0.0.1:5", "", "op", 403},
		{"nonsense", "127.0.0.1:5", "", "op", 403},
	} {
		r := request(t, "GET", "/debug/pprof/cmdline", "")
		r = r.WithContext(contextWithLocal(r, localAddr(tt.local)))
		r.RemoteAddr = tt.remote
		if tt.password != "" {
			r.SetBasicAuth("", tt.password)
		}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if tt.code == 200 {
			r.URL.Path = "/debug/pprof/"
		}
		if w := f.send(r); w.Code != tt.code {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	ask := func(target string) string {
		w := f.call("GET", target, "")
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	if got := ask("/readyz?verbose"); got != "200 [+]accepting ok\n[+]store ok\n[+]space ok\nok\n" {
		t.Errorf("%q", got)
	}
	if got := ask("/readyz"); got != "200 ok\n" {
		t.Errorf("%q", got)
	}
	f.service.Drain()
	if got := ask("/readyz?verbose"); got != "503 [-]accepting: the server is stopping\n[+]store "+
		"ok\n[+]space ok\nnot ready\n" {
		t.Errorf("%q", got)
	}
	if got := ask("/livez"); got != "200 ok\n" {
		t.Errorf("%q", got)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	registry := &fakeWorkers{workers: []api.Worker{
		{ID: "w2"},
		{ID: "w1", Leases: job.Holder{Node: 1, Num: 5}},
		{ID: "w3"},
	}}
	f := newFixture(t, Options{Workers: []WorkerRegistry{registry}}, HandlerOptions{})
	var names []string
	cursor := ""
	for {
		var p api.WorkerPage
		f.want(200, "GET", "/api/v1/workers?limit=1&cursor="+cursor, "", &p)
		for _, w := range p.Workers {
			names = append(names, w.Namespace+" "+w.ID+" "+w.Holder)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(names, []string{"ns w1 1-5", "ns w2 ", "ns w3 "}) {
		t.Errorf("%q", names)
	}
	for body, code := range map[string]int{
		`{"signal":"quiet","id":"w1","namespace":"ns"}`: 200, `{"signal":"quiet","id":"w1","namespace":"x"}`: 404,
		`{"signal":"kill"}`: 400, `{}`: 400,
	} {
		f.want(code, "POST", "/api/v1/workers/signal", body, nil)
	}
	if !slices.Equal(registry.told, []string{"quiet w1 1"}) {
		t.Errorf("told %q", registry.told)
	}
}
