package admin

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"millrace/internal/api"
	"net/http"
	"slices"
	"strings"
)

// TokenRegistry knows the tokens with which clients of a protocol prove what they may use, and how often
// they may ask. Its refusals are errors of package job.
type TokenRegistry interface {
	// Required reports whether clients need a token at all.
	Required() bool
	// Pools are the parts of the protocol's world that have tokens of their own, the usual one first.
	Pools() []string
	// Tokens returns all of them.
	Tokens() ([]Token, error)
	// Add makes a token and returns it as clients must write it.
	Add(t Token) (string, error)
	// Drop removes a token with its limits.
	Drop(t Token) error
	// SetLimits gives a token limits; nil takes them away.
	SetLimits(t Token, l *TokenLimits) error
}

// Token lets clients use a namespace.
type Token struct {
	// ID names it in requests as long as it is there. The token itself is told only to who makes it.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	Masked    string `json:"masked"` // its end
	// Exists is false if there are only limits, for a token that is gone or has not been made.
	Exists      bool         `json:"exists"`
	Description string       `json:"description"`
	Limits      *TokenLimits `json:"limits,omitempty"`
	// How many calls its limits have refused since the server started.
	RefusedReads  uint64 `json:"refused_reads"`
	RefusedWrites uint64 `json:"refused_writes"`

	// Secret is the token itself.
	Secret string `json:"-"`
}

// TokenLimits are how many calls that read and that write a token may make within an interval; zero is no limit.
type TokenLimits struct {
	Reads    int64 `json:"reads"`
	Writes   int64 `json:"writes"`
	Interval int64 `json:"interval_seconds"`
}

// TokenFilter says which tokens are meant. What is empty is all.
type TokenFilter struct {
	Namespace string
	Pool      string
}

// TokenPage is a part of the list of tokens.
type TokenPage struct {
	Required bool     `json:"required"` // clients need a token
	Pools    []string `json:"pools"`
	Tokens   []Token  `json:"tokens"`
	Next     string   `json:"next,omitempty"`
}

// Tokens lists tokens by namespace, pool and description.
func (s *Service) Tokens(f TokenFilter, page PageOf) (TokenPage, error) {
	out := TokenPage{Pools: []string{}, Tokens: []Token{}}
	limit, err := page.size()
	if err != nil {
		return out, err
	}
	at, err := parseCursor(page.Cursor, "tokens", fingerprint(f))
	if err != nil || s.opts.Tokens == nil {
		return out, err
	}
	out.Required, out.Pools = s.opts.Tokens.Required(), s.opts.Tokens.Pools()
	all, err := s.allTokens()
	if err != nil {
		return out, err
	}
	for _, t := range all {
		if f.Namespace != "" && t.Namespace != f.Namespace || f.Pool != "" && t.Pool != f.Pool || t.order(&at) <= 0 {
			continue
		}
		if len(out.Tokens) == limit {
			last := &out.Tokens[limit-1]
			at.Namespace, at.Queue, at.After = last.Namespace, last.Pool, last.place()
			out.Next = at.cursor()
			break
		}
		out.Tokens = append(out.Tokens, t)
	}
	return out, nil
}

// place is where a token stands among those of its namespace and pool.
func (t *Token) place() string { return t.Description + "\x00" + t.ID }

// order compares the place of a token with a position in the list.
func (t *Token) order(p *position) int {
	return cmp.Or(strings.Compare(t.Namespace, p.Namespace), strings.Compare(t.Pool, p.Queue), strings.Compare(t.place(), p.After))
}

// allTokens returns all of them in order, with what may be shown of them.
func (s *Service) allTokens() ([]Token, error) {
	all, err := s.opts.Tokens.Tokens()
	if err != nil {
		return nil, api.Refusal(err)
	}
	for i := range all {
		all[i].ID, all[i].Masked = s.tokenID(&all[i]), masked(all[i].Secret)
	}
	slices.SortFunc(all, func(a, b Token) int {
		return a.order(&position{Namespace: b.Namespace, Queue: b.Pool, After: b.place()})
	})
	return all, nil
}

// tokenIDBytes is how much of a digest makes an id.
const tokenIDBytes = 8

// tokenID names a token without telling it: nobody without our key can try out whether a text is the token.
func (s *Service) tokenID(t *Token) string {
	h := hmac.New(sha256.New, s.tokenKey)
	for _, part := range []string{t.Namespace, t.Pool, t.Secret} {
		_, _ = h.Write([]byte(part + "\x00")) // it cannot fail
	}
	return hex.EncodeToString(h.Sum(nil)[:tokenIDBytes])
}

