package lmstfy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/internal/job"
)

// Token is a token of a namespace as an operator sees it.
type Token struct {
	Pool, Namespace string
	Token           string // without its pool
	// Exists is false if only limits stand under its name: they would count for a token of that name.
	Exists      bool
	Description string
	Limits      *Limits // nil: as many calls as it likes
	// How many calls its limits have refused since the server started.
	RefusedReads, RefusedWrites uint64
}

func (t *Token) key() tokenKey { return tokenKey{t.Pool, t.Namespace, t.Token} }

// Limits are how many calls a token may make within an interval in seconds; zero is no limit.
type Limits struct {
	Read, Write, IntervalSeconds int64
}

// AsksForTokens reports whether a client needs one.
func (d *Dialect) AsksForTokens() bool { return d.opts.Auth }

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
func (d *Dialect) Tokens() ([]Token, error) {
	if err := d.load(); err != nil {
		return nil, err
	}
	r := d.registry
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Token, 0, max(len(r.tokens), len(r.limiters)))
	for k, description := range r.tokens {
		list = append(list, k.described(true, description, r.limiters[k]))
	}
	for k, l := range r.limiters {
		if _, ok := r.tokens[k]; !ok {
			list = append(list, k.described(false, "", l))
		}
	}
	return list, nil
}

// described returns a token with its limiter, if it has one.
func (k tokenKey) described(exists bool, description string, l *limiter) Token {
	t := Token{Pool: k.pool, Namespace: k.namespace, Token: k.token, Exists: exists, Description: description}
	if l != nil {
		now := l.get()
		t.Limits = &Limits{now.Read, now.Write, now.Interval}
		t.RefusedReads, t.RefusedWrites = l.refusals(sideRead), l.refusals(sideWrite)
	}
	return t
}

// AddToken makes a token for a namespace of a pool, and returns it, and how clients must write it. Without a text of
// its own it gets one that nobody can guess. A refusal is a *job.Error.
func (d *Dialect) AddToken(t Token) (made Token, text string, err error) {
	if err := d.load(); err != nil {
		return t, "", err
	}
	k, err := d.addToken(cmp.Or(t.Pool, poolDefault), t.Namespace, t.Token, t.Description)
	return k.described(true, t.Description, d.registry.limiter(k)), k.shown(), err
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

// DropToken removes a token and its limits, whether they are there or not. It is refused from now on.
func (d *Dialect) DropToken(t Token) error {
	if err := d.load(); err != nil {
		return err
	}
	return d.registry.dropToken(t.key())
}

// SetLimits gives a token limits, or with none takes them away. A refusal is a *job.Error.
func (d *Dialect) SetLimits(t Token, l *Limits) error {
	if err := d.load(); err != nil {
		return err
	}
	if l == nil {
		return d.registry.removeLimits(t.key())
	}
	text := ""
	switch {
	case l.IntervalSeconds <= 0:
		text = textNoInterval
	case l.Read <= 0 && l.Write <= 0:
		text = textBadLimits
	}
	if text != "" {
		return &job.Error{Kind: job.Invalid, Text: text}
	}
	return d.registry.setLimits(t.key(), limits{Read: l.Read, Write: l.Write, Interval: l.IntervalSeconds}, true)
}
