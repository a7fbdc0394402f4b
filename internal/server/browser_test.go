package server

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// browser asks for pages. It keeps no cookies and follows no redirect.
type browser struct {
	t      *testing.T
	scheme string
	client *http.Client
}

func newBrowser(t *testing.T, scheme string) *browser {
	t.Helper()
	return &browser{t, scheme, &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send returns the status of the answer, 0 without one, and its cookies.
func (b *browser) send(method, addr, path, cookie string, form url.Values) (int, []*http.Cookie) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.scheme+"://"+addr+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != "" {
		req.AddCookie(&http.Cookie{Name: "millrace_session", Value: cookie})
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, nil
	}
	_ = resp.Body.Close() // it is not looked at
	return resp.StatusCode, resp.Cookies()
}

// logIn returns the cookie of a session.
func (b *browser) logIn(addr, password string) *http.Cookie {
	b.t.Helper()
	var cookies []*http.Cookie
	until(b.t, "the login is taken", func() (done bool) {
		_, cookies = b.send(http.MethodPost, addr, "/login", "", url.Values{"password": {password}})
		return len(cookies) == 1
	})
	return cookies[0]
}
