package operator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// again returns a service on the same engine, as after a restart.
func again(t *testing.T, e *engine.Engine, o Options) *Service {
	t.Helper()
	o.Engine, o.SampleEvery = e, time.Hour
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// The key is made once: what it has signed and named is good for whoever comes after.
func TestKeys(t *testing.T) {
	t.Parallel()
	registry := &fakeTokens{tokens: []api.Token{{Namespace: "ns", Pool: "default", Secret: "a-secret-that-is-long"}}}
	f := newFixture(t, Options{Tokens: registry}, HandlerOptions{})
	p, now := auth.NewLogin(auth.LoginOptions{Password: "op"}).Proof(), time.Now()
	stays, goes := f.service.Logins().Begin(auth.RoleRead, p, now), f.service.Logins().Begin(auth.RoleRead, p, now)
	if err := f.service.Logins().End(t.Context(), goes, p, now); err != nil {
		t.Fatal(err)
	}
	next, other := again(t, f.engine, f.service.opts), newFixture(t, Options{Tokens: registry}, HandlerOptions{})
	if a, b := next.Logins().Role(stays, p, now), next.Logins().Role(goes, p, now); a != auth.RoleRead ||
		b != auth.RoleNone {
		t.Errorf("who is logged in is %s, and who has logged out %s", a, b)
	}
	if got := other.service.Logins().Role(stays, p, now); got != auth.RoleNone {
		t.Errorf("at another server: %s", got)
	}
	id := func(s *Service) string {
		page, err := s.Tokens(api.TokenFilter{}, api.PageOf{})
		if err != nil {
			t.Fatal(err)
		}
		return page.Tokens[0].ID
	}
	if was := id(f.service); id(next) != was || id(other.service) == was {
		t.Errorf("the id was %s, is %s, and %s at another server", was, id(next), id(other.service))
	}
	key, _, err := f.engine.Value(keySpace, keyName)
	if err != nil || strings.Contains(string(f.service.tokenKey), string(key)) {
		t.Errorf("the key itself is used, %v", err)
	}
}

// full is a store without free space.
type full struct{ *memstore.Store }

// FreeBytes tells so.
func (full) FreeBytes() (uint64, error) { return 0, nil }

// On a full disk operators can log in, and out, for as long as the server runs.
func TestKeysWithoutSpace(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: full{memstore.New()}, Durability: engine.DurabilityNone, FreeFloor: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	log := new(testkit.Buffer)
	s := again(t, e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	defer s.Close() // before the engine
	p, now := auth.NewLogin(auth.LoginOptions{Password: "op"}).Proof(), time.Now()
	cookie := s.Logins().Begin(auth.RoleOperator, p, now)
	if got := s.Logins().Role(cookie, p, now); got != auth.RoleOperator {
		t.Errorf("logged in: %s", got)
	}
	if err := s.Logins().End(t.Context(), cookie, p, now); err != nil {
		t.Error(err)
	}
	if got := s.Logins().Role(cookie, p, now); got != auth.RoleNone {
		t.Errorf("logged out: %s", got)
	}
	if _, ok, err := e.Value(keySpace, keyName); ok || err != nil || !strings.Contains(log.String(), "nearly full") {
		t.Errorf("kept: %v, %v, log: %s", ok, err, log)
	}
}
