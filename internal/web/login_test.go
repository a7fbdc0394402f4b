package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"millrace/internal/auth"
	"millrace/internal/httpapi"
	"millrace/internal/job"
	"millrace/internal/operator"
)

var secrets = auth.LoginOptions{Password: "operate", ReadPassword: "look", Token: "token"}

func TestLoginIsNeeded(t *testing.T) {
	t.Parallel()
	s := newSite(t, secrets)
	id := s.push(job.Spec{})
	for route := range new(handler).readers() {
		target := strings.NewReplacer("{$}", "", "{id}", "x").Replace(route)
		a := s.get(target)
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != link("/login", "to", target) {
			t.Errorf("%s: %d %v", target, a.Code, a.Header())
		}
	}
	for route := range new(handler).changers() {
		a := s.post(strings.ReplaceAll(route, "{id}", "x"),
			url.Values{"action": {"bury"}, "job": {fmt.Sprintf("n=ns&i=%d", id)}})
		if a.Code != http.StatusUnauthorized || !strings.Contains(a.text, "not logged in") {
			t.Errorf("%s: %d %s", route, a.Code, a.text)
		}
		checkPage(t, route, "", a)
	}
	if s.state(id) != "ready" {
		t.Error(s.state(id))
	}
	s.headers["Hx-Request"] = "true"
	if a := s.get("/queues"); a.Code != http.StatusUnauthorized {
		t.Errorf("a part of a page without login: %d", a.Code)
	}
	delete(s.headers, "Hx-Request")
	s.headers["Authorization"] = "Bearer token"
	if a := s.page("/jobs"); !strings.Contains(a.text, `id="act"`) {
		t.Error("a token does not open the pages")
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		password string
		code     int
		operator bool
	}{{"operate", 200, true}, {"look", 200, false}, {"token", 200, true}, {"wrong", 401, false}, {"", 401, false}}
	for _, test := range tests {
		s := newSite(t, secrets)
		id := s.push(job.Spec{})
		s.headers["X-Script-Name"] = "/mill"
		first := s.get("/jobs?queue=q")
		if got := first.Header().Get("Location"); got != "/mill/login?to=%2Fjobs%3Fqueue%3Dq" {
			t.Fatal(got)
		}
		page := s.page("/login?to=%2Fjobs%3Fqueue%3Dq")
		checkPage(t, "login", "/mill", page)
		a := s.post("/mill/login", page.form(t, "password").with("password", test.password).values)
		if test.code != http.StatusOK {
			if a.Code != test.code || !strings.Contains(a.text, "not right") || len(s.cookies) > 0 {
				t.Errorf("%q: %d %s", test.password, a.Code, a.text)
			}
			continue
		}
		if got := a.Header().Get("Location"); got != "/mill/jobs?queue=q" {
			t.Errorf("goes on to %s", got)
		}
		cookie := a.Header().Get("Set-Cookie")
		for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/mill/"} {
			if !strings.Contains(cookie, want) {
				t.Errorf("cookie %q lacks %s", cookie, want)
			}
		}
		list := s.page("/jobs?queue=q")
		if strings.Contains(list.text, `id="act"`) != test.operator {
			t.Errorf("%q: %s", test.password, list.text)
		}
		checkPage(t, "/jobs", "/mill", list)
		act := s.post("/jobs/act", url.Values{"action": {"bury"}, "job": {fmt.Sprintf("n=ns&i=%d&s=ready", id)}})
		if test.operator != (act.Code == http.StatusSeeOther) || test.operator != (s.state(id) == "buried") {
			t.Errorf("%q: %d, the job is %s", test.password, act.Code, s.state(id))
		}
		if !test.operator && (act.Code != http.StatusForbidden || !strings.Contains(act.text, "operator role")) {
			t.Errorf("%d %s", act.Code, act.text)
		}
		old := s.cookies[sessionCookie]
		s.submit(list.form(t, "Log out"))
		s.cookies[sessionCookie] = old
		if a := s.get("/jobs"); a.Code != http.StatusSeeOther {
			t.Errorf("a session that was ended opens the pages: %d", a.Code)
		}
	}
}

// TestLoginLeadsNowhereElse tries to make the login form lead to another site.
func TestLoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, secrets)
	for _, to := range []string{
		"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "",
		"evil", "/%5cevil", "http:/x", "\x00",
	} {
		a := s.post("/login", url.Values{"password": {"operate"}, "to": {to}})
		if got := a.Header().Get("Location"); a.Code != http.StatusSeeOther || got != "/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// TestLogoutIsKept has the pages served by a new server, as after a restart: who was logged in still is, who has logged
// out is not.
func TestLogoutIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, secrets)
	log := func(password string) string {
		s.post("/login", url.Values{"password": {password}})
		cookie := s.cookies[sessionCookie]
		delete(s.cookies, sessionCookie)
		return cookie
	}
	stays, goes := log("operate"), log("look")
	s.cookies[sessionCookie] = goes
	s.post("/logout", nil)
	if s.cookies[sessionCookie] != "" {
		t.Error("the browser keeps the cookie")
	}
	again := func(o auth.LoginOptions) {
		s.service.Close()
		var err error
		if s.service, err = operator.New(operator.Options{Engine: s.engine}); err != nil {
			t.Fatal(err)
		}
		l := auth.NewLogin(o)
		s.handler = httpapi.NewHandler(s.service,
			httpapi.HandlerOptions{Login: l, UI: New(Options{Service: s.service, Login: l})})
	}
	code := func(cookie string) int {
		s.cookies[sessionCookie] = cookie
		return s.get("/queues").Code
	}
	again(secrets)
	if a, b := code(stays), code(goes); a != http.StatusOK || b != http.StatusSeeOther {
		t.Errorf("after a restart: %d who is logged in, %d who has logged out", a, b)
	}
	changed := secrets
	changed.ReadPassword = "another"
	again(changed)
	if got := code(stays); got != http.StatusSeeOther {
		t.Errorf("with other secrets: %d", got)
	}
}

// TestOtherSites sends forms as a page of another site would.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	id := s.push(job.Spec{})
	form := url.Values{"action": {"bury"}, "job": {fmt.Sprintf("n=ns&i=%d", id)}}
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		s.headers = map[string]string{name: value}
		if a := s.post("/jobs/act", form); a.Code != http.StatusForbidden || s.state(id) != "ready" {
			t.Errorf("%s: %d, the job is %s", name, a.Code, s.state(id))
		}
	}
	s.headers = map[string]string{"Sec-Fetch-Site": "same-origin"}
	if a := s.post("/jobs/act", form); a.Code != http.StatusSeeOther || s.state(id) != "buried" {
		t.Errorf("%d, the job is %s", a.Code, s.state(id))
	}
}
