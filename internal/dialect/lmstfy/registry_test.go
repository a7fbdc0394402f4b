package lmstfy

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// Tokens are all in memory, so their number and what is said about them is bounded.
func TestTokensMax(t *testing.T) {
	t.Parallel()
	r := newRegistry(nil) // a token that is refused does not reach the engine
	if err := r.addToken(tokenKey{"default", "ns", "t"}, strings.Repeat("x", descriptionMax+1)); !errors.Is(err, errLongDescription) {
		t.Errorf("a long description: %v", err)
	}
	full := make(map[tokenKey]string, tokensMax)
	for i := range tokensMax {
		full[tokenKey{"default", "ns", strconv.Itoa(i)}] = ""
	}
	r.tokens.Store(&full)
	if err := r.addToken(tokenKey{"default", "ns", "t"}, ""); !errors.Is(err, errManyTokens) {
		t.Errorf("one token too many: %v", err)
	}
}
