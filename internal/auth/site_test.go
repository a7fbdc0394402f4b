package auth_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/internal/auth"
)

// asked returns a request that has come to an address.
func asked(t *testing.T, method, path, host, local string) *http.Request {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(addr))
	r := httptest.NewRequestWithContext(ctx, method, path, nil)
	r.Host = host
	return r
}

func TestSiteHosts(t *testing.T) {
	t.Parallel()
	site := auth.NewSite(auth.SiteOptions{
		Hosts: []string{"Jobs.example.org.", "*.internal"}, Setting: "listen.hosts",
		Open: []string{"/livez"},
	})
	for host, want := range map[string]bool{
		"": true, "localhost": true, "LOCALHOST:7420": true, "localhost.:1": true, "a.b.localhost:80": true,
		"127.0.0.1": true, "127.9.8.7:7420": true, "[::1]": true, "[::1]:7420": true, "[::ffff:127.0.0.1]:1": true,
		"10.1.2.3:7420": true, "10.1.2.3": true, // the address that the connection has come to
		"jobs.example.org": true, "jobs.example.org.:7420": true, "a.internal:7420": true, "b.a.internal": true,
		"evil.example:7420": false, "localhost.evil.example": false, "evillocalhost": false,
		"127.0.0.1.evil.example": false,
		"10.1.2.4":               false, "0.0.0.0:7420": false, "[::]:7420": false, "a.jobs.example.org": false,
		"internal":         false,
		"evilinternal":     false,
		"127.0.0.1:7420:1": false, "millrace": false, "2130706433": false,
	} {
		for path, opened := range map[string]bool{"/api/v1/jobs": false, "/livez": true} {
			got := site.Check(asked(t, http.MethodGet, path, host, "10.1.2.3:7420"))
			if (got == nil) != (want || opened) {
				t.Errorf("%q %s: %v", host, path, got)
			}
			if got != nil && (got.Status != 421 || !strings.Contains(got.Text, "listen.hosts") ||
				!strings.Contains(got.Text, "login")) {
				t.Errorf("%q: %+v", host, got)
			}
		}
	}
	open := auth.NewSite(auth.SiteOptions{AnyHost: true})
	if got := open.Check(asked(t, http.MethodGet, "/", "evil.example", "127.0.0.1:1")); got != nil {
		t.Errorf("a name is asked for where a login is: %v", got)
	}
	var none *auth.Site
	if got := none.Check(asked(t, http.MethodGet, "/", "evil.example", "127.0.0.1:1")); got != nil {
		t.Error(got)
	}
}

func TestSiteCrossSite(t *testing.T) {
	t.Parallel()
	type headers map[string]string
	link := headers{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	tests := []struct {
		name          string
		method        string
		headers       headers
		plain, strict bool // whether it is let through
	}{
		{"no browser", "PUT", nil, true, true},
		{
			"our own page", "POST",
			headers{"Sec-Fetch-Site": "same-origin", "Origin": "http://behind.a.proxy"},
			true,
			true,
		},
		{"typed by the user", "GET", headers{"Sec-Fetch-Site": "none"}, true, true},
		{"a script of another site", "GET", headers{
			"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors",
			"Sec-Fetch-Dest": "image",
		}, false, false},
		{
			"another port of this machine", "GET",
			headers{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
			false,
			false,
		},
		{"a form of another site", "POST", headers{
			"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
			"Sec-Fetch-Dest": "document",
		}, false, false},
		{"a link of another site", "GET", link, true, false},
		{"a frame of another site", "GET", headers{
			"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
			"Sec-Fetch-Dest": "iframe",
		}, false, false},
		{"unknown words", "GET", headers{"Sec-Fetch-Site": "elsewhere"}, false, false},
		{"an old browser, our own page", "POST", headers{"Origin": "http://LOCALHOST:7420"}, true, true},
		{"an old browser, another site", "GET", headers{"Origin": "http://evil.example"}, false, false},
		{"an old browser, another port", "DELETE", headers{"Origin": "http://localhost:7421"}, false, false},
		{"a page without an origin", "POST", headers{"Origin": "null"}, false, false},
		{"an origin that cannot be read", "POST", headers{"Origin": "http://%zz"}, false, false},
	}
	plain, strict := auth.NewSite(auth.SiteOptions{}), auth.NewSite(auth.SiteOptions{Strict: true})
	for _, test := range tests {
		r := asked(t, test.method, "/", "localhost:7420", "127.0.0.1:7420")
		for name, value := range test.headers {
			r.Header.Set(name, value)
		}
		for _, s := range []struct {
			site *auth.Site
			want bool
		}{{plain, test.plain}, {strict, test.strict}} {
			if got := s.site.Check(r); (got == nil) != s.want || got != nil && got.Status != http.StatusForbidden {
				t.Errorf("%s: %v, want it let through: %v", test.name, got, s.want)
			}
		}
	}
}

func TestSiteHandler(t *testing.T) {
	t.Parallel()
	h := auth.NewSite(auth.SiteOptions{Setting: "listen.hosts"}).Handler(http.NotFoundHandler())
	for host, want := range map[string]int{"localhost": 404, "evil.example": 421} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, asked(t, http.MethodGet, "/", host, "127.0.0.1:1"))
		if w.Code != want {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}
