package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"millrace/internal/auth"
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
		{
			"the higher of two with one secret",
			auth.LoginOptions{Password: "x", ReadPassword: "x"},
			basic("x"),
			auth.RoleOperator,
		},
		{"only readers", auth.LoginOptions{ReadPassword: "x"}, basic("x"), auth.RoleRead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			tt.with(r)
			if got, verdict := auth.NewLogin(tt.options).Of(r); got != tt.want ||
				(verdict == auth.Right) != (got != auth.RoleNone) {
				t.Errorf("role %s, want %s", got, tt.want)
			}
		})
	}
}
