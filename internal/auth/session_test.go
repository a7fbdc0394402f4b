package auth_test

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/internal/auth"
)

var anyTime = time.Unix(2_000_000_000, 0)

// kept are the sessions that a store remembers as ended.
type kept map[string]bool

func (k kept) keep(_ context.Context, ended string, forget []string) error {
	k[ended] = true
	for _, name := range forget {
		delete(k, name)
	}
	return nil
}

// sessions returns the Sessions of a process that has just started.
func (k kept) sessions(key string) *auth.Sessions {
	return auth.NewSessions(auth.SessionsOptions{Key: []byte(key), Ended: slices.Sorted(maps.Keys(k)), Keep: k.keep})
}

func proofOf(o auth.LoginOptions) auth.Proof { return auth.NewLogin(o).Proof() }

// A session is good where the key and the secrets are the same, until its time is over.
func TestSession(t *testing.T) {
	t.Parallel()
	secrets := auth.LoginOptions{Password: "op", ReadPassword: "look"}
	k := kept{}
	cookie := k.sessions("key").Begin(auth.RoleRead, proofOf(secrets), anyTime)
	for _, tt := range []struct {
		name    string
		key     string
		secrets auth.LoginOptions
		after   time.Duration
		want    auth.Role
	}{
		{"at once", "key", secrets, 0, auth.RoleRead},
		{"at its end", "key", secrets, auth.SessionFor - time.Second, auth.RoleRead},
		{"after its end", "key", secrets, auth.SessionFor, auth.RoleNone},
		{"another key", "kez", secrets, 0, auth.RoleNone},
		{"another password", "key", auth.LoginOptions{Password: "Op", ReadPassword: "look"}, 0, auth.RoleNone},
		{"one password less", "key", auth.LoginOptions{Password: "op"}, 0, auth.RoleNone},
		{
			"one token more", "key",
			auth.LoginOptions{Password: "op", ReadPassword: "look", Token: "t"},
			0, auth.RoleNone,
		},
		{"roles changed places", "key", auth.LoginOptions{Password: "look", ReadPassword: "op"}, 0, auth.RoleNone},
		{"a password became a token", "key", auth.LoginOptions{Token: "op", ReadPassword: "look"}, 0, auth.RoleNone},
		{"no secrets", "key", auth.LoginOptions{}, 0, auth.RoleNone},
	} {
		if got := k.sessions(tt.key).Role(cookie, proofOf(tt.secrets), anyTime.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if other := k.sessions("key").Begin(auth.RoleRead, proofOf(secrets), anyTime); other == cookie {
		t.Error("two sessions have one cookie")
	}
}

// No byte of a cookie can be changed, none left out and none added.
func TestForgedSession(t *testing.T) {
	t.Parallel()
	s, p := kept{}.sessions("key"), proofOf(auth.LoginOptions{Password: "op"})
	cookie, err := base64.RawURLEncoding.DecodeString(s.Begin(auth.RoleRead, p, anyTime))
	if err != nil {
		t.Fatal(err)
	}
	role := func(b []byte) auth.Role { return s.Role(base64.RawURLEncoding.EncodeToString(b), p, anyTime) }
	if role(cookie) != auth.RoleRead {
		t.Fatal("the cookie itself is refused")
	}
	for i := range cookie {
		forged := slices.Clone(cookie)
		forged[i] ^= 3 // which makes an operator of a reader
		if got := role(forged); got != auth.RoleNone {
			t.Errorf("byte %d changed: %s", i, got)
		}
		if got := role(cookie[:i]); got != auth.RoleNone {
			t.Errorf("the first %d bytes: %s", i, got)
		}
	}
	for _, text := range []string{
		"", "x", "!", base64.RawURLEncoding.EncodeToString(append(cookie, 0)),
		base64.StdEncoding.EncodeToString(cookie) + "=",
	} {
		if got := s.Role(text, p, anyTime); got != auth.RoleNone {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// A session that was ended stays so, after a restart too, and others are left alone.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	k, p := kept{}, proofOf(auth.LoginOptions{Password: "op"})
	s := k.sessions("key")
	first, second := s.Begin(auth.RoleOperator, p, anyTime), s.Begin(auth.RoleOperator, p, anyTime)
	for _, cookie := range []string{first, first, "nonsense"} { // once more, and what is none, are no fault
		if err := s.End(t.Context(), cookie, p, anyTime); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*auth.Sessions{s, k.sessions("key")} {
		if a, b := s.Role(first, p, anyTime), s.Role(second, p, anyTime); a != auth.RoleNone || b != auth.RoleOperator {
			t.Errorf("%s and %s", a, b)
		}
	}
	if len(k) != 1 {
		t.Errorf("%d are remembered", len(k))
	}
	// It is forgotten once its time is over, whichever clock tells, when another one ends.
	later := anyTime.Add(auth.SessionFor + time.Minute)
	third := s.Begin(auth.RoleOperator, p, later)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {2 * time.Hour, 2}} {
		now := later.Add(step.after)
		if err := s.End(t.Context(), third, p, now); err != nil || len(k) != step.want {
			t.Errorf("after %s: %d are remembered, %v", step.after, len(k), err)
		}
		third = s.Begin(auth.RoleOperator, p, now)
	}
}

// A session that could not be kept as ended is over nevertheless.
func TestSessionEndedUnkept(t *testing.T) {
	t.Parallel()
	fault, p := errors.New("no space"), proofOf(auth.LoginOptions{Password: "op"})
	s := auth.NewSessions(auth.SessionsOptions{
		Key:  []byte("key"),
		Keep: func(context.Context, string, []string) error { return fault },
	})
	cookie := s.Begin(auth.RoleOperator, p, anyTime)
	if err := s.End(t.Context(), cookie, p, anyTime); !errors.Is(err, fault) {
		t.Error(err)
	}
	if got := s.Role(cookie, p, anyTime); got != auth.RoleNone {
		t.Error(got)
	}
}

// However many are ended, a bounded number is remembered, and none of them is good again.
func TestManySessionsEnded(t *testing.T) {
	t.Parallel()
	const many, most = 3000, 1000
	k, p := kept{}, proofOf(auth.LoginOptions{Password: "op"})
	s := k.sessions("key")
	early := s.Begin(auth.RoleOperator, p, anyTime.Add(-time.Second))
	late := s.Begin(auth.RoleOperator, p, anyTime.Add(many*time.Second))
	var ended []string
	for i := range many {
		cookie := s.Begin(auth.RoleRead, p, anyTime.Add(time.Duration(i)*time.Second))
		ended = append(ended, cookie)
		if err := s.End(t.Context(), cookie, p, anyTime); err != nil {
			t.Fatal(err)
		}
	}
	if len(k) != most {
		t.Errorf("%d are remembered", len(k))
	}
	for _, s := range []*auth.Sessions{s, k.sessions("key")} {
		for i, cookie := range ended {
			if got := s.Role(cookie, p, anyTime); got != auth.RoleNone {
				t.Fatalf("number %d is good again", i)
			}
		}
		// Those that end before all that are remembered are over as well, which is what is paid for that.
		if a, b := s.Role(early, p, anyTime), s.Role(late, p, anyTime); a != auth.RoleNone || b != auth.RoleOperator {
			t.Errorf("%s and %s", a, b)
		}
	}
}
