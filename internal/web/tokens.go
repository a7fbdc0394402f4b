package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

	"millrace/internal/api"
)

// tokensPage is what the list of tokens shows.
type tokensPage struct {
	Namespace string
	Pool      string
	Required  bool
	Pools     []string
	Tokens    []api.Token
	Filtered  bool
	Made      *api.NewToken // just now: it is shown once
	links
}

func (h *handler) tokens(v *visit) error {
	p, err := h.tokenList(v.r.URL.Query())
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "tokens", "Tokens and limits", p)
}

func (h *handler) tokenList(q url.Values) (*tokensPage, error) {
	p := &tokensPage{Namespace: q.Get("namespace"), Pool: q.Get("pool")}
	found, err := h.service.Tokens(api.TokenFilter{Namespace: p.Namespace, Pool: p.Pool},
		api.PageOf{Cursor: q.Get("cursor")})
	if err != nil {
		return nil, err
	}
	p.Required, p.Pools, p.Tokens = found.Required, found.Pools, found.Tokens
	query := filled("namespace", p.Namespace, "pool", p.Pool)
	p.Filtered = len(query) > 0
	p.links = paging("/tokens", query, q, found.Next)
	return p, nil
}

// actOnTokens makes and removes tokens, and sets limits.
func (h *handler) actOnTokens(v *visit) error {
	form := v.r.PostForm
	back := localPath(cmp.Or(form.Get("back"), "/tokens"))
	switch form.Get("action") {
	case "add":
		return h.makeToken(v)
	case "remove":
		t, err := h.service.Token(form.Get("token"))
		if err != nil {
			return err
		}
		if !v.confirmed() {
			return v.confirm(confirmPage{
				Question: "Remove the token?", Button: "Remove the token",
				About: "Token " + t.Masked + " (" + t.Description + ") of namespace " + t.Namespace +
					", pool " + t.Pool +
					". Clients that use it are refused at once. This cannot be undone.",
			})
		}
		if err := h.service.DropToken(v.r.Context(), t.ID); err != nil {
			return err
		}
		return v.done("Removed token "+t.Masked+" of namespace "+t.Namespace+".", back)
	case "limit":
		l, err := limitsOf(form)
		if err != nil {
			return err
		}
		t, err := h.service.SetTokenLimits(v.r.Context(), form.Get("token"), l)
		if err != nil {
			return err
		}
		return v.done("Token "+t.Masked+" of namespace "+t.Namespace+" is limited.", back)
	case "unlimit":
		t, err := h.service.SetTokenLimits(v.r.Context(), form.Get("token"), nil)
		if err != nil {
			return err
		}
		return v.done("Token "+t.Masked+" of namespace "+t.Namespace+" has no limits.", back)
	}
	return refuse(http.StatusBadRequest, "There is no such action", "Nothing was done.")
}

// makeToken makes a token. The answer is the page itself and no redirect, because a token is told only once and must
// not travel in a cookie.
func (h *handler) makeToken(v *visit) error {
	form := v.r.PostForm
	made, err := h.service.AddToken(v.r.Context(), api.TokenOptions{
		Namespace: form.Get("namespace"), Pool: form.Get("pool"), Description: form.Get("description"),
		Token: form.Get("text"),
	})
	if err != nil {
		return err
	}
	p, err := h.tokenList(url.Values{})
	if err != nil {
		return err
	}
	p.Made = &made
	return v.show(http.StatusOK, "tokens", "Tokens and limits", p)
}

// limitsOf reads limits; a field that is empty is no limit.
func limitsOf(form url.Values) (*api.TokenLimits, error) {
	var l api.TokenLimits
	for _, f := range []struct {
		name string
		to   *int64
	}{{"reads", &l.Reads}, {"writes", &l.Writes}, {"interval", &l.Interval}} {
		text := form.Get(f.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "This is no number of calls",
				"Nothing was done. Leave a field empty for no limit.")
		}
		*f.to = n
	}
	return &l, nil
}
