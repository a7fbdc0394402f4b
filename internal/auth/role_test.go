package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"millrace/internal/auth"
	"millrace/internal/testkit"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	all := auth.LoginOptions{Password: "op", ReadPassword: "look", Token: "optoken", ReadToken: "looktoken"}
	basic := func(password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth("anybody", password) }
	}
	header := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", text) }
	}
	tests := []struct {
		name    string
		options auth.LoginOptions
		with    func(*http.Request)
		want    auth.Role
	}{
		{"nothing is asked for", auth.LoginOptions{}, func(*http.Request) {}, auth.RoleOperator},
		{"nothing is asked for, something is given", auth.LoginOptions{}, basic("x"), auth.RoleOperator},
		{"nothing given", all, func(*http.Request) {}, auth.RoleNone},
		{"operator", all, basic("op"), auth.RoleOperator},
		{"reader", all, basic("look"), auth.RoleRead},
		{"wrong password", all, basic("opx"), auth.RoleNone},
		{"empty password", all, basic(""), auth.RoleNone},
		{"a token is no password", all, basic("optoken"), auth.RoleNone},
		{"operator's token", all, header("Bearer optoken"), auth.RoleOperator},
		{"any case of the scheme", all, header("bearer looktoken"), auth.RoleRead},
		{"a password is no token", all, header("Bearer op"), auth.RoleNone},
		{"empty token", all, header("Bearer "), auth.RoleNone},
		{"unknown scheme", all, header("Digest op"), auth.RoleNone},
		{"malformed basic", all, header("Basic !"), auth.RoleNone},
		{"only tokens", auth.LoginOptions{Token: "t"}, basic(""), auth.RoleNone},
		{"the higher of two with one secret", auth.LoginOptions{Password: "x", ReadPassword: "x"}, basic("x"), auth.RoleOperator},
		{"only readers", auth.LoginOptions{ReadPassword: "x"}, basic("x"), auth.RoleRead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			tt.with(r)
			if got := auth.NewLogin(tt.options).Of(r); got != tt.want {
				t.Errorf("role %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := auth.NewLogin(auth.LoginOptions{Password: "op", ReadToken: "look"})
		with := func(value string) auth.Role {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: value})
			return l.Of(r)
		}
		if _, _, ok := l.Begin("wrong"); ok {
			t.Error("a session for a wrong password")
		}
		op, role, ok := l.Begin("op")
		if !ok || role != auth.RoleOperator || with(op) != auth.RoleOperator {
			t.Errorf("operator: %s, %v, %s", role, ok, with(op))
		}
		look, role, ok := l.Begin("look")
		if !ok || role != auth.RoleRead || with(look) != auth.RoleRead || look == op {
			t.Errorf("reader: %s, %v, %s", role, ok, with(look))
		}
		if with("") != auth.RoleNone || with(op+"x") != auth.RoleNone {
			t.Error("a session that nobody began")
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: op})
		r.SetBasicAuth("", "wrong")
		if l.Of(r) != auth.RoleNone {
			t.Error("a wrong password is outdone by a cookie")
		}
		l.End(look)
		if with(look) != auth.RoleNone || with(op) != auth.RoleOperator {
			t.Error("the wrong session has ended")
		}
		testkit.Advance(t, auth.SessionTime-1)
		if with(op) != auth.RoleOperator {
			t.Error("it ended early")
		}
		for range 1001 { // makes room for itself
			if look, _, ok = l.Begin("look"); !ok {
				t.Fatal("no session")
			}
		}
		if with(op) != auth.RoleNone || with(look) != auth.RoleRead {
			t.Error("the oldest session is open, or the newest is not")
		}
		testkit.Advance(t, auth.SessionTime)
		if with(look) != auth.RoleNone {
			t.Error("it lasts too long")
		}
	})
}
