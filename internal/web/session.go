package web

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"millrace/internal/auth"
)

const (
	sessionCookie = "millrace_session"
	sessionFor    = 12 * time.Hour
	sessionMax    = 1000 // beyond it the one that ends first is ended
)

// sessions are those who have logged in. They are kept in memory: after a restart everybody
// logs in again.
type sessions struct {
	mu  sync.Mutex // guards all
	all map[string]session
}

type session struct {
	role    auth.Role
	ends    time.Time
	version uint64 // of the secrets that were proved
}

// begin makes a session and returns its secret name.
func (s *sessions) begin(role auth.Role, version uint64, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]session)
	}
	for len(s.all) >= sessionMax {
		var ends time.Time
		first := ""
		for name, other := range s.all {
			if first == "" || other.ends.Before(ends) {
				first, ends = name, other.ends
			}
		}
		delete(s.all, first)
	}
	name := rand.Text()
	s.all[name] = session{role: role, ends: now.Add(sessionFor), version: version}
	return name
}

// role returns the role of a session; none if it is unknown or over, or if the secrets have changed since.
func (s *sessions) role(name string, version uint64, now time.Time) auth.Role {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.all[name]
	if ok && (!now.Before(found.ends) || found.version != version) {
		delete(s.all, name)
		return auth.RoleNone
	}
	return found.role
}

func (s *sessions) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// roleOf returns the role of who sent a request: by its session, or as for the API.
func (h *handler) roleOf(r *http.Request) (auth.Role, auth.Verdict) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if role := h.sessions.role(cookie.Value, h.login.Version(), time.Now()); role != auth.RoleNone {
			return role, auth.Right
		}
	}
	return h.login.Of(r)
}

// loginPage is what the login form shows.
type loginPage struct {
	To    string
	Wrong bool
}

func (h *handler) loginForm(v *visit) error {
	to := localPath(v.r.URL.Query().Get("to"))
	if v.role != auth.RoleNone {
		return v.redirect(to)
	}
	return v.show(http.StatusOK, "login", "Log in", loginPage{To: to})
}

func (h *handler) logIn(v *visit) error {
	if err := v.form(); err != nil {
		return err
	}
	to, text := localPath(v.r.PostForm.Get("to")), v.r.PostForm.Get("password")
	version := h.login.Version() // before the look at the secrets
	role, verdict := h.login.OfForm(v.r, text)
	switch verdict {
	case auth.Right:
	case auth.Limited:
		return tooMany()
	case auth.Wrong:
		return v.show(http.StatusUnauthorized, "login", "Log in", loginPage{To: to, Wrong: true})
	}
	if h.login.Required() {
		v.setCookie(sessionCookie, h.sessions.begin(role, version, v.now), sessionFor)
	}
	return v.redirect(to)
}

// tooMany refuses somebody who was wrong too often.
func tooMany() error {
	return refuse(http.StatusTooManyRequests, "There were too many wrong passwords", "They came from your address. Wait a few seconds and try again.")
}

func (h *handler) logOut(v *visit) error {
	if cookie, err := v.r.Cookie(sessionCookie); err == nil {
		h.sessions.end(cookie.Value)
	}
	v.setCookie(sessionCookie, "", -1)
	return v.redirect("/login")
}

// setCookie sets a cookie of this site that no script can read, or with a negative time removes it.
func (v *visit) setCookie(name, value string, lasts time.Duration) {
	age := int(lasts / time.Second)
	if lasts < 0 {
		age = -1
	}
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // secure wherever the browser speaks TLS, which it need not on loopback
		Name: name, Value: value, Path: v.base + "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: v.r.TLS != nil || strings.EqualFold(v.r.Header.Get("X-Forwarded-Proto"), "https"),
	})
}
