package operator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/job"
)

// fakeTokens is a registry in memory. With err it refuses everything, full every change.
type fakeTokens struct {
	tokens []api.Token
	made   int
	listed int // how often all were asked for
	err    error
	full   bool
}

func (f *fakeTokens) Required() bool  { return true }
func (f *fakeTokens) Pools() []string { return []string{"default", "fast"} }

func (f *fakeTokens) Tokens() ([]api.Token, error) {
	f.listed++
	return slices.Clone(f.tokens), f.err
}

func (f *fakeTokens) Add(t api.Token) (made api.Token, text string, err error) {
	switch {
	case f.full:
		return t, "", job.ErrNoSpace
	case f.err != nil:
		return t, "", f.err
	case t.Description == "":
		return t, "", &job.Error{Kind: job.Invalid, Text: "invalid description"}
	case f.find(t) >= 0:
		return t, "", &job.Error{Kind: job.Exists, Text: "it is there"}
	case t.Secret == "":
		f.made++
		t.Secret = fmt.Sprintf("secret-number-%08d", f.made)
	}
	if t.Pool == "" {
		t.Pool = "default"
	}
	t.Exists = true
	f.tokens = append(f.tokens, t)
	if t.Pool != "default" {
		return t, t.Pool + ":" + t.Secret, nil
	}
	return t, t.Secret, nil
}

func (f *fakeTokens) find(t api.Token) int {
	return slices.IndexFunc(f.tokens, func(o api.Token) bool {
		return o.Secret == t.Secret && o.Namespace == t.Namespace && (o.Pool == t.Pool || t.Pool == "")
	})
}

func (f *fakeTokens) Drop(t api.Token) error {
	if f.err == nil {
		f.tokens = slices.Delete(f.tokens, f.find(t), f.find(t)+1)
	}
	return f.err
}

func (f *fakeTokens) SetLimits(t api.Token, l *api.TokenLimits) error {
	if f.full && l != nil {
		return job.ErrNoSpace
	}
	if f.err == nil {
		f.tokens[f.find(t)].Limits = l
	}
	return f.err
}

// tokenID returns the id of a token.
func (f *fixture) tokenID(t api.Token) string {
	f.service.namer()(&t)
	return t.ID
}

func TestTokens(t *testing.T) {
	t.Parallel()
	registry := new(fakeTokens)
	f := newFixture(t, Options{Tokens: registry}, HandlerOptions{})
	var made api.NewToken
	f.want(201, "POST", "/api/v1/tokens", `{"namespace":"ns","pool":"fast","description":"for reports"}`, &made)
	if made.Text != "fast:secret-number-00000001" || made.Masked != "…0001" || made.ID == "" ||
		made.Pool != "fast" || !made.Exists {
		t.Errorf("%+v", made)
	}
	if registry.listed > 0 {
		t.Error("a new token has all others looked at, which may be very many")
	}
	one := "/api/v1/tokens/" + made.ID
	var got api.Token
	f.want(200, "PUT", one+"/limits", `{"reads":10,"writes":0,"interval_seconds":60}`, &got)
	f.want(200, "GET", one, "", &got)
	if got.Limits == nil || *got.Limits != (api.TokenLimits{Reads: 10, Interval: 60}) || got.ID != made.ID {
		t.Errorf("%+v", got)
	}
	if w := f.call("GET", one, ""); strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the token is told: %s", w.Body)
	}
	f.want(200, "DELETE", one+"/limits", "", &got)
	if registry.tokens[0].Limits != nil {
		t.Error("it still has limits")
	}
	if w := f.call("DELETE", one, ""); w.Code != http.StatusNoContent || len(registry.tokens) != 0 {
		t.Errorf("%d, and %d tokens", w.Code, len(registry.tokens))
	}
	for _, tt := range []struct {
		method, target, body string
		code                 int
		says                 string
	}{
		{"GET", one, "", 404, "there is no token"},
		{"DELETE", one, "", 404, "there is no token"},
		{"PUT", one + "/limits", `{"reads":1,"writes":1,"interval_seconds":1}`, 404, "there is no token"},
		{"PUT", one + "/limits", `{"reads":-1,"writes":1,"interval_seconds":1}`, 400, "no limit"},
		{"PUT", one + "/limits", `{"reads":1,"writes":1}`, 400, "at least 1"},
		{"POST", "/api/v1/tokens", `{"namespace":"ns"}`, 400, "description"},
		{
			"POST", "/api/v1/tokens", `{"namespace":"ns","description":"` + strings.Repeat("x", 256) + `"}`, 400,
			"longer",
		},
		{"GET", "/api/v1/tokens?cursor=" + position{List: "jobs"}.cursor(), "", 400, "another list"},
	} {
		if p := mustProblem(t, f.call(tt.method, tt.target, tt.body)); p.Status != tt.code ||
			!strings.Contains(p.Detail, tt.says) {
			t.Errorf("%s %s: %+v", tt.method, tt.target, p)
		}
	}
}

