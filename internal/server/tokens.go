package server

import (
	"millrace/internal/api"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/operator"
)

// lmstfyTokens shows the tokens of the LMSTFY protocol to operators.
type lmstfyTokens struct{ d *lmstfy.Dialect }

// tokens returns the registry of tokens; nil if no protocol that has some is served.
func (s *server) tokens() operator.TokenRegistry {
	if s.lmstfy == nil {
		return nil
	}
	return lmstfyTokens{s.lmstfy}
}

// Required reports whether clients need a token.
func (l lmstfyTokens) Required() bool { return l.d.AsksForTokens() }

// Pools returns the names of the pools.
func (l lmstfyTokens) Pools() []string { return l.d.Pools() }

// Tokens returns all tokens and limits.
func (l lmstfyTokens) Tokens() ([]api.Token, error) {
	list, err := l.d.Tokens()
	if err != nil {
		return nil, err
	}
	out := make([]api.Token, len(list))
	for i := range list {
		out[i] = shownToken(&list[i])
	}
	return out, nil
}

func shownToken(t *lmstfy.Token) api.Token {
	shown := api.Token{
		Namespace: t.Namespace, Pool: t.Pool, Secret: t.Token, Exists: t.Exists, Description: t.Description,
		RefusedReads: t.RefusedReads, RefusedWrites: t.RefusedWrites,
	}
	if t.Limits != nil {
		shown.Limits = &api.TokenLimits{
			Reads: t.Limits.Read, Writes: t.Limits.Write,
			Interval: t.Limits.IntervalSeconds,
		}
	}
	return shown
}

// Add makes a token.
func (l lmstfyTokens) Add(t api.Token) (made api.Token, text string, err error) {
	added, text, err := l.d.AddToken(lmstfyToken(t))
	return shownToken(&added), text, err
}

// Drop removes a token with its limits.
func (l lmstfyTokens) Drop(t api.Token) error { return l.d.DropToken(lmstfyToken(t)) }

// SetLimits gives a token limits, or takes them away.
func (l lmstfyTokens) SetLimits(t api.Token, to *api.TokenLimits) error {
	if to == nil {
		return l.d.SetLimits(lmstfyToken(t), nil)
	}
	return l.d.SetLimits(lmstfyToken(t), &lmstfy.Limits{Read: to.Reads, Write: to.Writes, IntervalSeconds: to.Interval})
}

func lmstfyToken(t api.Token) lmstfy.Token {
	return lmstfy.Token{Pool: t.Pool, Namespace: t.Namespace, Token: t.Secret, Description: t.Description}
}
