package web

import (
	"net/http"
	"strings"
	"time"

	"millrace/internal/auth"
)

const sessionCookie = "millrace_session"

// roleOf returns the role of who sent a request: by its session, or as for the API.
func (h *handler) roleOf(r *http.Request) (auth.Role, auth.Verdict) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if role := h.service.Logins().Role(cookie.Value, h.login.Proof(), time.Now()); role != auth.RoleNone {
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
	to, text := localPath(v.r.PostForm.Get("to")), v.r.PostForm.Get("password")
	proof := h.login.Proof() // before the look at the secrets
	role, verdict := h.login.OfForm(v.r, text)
	switch verdict {
	case auth.Right:
	case auth.Limited:
		return tooMany()
	case auth.Wrong:
		return v.show(http.StatusUnauthorized, "login", "Log in", loginPage{To: to, Wrong: true})
	}
	if h.login.Required() {
		v.setCookie(sessionCookie, h.service.Logins().Begin(role, proof, v.now), auth.SessionFor)
	}
	return v.redirect(to)
}

// tooMany refuses somebody who was wrong too often.
func tooMany() error {
	return refuse(http.StatusTooManyRequests, "There were too many wrong passwords",
		"They came from your address. Wait a few seconds and try again.")
}

func (h *handler) logOut(v *visit) error {
	v.setCookie(sessionCookie, "", -1)
	if cookie, err := v.r.Cookie(sessionCookie); err == nil {
		if err := h.service.Logins().End(v.r.Context(), cookie.Value, h.login.Proof(), v.now); err != nil {
			return err
		}
	}
	return v.redirect("/login")
}

// themeCookie is set by the button that switches the theme.
const themeCookie = "millrace_theme"

// theme is the theme that was chosen.
func (v *visit) theme() string {
	if cookie, err := v.r.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		return cookie.Value
	}
	return ""
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