// A list goes on behind its last token, also if that is gone, and shows what the filter wants.
func TestTokenList(t *testing.T) {
	t.Parallel()
	registry := new(fakeTokens)
	f := newFixture(t, Options{Tokens: registry}, HandlerOptions{})
	for i := range 7 {
		for _, ns := range []string{"a", "b"} {
			if _, err := f.service.AddToken(t.Context(),
				api.TokenOptions{Namespace: ns, Description: fmt.Sprint("number ", i/2)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func(query string) (seen []string) {
		t.Helper()
		for next := ""; ; {
			var page api.TokenPage
			f.want(200, "GET", "/api/v1/tokens?limit=3"+query+"&cursor="+next, "", &page)
			for _, tk := range page.Tokens {
				seen = append(seen, tk.Namespace+" "+tk.Description)
			}
			if next = page.Next; next == "" {
				return seen
			}
		}
	}
	if all := list(""); len(all) != 14 || !slices.IsSorted(all) {
		t.Errorf("%q", all)
	}
	if some := list("&namespace=b&pool=default"); len(some) != 7 || some[0] != "b number 0" {
		t.Errorf("%q", some)
	}
	if none := list("&pool=fast"); len(none) != 0 {
		t.Errorf("%q", none)
	}
	var first, second api.TokenPage
	f.want(200, "GET", "/api/v1/tokens?limit=3", "", &first)
	if err := f.service.DropToken(t.Context(), first.Tokens[2].ID); err != nil {
		t.Fatal(err)
	}
	f.want(200, "GET", "/api/v1/tokens?limit=3&cursor="+first.Next, "", &second)
	if len(second.Tokens) != 3 || compareTokens(second.Tokens[0], first.Tokens[2]) <= 0 {
		t.Errorf("%+v", second.Tokens)
	}
}

// Ids cannot be worked out from tokens, and short tokens are not shown at all.
func TestTokenMasks(t *testing.T) {
	t.Parallel()
	registry := &fakeTokens{tokens: []api.Token{{Namespace: "ns", Pool: "default", Secret: "short"}}}
	a, b := newFixture(t, Options{Tokens: registry}, HandlerOptions{}), newFixture(t,
		Options{Tokens: registry}, HandlerOptions{})
	one, err := a.service.Tokens(api.TokenFilter{}, api.PageOf{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.service.Tokens(api.TokenFilter{}, api.PageOf{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Tokens[0].ID == two.Tokens[0].ID || one.Tokens[0].Masked != "…" {
		t.Errorf("%+v %+v", one.Tokens[0], two.Tokens[0])
	}
}

func TestNoTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	var page api.TokenPage
	f.want(200, "GET", "/api/v1/tokens", "", &page)
	if page.Required || len(page.Tokens)+len(page.Pools) != 0 {
		t.Errorf("%+v", page)
	}
	if p := mustProblem(t, f.call("POST", "/api/v1/tokens",
		`{"namespace":"ns","description":"d"}`)); p.Status != http.StatusConflict {
		t.Errorf("%+v", p)
	}
	if p := mustProblem(t, f.call("DELETE", "/api/v1/tokens/x", "")); p.Status != http.StatusNotFound {
		t.Errorf("%+v", p)
	}
}
