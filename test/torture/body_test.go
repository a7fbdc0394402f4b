package torture

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// A job is known by its token: the letter of the protocol that pushed it, and what
// makes it unlike all others. Everything else follows from the token, so that
// whoever receives a job can tell whether its body is exactly what was pushed.

// tokenOf makes a token.
func tokenOf(p proto, unlike string) string { return p.String()[:1] + unlike }

// pushedBy tells the protocol from a token.
func pushedBy(token string) proto {
	for p := range protoCount {
		if token[0] == p.String()[0] {
			return p
		}
	}
	return protoCount
}

func hashOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

const filling = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// bodyOf returns the body of a job: its token, and behind a tilde as many letters
// as the token says, none of which a protocol has to escape. One of 64 is large.
func bodyOf(token string) string {
	seed := hashOf("body", token)
	size := int(seed >> 8 % 160)
	if seed%64 == 0 {
		size = int(seed >> 8 % 20000)
	}
	var b strings.Builder
	b.Grow(len(token) + 1 + size)
	b.WriteString(token)
	b.WriteByte('~')
	for range size {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		b.WriteByte(filling[seed%64])
	}
	return b.String()
}

// tokenIn returns the token of a body, and whether the body is the one that it
// must have.
func tokenIn(body string) (string, bool) {
	token, _, ok := strings.Cut(body, "~")
	return token, ok && token != "" && pushedBy(token) < protoCount && bodyOf(token) == body
}

// uuidOf returns the id under which jobs of Workq and Faktory are pushed.
func uuidOf(token string) string {
	a, b := hashOf("a", token), hashOf("b", token)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
}
