package lmstfy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// Tokens are the tokens of the protocol as operators see and change them.
type Tokens struct{ d *Dialect }

// Tokens returns the tokens.
func (d *Dialect) Tokens() Tokens { return Tokens{d} }

func keyOf(t api.Token) tokenKey { return tokenKey{t.Pool, t.Namespace, t.Secret} }

// Required reports whether a client needs one.
func (t Tokens) Required() bool { return t.d.opts.Auth }

// Pools returns the names of all pools, the default one first.
func (t Tokens) Pools() []string { return t.d.Pools() }

// Pools returns the names of all pools, the default one first.
func (d *Dialect) Pools() []string {
	names := []string{poolDefault}
	for name := range d.pools {
		if name != poolDefault {
			names = append(names, name)
		}
	}
	slices.Sort(names[1:])
	return names
}

// TokenCounts returns how many tokens and limits there are, how many of each there may be, and how many were refused
// because of that since the server started.
func (d *Dialect) TokenCounts() (tokens, limits, most int, refused uint64) {
	r := d.registry
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.tokens), len(r.limiters), tokensMax, r.refused.Load()
}

// Tokens returns all tokens and limits, in no order.
func (t Tokens) Tokens() ([]api.Token, error) {
	if err := t.d.load(); err != nil {
		return nil, err
	}
	r := t.d.registry
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]api.Token, 0, max(len(r.tokens), len(r.limiters)))
	for k, description := range r.tokens {
		list = append(list, k.described(true, description, r.limiters[k]))
	}
	for k, l := range r.limiters {
		if _, ok := r.tokens[k]; !ok { // they would count for a token of that name
			list = append(list, k.described(false, "", l))
		}
	}
	return list, nil
}

// described returns a token with its limiter, if it has one.
func (k tokenKey) described(exists bool, description string, l *limiter) api.Token {
	t := api.Token{Pool: k.pool, Namespace: k.namespace, Secret: k.token, Exists: exists, Description: description}
	if l != nil {
		now := l.get()
		t.Limits = &api.TokenLimits{Reads: now.Read, Writes: now.Write, Interval: now.Interval}
		t.RefusedReads, t.RefusedWrites = l.refusals(sideRead), l.refusals(sideWrite)
	}
	return t
}

// Add makes a token for a namespace of a pool, and returns it, and how clients must write it. Without a text of
// its own it gets one that nobody can guess. A refusal is a *job.Error.
func (t Tokens) Add(token api.Token) (made api.Token, text string, err error) {
	if err := t.d.load(); err != nil {
		return token, "", err
	}
	k, err := t.d.addToken(cmp.Or(token.Pool, poolDefault), token.Namespace, token.Secret, token.Description)
	return k.described(true, token.Description, t.d.registry.limiter(k)), k.shown(), err
}

// addToken checks and makes a token.
func (d *Dialect) addToken(pool, namespace, chosen, description string) (tokenKey, error) {
	key := tokenKey{pool, namespace, chosen}
	refuse := func(text string) (tokenKey, error) { return key, &job.Error{Kind: job.Invalid, Text: text} }
	switch {
	case description == "":
		return refuse(textDescription)
	case chosen != "" && len(chosen) < userTokenMin:
		return refuse(textTokenShort)
	case len(namespace) > nameMax:
		return refuse(textNamespaceLong)
	case !validName(namespace, false):
		return refuse(textNamespace)
	}
	if chosen == "" {
		key.token = newToken(time.Now())
	} else if strings.Count(chosen, ":") == 1 {
		key.pool, key.token = splitToken(chosen)
	}
	if d.pools[key.pool] == nil {
		return refuse(textNoPool)
	}
	return key, d.registry.addToken(key, description)
}

// Drop removes a token and its limits, whether they are there or not. It is refused from now on.
func (t Tokens) Drop(token api.Token) error {
	if err := t.d.load(); err != nil {
		return err
	}
	return t.d.registry.dropToken(keyOf(token))
}

// SetLimits gives a token limits, or with none takes them away. A refusal is a *job.Error.
func (t Tokens) SetLimits(token api.Token, l *api.TokenLimits) error {
	if err := t.d.load(); err != nil {
		return err
	}
	switch {
	case l == nil:
		return t.d.registry.removeLimits(keyOf(token))
	case l.Interval <= 0:
		return &job.Error{Kind: job.Invalid, Text: textNoInterval}
	case l.Reads <= 0 && l.Writes <= 0:
		return &job.Error{Kind: job.Invalid, Text: textBadLimits}
	}
	return t.d.registry.setLimits(keyOf(token), limits{Read: l.Reads, Write: l.Writes, Interval: l.Interval}, true)
}
