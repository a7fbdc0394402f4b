package web

import (
	"encoding/base64"
	"net/http"
	"time"
)

// A notice tells on the next page what a form has done. It travels in a cookie, because the
// answer to a form is a redirect; the page that shows it removes it.
const (
	noticeCookie = "millrace_notice"
	noticeFor    = time.Minute
	noticeMax    = 500 // bytes
)

func (v *visit) notice(text string) {
	if len(text) > noticeMax {
		text = text[:noticeMax]
	}
	v.setCookie(noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(text)), noticeFor)
}

// takeNotice returns the notice of the page before.
func (v *visit) takeNotice() string {
	cookie, err := v.r.Cookie(noticeCookie)
	if err != nil || len(cookie.Value) > 2*noticeMax {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	v.setCookie(noticeCookie, "", -1)
	return string(text)
}

// done answers a form that has done something.
func (v *visit) done(notice, to string) error {
	v.notice(notice)
	return v.redirect(to)
}

// partial reports whether a page is asked for by htmx, for a part of it only.
func (v *visit) partial() bool {
	return v.r.Method == http.MethodGet && v.r.Header.Get("Hx-Request") != ""
}
