package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
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
)

// site is the pages on a real engine, and a visitor who keeps cookies.
type site struct {
	t       *testing.T
	engine  *engine.Engine
	service *operator.Service
	handler http.Handler
	workers *registry
	tokens  *tokenRegistry
	cookies map[string]string
	headers map[string]string
}

// registry is a registry of worker processes.
type registry struct {
	workers []api.Worker
	told    []string
}

func (r *registry) Namespace() string     { return "ns" }
func (r *registry) Workers() []api.Worker { return slices.Clone(r.workers) }
func (r *registry) Signal(id string, s api.Signal) int {
	n := 0
	for _, w := range r.workers {
		if id == "" || id == w.ID {
			r.told = append(r.told, w.ID+" "+string(s))
			n++
		}
	}
	return n
}

// tokenRegistry is a registry of tokens.
type tokenRegistry struct{ tokens []api.Token }

func (r *tokenRegistry) Required() bool               { return false }
func (r *tokenRegistry) Pools() []string              { return []string{"default", "fast"} }
func (r *tokenRegistry) Tokens() ([]api.Token, error) { return slices.Clone(r.tokens), nil }

func (r *tokenRegistry) Add(t api.Token) (made api.Token, text string, err error) {
	if t.Description == "" {
		return t, "", &job.Error{Kind: job.Invalid, Text: "invalid description"}
	}
	if t.Secret == "" {
		t.Secret = fmt.Sprintf("a-token-that-is-long-%04d", len(r.tokens))
	}
	t.Exists = true
	r.tokens = append(r.tokens, t)
	return t, t.Secret, nil
}

func (r *tokenRegistry) find(t api.Token) int {
	return slices.IndexFunc(r.tokens, func(o api.Token) bool { return o.Secret == t.Secret })
}

func (r *tokenRegistry) Drop(t api.Token) error {
	i := r.find(t)
	r.tokens = slices.Delete(r.tokens, i, i+1)
	return nil
}

func (r *tokenRegistry) SetLimits(t api.Token, l *api.TokenLimits) error {
	r.tokens[r.find(t)].Limits = l
	return nil
}

var holder = job.Holder{Node: 1, Num: 77}

