package lmstfy

import (
	"math"
	"net/url"
	"strings"
)

// param is a query parameter that some route looks at.
type param uint8

const (
	paramNone param = iota
	paramDelay
	paramTTL
	paramTries
	paramTTR
	paramTimeout
	paramCount
	paramLimit
	paramToken
	paramGroup

	paramEnd = int(paramGroup) + 1
)

func paramOf(name string) param {
	switch name {
	case "delay":
		return paramDelay
	case "ttl":
		return paramTTL
	case "tries":
		return paramTries
	case "ttr":
		return paramTTR
	case "timeout":
		return paramTimeout
	case "count":
		return paramCount
	case "limit":
		return paramLimit
	case "token":
		return paramToken
	case "group":
		return paramGroup
	}
	return paramNone
}

// query holds the parameters of a request. The texts are parts of the query where
// they are not escaped there.
type query struct {
	given  [paramEnd]bool
	values [paramEnd]string
}

// parse reads a query by the rules of net/url: of a repeated parameter the first
// counts, and a pair that is malformed is as if it were not there.
func (q *query) parse(raw string) {
	*q = query{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		key, value, _ := strings.Cut(pair, "=")
		if strings.IndexByte(pair, ';') >= 0 {
			continue
		}
		key, ok := unescape(key)
		if !ok {
			continue
		}
		p := paramOf(key)
		if p == paramNone || q.given[p] {
			continue
		}
		if value, ok = unescape(value); ok {
			q.given[p], q.values[p] = true, value
		}
	}
}

func unescape(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text, true
	}
	text, err := url.QueryUnescape(text)
	return text, err == nil
}

// uint returns a parameter, or its default if it was not given; not ok if it is not
// a number up to the greatest one.
func (q *query) uint(p param, def, most uint64) (uint64, bool) {
	if !q.given[p] {
		return def, true
	}
	return parseUint(q.values[p], most)
}

// parseUint reads decimal digits and nothing else.
func parseUint(text string, most uint64) (n uint64, ok bool) {
	for i := range len(text) {
		d := uint64(text[i]) - '0'
		if d > 9 || n > (most-d)/10 || d > most {
			return 0, false
		}
		n = n*10 + d
	}
	return n, text != ""
}

// The greatest numbers that the protocol allows.
const (
	secondsMax = math.MaxUint32
	triesMax   = math.MaxUint16
	countMax   = 100
	limitMax   = math.MaxInt64
	bulkMax    = 64
)

// splitToken parts a token text into its pool and the token itself. Without a pool
// it is the default one.
func splitToken(text string) (pool, token string) {
	pool, token, ok := strings.Cut(text, ":")
	if !ok {
		return poolDefault, text
	}
	if pool == "" {
		pool = poolDefault
	}
	return pool, token
}
