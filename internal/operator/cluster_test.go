package operator

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/auth"
)

// fakeCluster is a cluster of two that gives its leadership away once.
type fakeCluster struct {
	given bool
	err   error // why it is not ready
}

func (f *fakeCluster) Status() api.ClusterStatus {
	return api.ClusterStatus{Node: "a", Leader: "a", Term: 3, Nodes: []api.ClusterNode{
		{Name: "a", Addr: "127.0.0.1:1", Role: api.RoleLeader, Reachable: true, Version: "1.2.3"},
		{
			Name: "b", Addr: "127.0.0.1:2", Role: api.RoleStandby, About: "connection refused", LagEntries: 7,
			LagSeconds: 1.5, ClockSkew: -0.1,
			SettingsDiffer: []string{"faktory.dead_max"},
		},
	}}
}

func (f *fakeCluster) Ready() error { return f.err }

func (f *fakeCluster) Join(name, _ string) error {
	if name == "taken" {
		return errors.New("the cluster has a node taken with other data")
	}
	return nil
}

func (f *fakeCluster) Remove(name string) error {
	switch name {
	case "a":
		return errors.New("node a leads")
	case "b":
		return nil
	default:
		return ErrNoNode
	}
}

func (f *fakeCluster) Transfer() error {
	if f.given {
		return errors.New("this node does not lead")
	}
	f.given = true
	return nil
}

// A node that does not lead answers for itself what it can, and asks the leader for the rest.
func TestStandby(t *testing.T) {
	t.Parallel()
	cluster := &fakeCluster{}
	h := Standby(Options{Version: "1.2.3"}, StandbyOptions{
		Cluster: cluster, Login: auth.NewLogin(auth.LoginOptions{Password: "op"}),
		Site:   auth.NewSite(auth.SiteOptions{AnyHost: true}),
		Leader: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { NoLeader(w, "for "+r.URL.Path) }),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "millrace_up 1") // nobody to tell
		}),
	})
	ask := func(method, path, password string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		if password != "" {
			r.SetBasicAuth("", password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, path, password string
		code                   int
		has                    string
	}{
		{"GET", "/livez", "", 200, "ok"},
		{"GET", "/readyz", "", 200, "ok"},
		{"GET", "/api/v1/cluster", "", 401, ""},
		{"GET", "/api/v1/cluster", "op", 200, `"leader":"a"`},
		{"GET", "/metrics", "", 401, ""},
		{"GET", "/metrics", "op", 200, "millrace_up 1"},
		{"POST", "/api/v1/cluster/transfer", "op", 503, "for /api/v1/cluster/transfer"},
		{"GET", "/api/v1/queues", "op", 503, "for /api/v1/queues"},
		{"GET", "/", "", 503, "for /"},
	} {
		w := ask(c.method, c.path, c.password)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s: %d %s, want %d with %q", c.method, c.path, w.Code, w.Body, c.code, c.has)
		}
		if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s does not say when to try again", c.method, c.path)
		}
	}
	cluster.err = errors.New("no majority: 1 of 3 nodes can be reached")
	if w := ask("GET", "/readyz", ""); w.Code != 503 ||
		!strings.Contains(w.Body.String(), "not ready: no majority: 1 of 3") {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	if w := ask("GET", "/livez", ""); w.Code != 200 {
		t.Errorf("livez depends on others: %d", w.Code)
	}
}
