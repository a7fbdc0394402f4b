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
	// Tokens returns all of them, in no order.
	Tokens() ([]api.Token, error)
	// Add makes a token and returns it, and how clients must write it.
	Add(t api.Token) (made api.Token, text string, err error)
	// Drop removes a token with its limits.
	Drop(t api.Token) error
	// SetLimits gives a token limits; nil takes them away.
	SetLimits(t api.Token, l *api.TokenLimits) error
}

// Tokens lists tokens by namespace, pool and description.
func (s *Service) Tokens(f api.TokenFilter, page api.PageOf) (api.TokenPage, error) {
	out := api.TokenPage{Pools: []string{}, Tokens: []api.Token{}}
	limit, at, err := beginPage(page, "tokens", fingerprint(f))
	if err != nil || s.opts.Tokens == nil {
		return out, err
	}
	out.Required, out.Pools = s.opts.Tokens.Required(), s.opts.Tokens.Pools()
	after := api.Token{Namespace: at.Namespace, Pool: at.Queue}
	if i := strings.LastIndexByte(at.After, 0); i >= 0 { // an id has no such byte
		after.Description, after.ID = at.After[:i], at.After[i+1:]
	}
	found := make([]api.Token, 0, limit+1) // the first of those that are wanted
	err = s.eachToken(func(t *api.Token, name func()) bool {
		full := len(found) > limit
		// Most are told apart without their ids, which take longer to make than all the rest.
		if f.Namespace != "" && t.Namespace != f.Namespace || f.Pool != "" && t.Pool != f.Pool ||
			comparePlaces(t, &after) < 0 || full && comparePlaces(t, &found[limit]) > 0 {
			return true
		}
		name()
		i, _ := slices.BinarySearchFunc(found, *t, compareTokens)
		if compareTokens(*t, after) > 0 && i <= limit {
			found = slices.Insert(found[:min(len(found), limit)], i, *t)
		}
		return true
	})
	out.Tokens = found[:min(len(found), limit)]
	if len(found) > limit {
		last := &out.Tokens[limit-1]
		at.Namespace, at.Queue, at.After = last.Namespace, last.Pool, last.Description+"\x00"+last.ID
		out.Next = at.cursor()
	}
	return out, err
}

// comparePlaces tells which of two comes first in the list, as far as that does not depend on their ids.
func comparePlaces(a, b *api.Token) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pool, b.Pool),
		strings.Compare(a.Description, b.Description))
}

// compareTokens tells which of two comes first in the list.
func compareTokens(a, b api.Token) int {
	return cmp.Or(comparePlaces(&a, &b), strings.Compare(a.ID, b.ID))
}

// eachToken visits all tokens until visit returns false; name fills in what may be shown of the one. There may be very
// many, so that it is done beside no search.
func (s *Service) eachToken(visit func(t *api.Token, name func()) bool) error {
	s.searching <- struct{}{}
	defer func() { <-s.searching }()
	all, err := s.opts.Tokens.Tokens()
	if err != nil {
		return api.Refusal(err)
	}
	named := s.namer()
	for i := range all {
		if !visit(&all[i], func() { named(&all[i]) }) {
			return nil
		}
	}
	return nil
}

// tokenIDBytes is how much of a digest makes an id.
const tokenIDBytes = 8

// namer returns what gives a token its id and masks its text. The id names a token without telling it: nobody without
// our key can try out whether a text is the token.
func (s *Service) namer() func(*api.Token) {
	h := hmac.New(sha256.New, s.tokenKey)
	return func(t *api.Token) {
		h.Reset()
		for _, part := range []string{t.Namespace, t.Pool, t.Secret} {
			_, _ = h.Write([]byte(part + "\x00")) // it cannot fail
		}
		t.ID, t.Masked = hex.EncodeToString(h.Sum(nil)[:tokenIDBytes]), masked(t.Secret)
	}
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
func (s *Service) Token(id string) (found api.Token, err error) {
	if s.opts.Tokens != nil {
		err = s.eachToken(func(t *api.Token, name func()) bool {
			if name(); t.ID == id {
				found = *t
			}
			return t.ID != id
		})
	}
	if err == nil && found.ID == "" {
		err = api.NotFound("there is no token %q", id)
	}
	return found, err
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
	made, text, err := s.opts.Tokens.Add(api.Token{
		Namespace: o.Namespace, Pool: o.Pool,
		Description: o.Description, Secret: o.Token,
	})
	if err != nil {
		return api.NewToken{}, api.Refusal(err)
	}
	s.namer()(&made)
	s.Note(ctx, 0, "make token %s for namespace %s", made.Masked, made.Namespace)
	return api.NewToken{Token: made, Text: text}, nil
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
