package operator

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"millrace/internal/api"
)

// TokenRegistry knows the tokens with which clients of a protocol prove what they may use, and how often
// they may ask. Its refusals are errors of package job.
type TokenRegistry interface {
	// Required reports whether clients need a token at all.
	Required() bool
	// Pools are the parts of the protocol's world that have tokens of their own, the usual one first.
	Pools() []string
	// Tokens returns all of them.
	Tokens() ([]api.Token, error)
	// Add makes a token and returns it as clients must write it.
	Add(t api.Token) (string, error)
	// Drop removes a token with its limits.
	Drop(t api.Token) error
	// SetLimits gives a token limits; nil takes them away.
	SetLimits(t api.Token, l *api.TokenLimits) error
}

// Tokens lists tokens by namespace, pool and description.
func (s *Service) Tokens(f api.TokenFilter, page api.PageOf) (api.TokenPage, error) {
	out := api.TokenPage{Pools: []string{}, Tokens: []api.Token{}}
	limit, err := pageSize(page)
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
	after := api.Token{Namespace: at.Namespace, Pool: at.Queue}
	if i := strings.LastIndexByte(at.After, 0); i >= 0 { // an id has no such byte
		after.Description, after.ID = at.After[:i], at.After[i+1:]
	}
	for _, t := range all {
		if f.Namespace != "" && t.Namespace != f.Namespace || f.Pool != "" && t.Pool != f.Pool ||
			compareTokens(t, after) <= 0 {
			continue
		}
		if len(out.Tokens) == limit {
			last := &out.Tokens[limit-1]
			at.Namespace, at.Queue, at.After = last.Namespace, last.Pool, last.Description+"\x00"+last.ID
			out.Next = at.cursor()
			break
		}
		out.Tokens = append(out.Tokens, t)
	}
	return out, nil
}

// compareTokens tells which of two comes first in the list.
func compareTokens(a, b api.Token) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pool, b.Pool),
		strings.Compare(a.Description, b.Description), strings.Compare(a.ID, b.ID))
}

// allTokens returns all of them in order, with what may be shown of them. There may be very many, so that it is done
// beside no search.
func (s *Service) allTokens() ([]api.Token, error) {
	s.searching <- struct{}{}
	defer func() { <-s.searching }()
	all, err := s.opts.Tokens.Tokens()
	if err != nil {
		return nil, api.Refusal(err)
	}
	for i := range all {
		all[i].ID, all[i].Masked = s.tokenID(&all[i]), masked(all[i].Secret)
	}
	slices.SortFunc(all, compareTokens)
	return all, nil
}

// tokenIDBytes is how much of a digest makes an id.
const tokenIDBytes = 8

// tokenID names a token without telling it: nobody without our key can try out whether a text is the token.
func (s *Service) tokenID(t *api.Token) string {
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
func (s *Service) Token(id string) (api.Token, error) {
	if s.opts.Tokens != nil {
		all, err := s.allTokens()
		if err != nil {
			return api.Token{}, err
		}
		for _, t := range all {
			if t.ID == id {
				return t, nil
			}
		}
	}
	return api.Token{}, api.NotFound("there is no token %q", id)
}

// AddToken makes a token.
func (s *Service) AddToken(ctx context.Context, o api.TokenOptions) (api.NewToken, error) {
	if s.opts.Tokens == nil {
		return api.NewToken{}, api.ProblemConflict.New("no protocol that has tokens is served")
	}
	for _, part := range []struct{ name, text string }{
		{"namespace", o.Namespace},
		{"description", o.Description},
		{"token", o.Token},
	} {
		if err := api.CheckName(part.name, part.text); err != nil {
			return api.NewToken{}, err
		}
	}
	text, err := s.opts.Tokens.Add(api.Token{
		Namespace: o.Namespace, Pool: o.Pool,
		Description: o.Description, Secret: o.Token,
	})
	if err != nil {
		return api.NewToken{}, api.Refusal(err)
	}
	all, err := s.allTokens()
	if err != nil {
		return api.NewToken{}, err
	}
	for _, t := range all { // a text may name its pool before a colon
		if t.Namespace == o.Namespace && (t.Secret == text || t.Pool+":"+t.Secret == text) {
			s.Note(ctx, 0, "make token %s for namespace %s", t.Masked, t.Namespace)
			return api.NewToken{Token: t, Text: text}, nil
		}
	}
	return api.NewToken{}, api.NotFound("the token is gone already: somebody else has removed it")
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
func (s *Service) SetTokenLimits(ctx context.Context, id string, l *api.TokenLimits) (api.Token, error) {
	if l != nil && (l.Reads < 0 || l.Writes < 0 || l.Interval < 1) {
		return api.Token{}, api.Invalid("reads and writes are 0 for no limit, or more; interval_seconds is at least 1")
	}
	t, err := s.Token(id)
	if err != nil {
		return api.Token{}, err
	}
	if err := s.opts.Tokens.SetLimits(t, l); err != nil {
		return api.Token{}, api.Refusal(err)
	}
	t.Limits = l
	if l == nil {
		s.Note(ctx, 0, "remove the limits of token %s of namespace %s", t.Masked, t.Namespace)
	} else {
		s.Note(ctx, 0, "limit token %s of namespace %s: %d reads, %d writes in %d s", t.Masked, t.Namespace, l.Reads,
			l.Writes, l.Interval)
	}
	return t, nil
}