// Of a token that is long enough to stay a secret its end is shown.
const (
	maskedMin = 16
	maskedEnd = 4
)

func masked(secret string) string {
	if len(secret) < maskedMin {
		return "…"
	}
	return "…" + strings.ToValidUTF8(secret[len(secret)-maskedEnd:], "�")
}

// Token returns one of the tokens.
func (s *Service) Token(id string) (Token, error) {
	if s.opts.Tokens != nil {
		all, err := s.allTokens()
		if err != nil {
			return Token{}, err
		}
		for _, t := range all {
			if t.ID == id {
				return t, nil
			}
		}
	}
	return Token{}, api.NotFound("there is no token %q", id)
}

// NewToken is a token that has just been made.
type NewToken struct {
	Token
	// Text is the token itself, as clients must write it. It is not told again.
	Text string `json:"token"`
}

// TokenOptions say what token to make.
type TokenOptions struct {
	Namespace   string `json:"namespace"`
	Pool        string `json:"pool"` // empty: the usual one
	Description string `json:"description"`
	Token       string `json:"token"` // empty: one that nobody can guess
}

// AddToken makes a token.
func (s *Service) AddToken(ctx context.Context, o TokenOptions) (NewToken, error) {
	if s.opts.Tokens == nil {
		return NewToken{}, api.ProblemConflict.New("no protocol that has tokens is served")
	}
	for _, part := range []struct{ name, text string }{{"namespace", o.Namespace}, {"description", o.Description}, {"token", o.Token}} {
		if err := api.CheckName(part.name, part.text); err != nil {
			return NewToken{}, err
		}
	}
	text, err := s.opts.Tokens.Add(Token{Namespace: o.Namespace, Pool: o.Pool, Description: o.Description, Secret: o.Token})
	if err != nil {
		return NewToken{}, api.Refusal(err)
	}
	all, err := s.allTokens()
	if err != nil {
		return NewToken{}, err
	}
	for _, t := range all { // a text may name its pool before a colon
		if t.Namespace == o.Namespace && (t.Secret == text || t.Pool+":"+t.Secret == text) {
			s.Note(ctx, 0, "make token %s for namespace %s", t.Masked, t.Namespace)
			return NewToken{Token: t, Text: text}, nil
		}
	}
	return NewToken{}, api.NotFound("the token is gone already: somebody else has removed it")
}

// DropToken removes a token with its limits: whoever uses it is refused from now on.
func (s *Service) DropToken(ctx context.Context, id string) error {
	t, err := s.Token(id)
	if err != nil {
		return err
	}
	if err := s.opts.Tokens.Drop(t); err != nil {
		return api.Refusal(err)
	}
	s.Note(ctx, 0, "remove token %s of namespace %s", t.Masked, t.Namespace)
	return nil
}

// SetTokenLimits gives a token limits; nil takes them away.
func (s *Service) SetTokenLimits(ctx context.Context, id string, l *TokenLimits) (Token, error) {
	if l != nil && (l.Reads < 0 || l.Writes < 0 || l.Interval < 1) {
		return Token{}, api.Invalid("reads and writes are 0 for no limit, or more; interval_seconds is at least 1")
	}
	t, err := s.Token(id)
	if err != nil {
		return Token{}, err
	}
	if err := s.opts.Tokens.SetLimits(t, l); err != nil {
		return Token{}, api.Refusal(err)
	}
	t.Limits = l
	if l == nil {
		s.Note(ctx, 0, "remove the limits of token %s of namespace %s", t.Masked, t.Namespace)
	} else {
		s.Note(ctx, 0, "limit token %s of namespace %s: %d reads, %d writes in %d s", t.Masked, t.Namespace, l.Reads, l.Writes, l.Interval)
	}
	return t, nil
}

func (c *call) listTokens() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.Result(c.Tokens(TokenFilter{Namespace: c.query("namespace"), Pool: c.query("pool")}, page))
}

func (c *call) addToken() error {
	var in TokenOptions
	if err := c.Decode(&in); err != nil {
		return err
	}
	t, err := c.AddToken(c.R.Context(), in)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", Prefix(c.R)+api.PathAPI+"/tokens/"+t.ID)
	return c.Answer(http.StatusCreated, t)
}

func (c *call) getToken() error { return c.Result(c.Token(c.Name("token"))) }

func (c *call) dropToken() error {
	if err := c.DropToken(c.R.Context(), c.Name("token")); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) setTokenLimits() error {
	var in TokenLimits
	if err := c.Decode(&in); err != nil {
		return err
	}
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), &in))
}

func (c *call) dropTokenLimits() error {
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), nil))
}
