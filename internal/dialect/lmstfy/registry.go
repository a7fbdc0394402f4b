package lmstfy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// tokenKey names a token: it is good for one namespace of one pool.
type tokenKey struct{ pool, namespace, token string }

// Where tokens and limits are kept in the engine.
const (
	tokenSpace = "lmstfy.token" //nolint:gosec // a name, not a secret
	limitSpace = "lmstfy.limit"
)

// name is the key as the name of a value in the engine. Only the token may contain
// the separator.
func (k tokenKey) name() string { return k.pool + "/" + k.namespace + "/" + k.token }

func parseTokenKey(name string) (tokenKey, bool) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) != 3 {
		return tokenKey{}, false
	}
	return tokenKey{parts[0], parts[1], parts[2]}, true
}

func (k tokenKey) compare(o tokenKey) int {
	return cmp.Or(cmp.Compare(k.pool, o.pool), cmp.Compare(k.namespace, o.namespace), cmp.Compare(k.token, o.token))
}

// size is how many bytes the key has.
func (k tokenKey) size() int { return len(k.pool) + len(k.namespace) + len(k.token) }

// shown is the token as clients must write it.
func (k tokenKey) shown() string {
	if k.pool == poolDefault {
		return k.token
	}
	return k.pool + ":" + k.token
}

// registry holds the tokens and their limits: durable in the engine, and in memory
// for requests, which do not wait for the disk to look at them.
type registry struct {
	engine *engine.Engine

	refused  atomic.Uint64 // tokens and limits for which there was no room
	changing sync.Mutex    // held by changes until they are committed

	mu       sync.RWMutex        // guards what follows, which is changed with changing held, too
	tokens   map[tokenKey]string // their descriptions
	limiters map[tokenKey]*limiter
	bytes    int // of the texts of both
}

func newRegistry(e *engine.Engine) *registry {
	return &registry{engine: e, tokens: make(map[tokenKey]string), limiters: make(map[tokenKey]*limiter)}
}

// load reads everything from the engine.
func (r *registry) load() error {
	r.changing.Lock()
	defer r.changing.Unlock()
	tokens, size := make(map[tokenKey]string), 0
	err := r.each(tokenSpace, func(k tokenKey, value []byte) error {
		tokens[k] = string(value)
		size += k.size() + len(value)
		return nil
	})
	if err != nil {
		return err
	}
	limiters := make(map[tokenKey]*limiter)
	err = r.each(limitSpace, func(k tokenKey, value []byte) error {
		var l limits
		if err := json.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("limits of a token: %w", err)
		}
		// One that is there goes on counting.
		if limiters[k] = r.limiters[k]; limiters[k] == nil {
			limiters[k] = new(limiter)
		}
		limiters[k].set(l)
		size += k.size()
		return nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens, r.limiters, r.bytes = tokens, limiters, size
	return nil
}

// each visits the values of a space.
func (r *registry) each(space string, visit func(k tokenKey, value []byte) error) error {
	const atOnce = 1000
	for after := ""; ; {
		values, err := r.engine.Values(space, after, atOnce)
		if err != nil {
			return fmt.Errorf("read %s: %w", space, err)
		}
		for _, v := range values {
			k, ok := parseTokenKey(v.Name)
			if !ok {
				return fmt.Errorf("read %s: malformed name %q", space, v.Name)
			}
			if err := visit(k, v.Value); err != nil {
				return err
			}
			after = v.Name
		}
		if len(values) < atOnce {
			return nil
		}
	}
}

// do applies a command.
func (r *registry) do(cmd job.Command) error {
	if err := r.engine.NewCaller().Do(context.Background(), cmd)[0].Err; err != nil {
		return err
	}
	return nil
}

// valid reports whether a token exists.
func (r *registry) valid(k tokenKey) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.tokens[k]
	return ok
}

// limiter returns the limiter of a token; nil if it has none.
func (r *registry) limiter(k tokenKey) *limiter {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.limiters[k]
}

// tokensMax bounds the tokens, which are all in memory, and so the limits, which a token may have before it exists;
// tokensBytes bounds the texts of all of them, which one answer tells; tokenMax bounds the text of one, and
// descriptionMax what is said about it.
const (
	tokensMax      = 100_000
	tokensBytes    = 32 << 20
	tokenMax       = 1 << 10
	descriptionMax = 1 << 10
)