// newSite opens an engine and everything on it, which are closed with the test.
func newSite(t *testing.T, login auth.LoginOptions) *site {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now().Add(-time.Minute)
	s := &site{
		t: t, engine: e, cookies: map[string]string{}, headers: map[string]string{},
		workers: &registry{workers: []api.Worker{{
			ID: "worker-1", Hostname: "host", PID: 42, Labels: []string{"blue"}, State: "running",
			Started: &begun, LastBeat: &begun,
			MemoryBytes: 5 << 20, Connections: 2, Leases: holder,
		}}},
	}
	s.tokens = new(tokenRegistry)
	s.service, err = operator.New(operator.Options{
		Cluster: fakeCluster{},
		Engine:  e, Version: "test", Durability: "none", DataDir: "somewhere",
		FreeBytes: func() (uint64, error) { return 3 << 30, nil }, SampleEvery: 5 * time.Millisecond,
		Tokens:   s.tokens,
		DoorName: func(d job.Door) string { return fmt.Sprintf("door%d", d) },
		Workers:  []operator.WorkerRegistry{s.workers},
		Connections: func() []api.Connections {
			return []api.Connections{{
				Protocol: "wire", Namespace: "ns", Addresses: []string{"127.0.0.1:1"},
				Open: 3, Total: 7,
			}}
		},
		Settings: func() []api.Setting {
			return []api.Setting{
				{Key: "data.dir", Value: "somewhere", Source: "flag", Default: "data", Help: "Where the data is."},
				{Key: "web.password", Value: "***", Source: "file", Secret: true, Help: "Of operators."},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := auth.NewLogin(login)
	s.handler = httpapi.NewHandler(s.service,
		httpapi.HandlerOptions{Login: l, UI: New(Options{
			Service: s.service,
			Push:    rest.New(rest.Options{Engine: e}).Push, Login: l,
		})})
	t.Cleanup(s.close)
	return s
}

// close stops everything. Closing twice is harmless.
func (s *site) close() {
	s.service.Close()
	if err := s.engine.Close(); err != nil {
		s.t.Error(err)
	}
}

// do runs commands, all of which must succeed.
func (s *site) do(cmds ...job.Command) []job.Result {
	s.t.Helper()
	results := s.engine.NewCaller().Do(s.t.Context(), cmds...)
	for i := range results {
		if results[i].Err != nil {
			s.t.Fatalf("%T: %v", cmds[i], results[i].Err)
		}
	}
	return results
}

func (s *site) push(spec job.Spec) job.ID {
	s.t.Helper()
	if spec.Namespace == "" {
		spec.Namespace = "ns"
	}
	if spec.Queue == "" {
		spec.Queue = "q"
	}
	return s.do(&job.Push{Spec: spec})[0].ID
}

func (s *site) fetch(queue string) job.ID {
	s.t.Helper()
	jobs := s.do(&job.Fetch{
		Namespace: "ns", Queues: []string{queue}, Max: 1, Lease: time.Hour, LeaseSet: true, Door: 2,
		Holder: holder,
	})[0].Jobs
	if len(jobs) != 1 {
		s.t.Fatal("nothing to fetch")
	}
	return jobs[0].ID
}

// allStates makes a job in each state of a queue, and returns them. The blocked one waits for the ready one.
func (s *site) allStates(queue string) map[string]job.ID {
	s.t.Helper()
	ids := make(map[string]job.ID)
	failing := func(state string, p job.Policy) {
		ids[state] = s.push(job.Spec{Queue: queue, Policy: p, Body: []byte(state), BodyKind: job.BodyBytes})
		s.fetch(queue)
		s.do(&job.Fail{
			Ref: job.ByID("ns", queue, ids[state]), Need: job.NeedLeased, Result: []byte("why"),
			Failure: job.Failure{Type: "Boom", Message: "It broke", Backtrace: []string{"a.rb:1", "b.rb:2"}},
		})
	}
	failing("retrying", job.Policy{
		MaxFails: 5,
		Backoff:  job.Backoff{Unit: time.Hour, Power: 4, Base: time.Second, Jitter: 3},
	})
	failing("failed", job.Policy{MaxFails: 1, Exhaust: job.ExhaustKeep})
	failing("dead", job.Policy{MaxFails: 1, Exhaust: job.ExhaustDead})
	ids["done"] = s.push(job.Spec{Queue: queue, Policy: job.Policy{Keep: true}})
	s.fetch(queue)
	s.do(&job.Ack{Ref: job.ByID("ns", queue, ids["done"]), Need: job.NeedLeased, Result: []byte(`{"answer":42}`)})
	ids["running"] = s.push(job.Spec{Queue: queue, Type: "Held"})
	s.fetch(queue)
	ids["buried"] = s.push(job.Spec{Queue: queue, Body: []byte{0, 1, 255}, BodyKind: job.BodyMsgpack})
	s.do(&job.Bury{Ref: job.ByID("ns", queue, ids["buried"]), Need: job.NeedAny})
	ids["scheduled"] = s.push(job.Spec{Queue: queue, Delay: time.Hour})
	ids["ready"] = s.push(job.Spec{
		Queue: queue, Key: "key-" + queue, Type: "Mail", Body: []byte(`{"to":"ann"}`),
		BodyKind: job.BodyJSON, Origin: 3,
	})
	ready, err := s.engine.Get(job.ByID("ns", queue, ids["ready"]))
	if err != nil {
		s.t.Fatal(err)
	}
	ids["blocked"] = s.push(job.Spec{Queue: queue, BlockedBy: []job.Blocker{{QueueNum: ready.QueueNum, ID: ready.ID}}})
	for state, id := range ids {
		if got := s.state(id); got != state {
			s.t.Fatalf("job %d is %s, not %s", id, got, state)
		}
	}
	return ids
}

// state returns where a job stands; gone if it is not there.
func (s *site) state(id job.ID) string {
	j, err := s.engine.Get(job.ByID("ns", "", id))
	if err != nil {
		return "gone"
	}
	return j.State.Name()
}

// sampled waits for a sample of the live figures.
func (s *site) sampled(fits func(*api.Sample) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	found := errors.New("found")
	err := s.service.Watch(ctx, func(text []byte) error {
		var sample api.Sample
		if err := json.Unmarshal(text, &sample); err != nil {
			return err
		}
		if fits(&sample) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		s.t.Fatalf("no such sample: %v", err)
	}
}

// answer is what a page has answered.
type answer struct {
	*httptest.ResponseRecorder
	text string
}

func (s *site) send(r *http.Request) answer {
	s.t.Helper()
	for name, value := range s.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for name, value := range s.headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(s.cookies, c.Name)
		} else {
			s.cookies[c.Name] = c.Value
		}
	}
	return answer{w, w.Body.String()}
}

func (s *site) get(target string) answer {
	s.t.Helper()
	return s.send(httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, target, http.NoBody))
}

// page asks for a page that must be there.
func (s *site) page(target string) answer {
	s.t.Helper()
	a := s.get(target)
	if a.Code != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", target, a.Code, a.text)
	}
	return a
}

func (s *site) post(target string, form url.Values) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

var (
	formPattern   = regexp.MustCompile(`(?s)<form [^>]*?action="([^"]*)" method="post"[^>]*>(.*?)</form>`)
	inputPattern  = regexp.MustCompile(`<(input|button)[^>]*?>`)
	selectPattern = regexp.MustCompile(`(?s)<select name="([^"]*)">(.*?)</select>`)
	attrPattern   = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// form is a form as a browser without scripts sees it.
type form struct {
	action string
	values url.Values
	text   string
}

// forms returns the forms of a page that do something.
func (a answer) forms() []form {
	var out []form
	for _, m := range formPattern.FindAllStringSubmatch(a.text, -1) {
		f := form{action: html.UnescapeString(m[1]), values: url.Values{}, text: m[2]}
		for _, tag := range inputPattern.FindAllString(m[2], -1) {
			attrs := map[string]string{}
			for _, pair := range attrPattern.FindAllStringSubmatch(tag, -1) {
				attrs[pair[1]] = html.UnescapeString(pair[2])
			}
			if attrs["name"] != "" && strings.HasPrefix(tag, "<input") && attrs["type"] != "checkbox" {
				f.values.Add(attrs["name"], attrs["value"])
			}
		}
		for _, list := range selectPattern.FindAllStringSubmatch(m[2], -1) {
			first := attrPattern.FindStringSubmatch(list[2])
			f.values.Set(list[1], html.UnescapeString(first[2]))
		}
		out = append(out, f)
	}
	return out
}

// form returns the form whose text contains something.
func (a answer) form(t *testing.T, contains string) form {
	t.Helper()
	for _, f := range a.forms() {
		if strings.Contains(f.text, contains) {
			return f
		}
	}
	t.Fatalf("no form with %q in %s", contains, a.text)
	return form{}
}

// with returns the form with a field filled in, or a button pressed.
func (f form) with(name, value string) form {
	values := cloneOf(f.values)
	values.Set(name, value)
	return form{f.action, values, f.text}
}

// submit sends a form and follows the redirect, as a browser does. What asks first is answered with yes.
func (s *site) submit(f form) answer {
	s.t.Helper()
	a := s.post(f.action, f.values)
	if a.Code == http.StatusOK {
		a = s.post(f.action, a.form(s.t, `name="confirm" value="yes"`).values)
	}
	if a.Code != http.StatusSeeOther {
		return a
	}
	return s.get(a.Header().Get("Location"))
}

// fakeCluster is a cluster of two, one of which cannot be reached.
type fakeCluster struct{}

func (fakeCluster) Ready() error    { return nil }
func (fakeCluster) Transfer() error { return nil }

func (fakeCluster) Join(string, string) error { return nil }
func (fakeCluster) Remove(string) error       { return nil }

func (fakeCluster) Status() api.ClusterStatus {
	return api.ClusterStatus{Node: "a", Leader: "a", Term: 3, Nodes: []api.ClusterNode{
		{Name: "a", Addr: "127.0.0.1:1", Role: api.RoleLeader, Reachable: true, Version: "1.2.3", LogBytes: 1 << 20},
		{
			Name: "b", Addr: "127.0.0.1:2", Role: api.RoleStandby, About: "connection <b>refused</b>", LagEntries: 7,
			LagSeconds: 1.5, SettingsDiffer: []string{"faktory.dead_max"},
		},
	}}
}
