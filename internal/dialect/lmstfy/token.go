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

// Tokens returns all tokens and limits, by namespace, pool and token.
func (d *Dialect) Tokens() ([]Token, error) {
	if err := d.load(); err != nil {
		return nil, err
	}
	r := d.registry
	r.mu.RLock()
	all := make(map[tokenKey]*Token, len(r.tokens))
	for k, description := range r.tokens {
		all[k] = &Token{Pool: k.pool, Namespace: k.namespace, Token: k.token, Exists: true, Description: description}
	}
	for k, l := range r.limiters {
		t := all[k]
		if t == nil {
			t = &Token{Pool: k.pool, Namespace: k.namespace, Token: k.token}
			all[k] = t
		}
		now := l.get()
		t.Limits = &Limits{now.Read, now.Write, now.Interval}
		t.RefusedReads, t.RefusedWrites = l.refusals(sideRead), l.refusals(sideWrite)
	}
	r.mu.RUnlock()
	list := make([]Token, 0, len(all))
	for _, t := range all {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Token, b.Token))
	})
	return list, nil
}

// AddToken makes a token for a namespace of a pool, and returns it as clients must write it. Without a text of
// its own it gets one that nobody can guess. A refusal is a *job.Error.
func (d *Dialect) AddToken(t Token) (string, error) {
	if err := d.load(); err != nil {
		return "", err
	}
	k, err := d.addToken(cmp.Or(t.Pool, poolDefault), t.Namespace, t.Token, t.Description)
	return k.shown(), err
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