var (
	errManyTokens      = &job.Error{Kind: job.Invalid, Text: "too many tokens: remove one of the 100000"}
	errManyLimits      = &job.Error{Kind: job.Invalid, Text: "too many limits: remove one of the 100000"}
	errLongToken       = &job.Error{Kind: job.Invalid, Text: "the token is longer than 1024 bytes"}
	errLongDescription = &job.Error{Kind: job.Invalid, Text: "the description is longer than 1024 bytes"}
	errTokenBytes      = &job.Error{Kind: job.Invalid, Text: "tokens and descriptions have 32 MiB in all: remove one"}
	errTokenExists     = &job.Error{Kind: job.Exists, Text: "the token has already existed"}
	errLimiterExists   = errors.New("has already exists")
)

// addToken makes a token.
func (r *registry) addToken(k tokenKey, description string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	switch {
	case len(r.tokens) >= tokensMax:
		r.refused.Add(1)
		return errManyTokens
	case len(k.token) > tokenMax:
		return errLongToken
	case len(description) > descriptionMax:
		return errLongDescription
	case r.bytes+k.size()+len(description) > tokensBytes:
		r.refused.Add(1)
		return errTokenBytes
	}
	err := r.do(&job.SetValue{Space: tokenSpace, Name: k.name(), Value: []byte(description), IfAbsent: true})
	if isExists(err) {
		return errTokenExists
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[k] = description
	r.bytes += k.size() + len(description)
	return nil
}

func isExists(err error) bool {
	refused, ok := errors.AsType[*job.Error](err)
	return ok && refused.Kind == job.Exists
}

// dropToken removes a token and its limits, whether they are there or not. It is
// refused from now on.
func (r *registry) dropToken(k tokenKey) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := r.do(&job.DropValue{Space: tokenSpace, Name: k.name()}); err != nil {
		return err
	}
	r.mu.Lock()
	if description, ok := r.tokens[k]; ok {
		delete(r.tokens, k)
		r.bytes -= k.size() + len(description)
	}
	r.mu.Unlock()
	return r.dropLimits(k)
}

// listTokens returns the tokens of a namespace with their descriptions.
func (r *registry) listTokens(pool, namespace string) map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make(map[string]string)
	for k, description := range r.tokens {
		if k.pool == pool && k.namespace == namespace {
			list[k.token] = description
		}
	}
	return list
}

// setLimits gives a token limits; without replace only if it has none.
func (r *registry) setLimits(k tokenKey, to limits, replace bool) error {
	value, err := json.Marshal(to)
	if err != nil {
		return fmt.Errorf("render limits: %w", err)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	l := r.limiter(k)
	switch {
	case l == nil && len(r.limiters) >= tokensMax:
		r.refused.Add(1)
		return errManyLimits
	case len(k.token) > tokenMax:
		return errLongToken
	case l == nil && r.bytes+k.size() > tokensBytes:
		r.refused.Add(1)
		return errTokenBytes
	}
	err = r.do(&job.SetValue{Space: limitSpace, Name: k.name(), Value: value, IfAbsent: !replace})
	if isExists(err) {
		return errLimiterExists
	}
	if err != nil {
		return err
	}
	if l != nil {
		l.set(to)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limiters[k] = &limiter{limits: to}
	r.bytes += k.size()
	return nil
}

// removeLimits takes the limits from a token, if it has any.
func (r *registry) removeLimits(k tokenKey) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.dropLimits(k)
}

// dropLimits does what removeLimits says. The caller holds changing.
func (r *registry) dropLimits(k tokenKey) error {
	if err := r.do(&job.DropValue{Space: limitSpace, Name: k.name()}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters[k] != nil {
		delete(r.limiters, k)
		r.bytes -= k.size()
	}
	return nil
}

// limitedToken is a token with its limiter.
type limitedToken struct {
	tokenKey
	limiter *limiter
}

// listLimiters returns all limiters in order of their tokens.
func (r *registry) listLimiters() []limitedToken {
	r.mu.RLock()
	list := make([]limitedToken, 0, len(r.limiters))
	for k, l := range r.limiters {
		list = append(list, limitedToken{k, l})
	}
	r.mu.RUnlock()
	slices.SortFunc(list, func(a, b limitedToken) int { return a.compare(b.tokenKey) })
	return list
}
