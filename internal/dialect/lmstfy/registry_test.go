package lmstfy

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"millrace/internal/testkit"
)

// Tokens and limits are all in memory, so their number and what is said about them is bounded.
func TestTokensMax(t *testing.T) {
	t.Parallel()
	r := newRegistry(nil) // what is refused does not reach the engine
	long := tokenKey{"default", "ns", strings.Repeat("x", tokenMax+1)}
	if err := r.addToken(tokenKey{"default", "ns", "t"}, strings.Repeat("x", descriptionMax+1)); !errors.Is(err,
		errLongDescription) {
		t.Errorf("a long description: %v", err)
	}
	if err := r.addToken(long, ""); !errors.Is(err, errLongToken) {
		t.Errorf("a long token: %v", err)
	}
	if err := r.setLimits(long, limits{Read: 1, Interval: 1}, true); !errors.Is(err, errLongToken) {
		t.Errorf("limits of a long token: %v", err)
	}
	for i := range tokensMax {
		k := tokenKey{"default", "ns", strconv.Itoa(i)}
		r.tokens[k], r.limiters[k] = "", new(limiter)
	}
	if err := r.addToken(tokenKey{"default", "ns", "t"}, ""); !errors.Is(err, errManyTokens) {
		t.Errorf("one token too many: %v", err)
	}
	if err := r.setLimits(tokenKey{"default", "ns", "t"}, limits{Read: 1, Interval: 1},
		true); !errors.Is(err, errManyLimits) {
		t.Errorf("limits of one token too many: %v", err)
	}
	d := &Dialect{registry: r}
	if tokens, limits, most, refused := d.TokenCounts(); tokens != most || limits != most || refused != 2 {
		t.Errorf("%d tokens, %d limits of %d, %d refused", tokens, limits, most, refused)
	}
	r.engine = newTestEngine(t)
	if err := r.setLimits(tokenKey{"default", "ns", "7"}, limits{Read: 1, Interval: 1}, true); err != nil {
		t.Errorf("other limits of a token that has some: %v", err)
	}
}

// The texts of all tokens and limits are bounded together, and what is removed counts no longer, also after a start.
func TestTokenBytes(t *testing.T) {
	t.Parallel()
	r := newRegistry(newTestEngine(t))
	k, l := tokenKey{"default", "ns", "token"}, limits{Read: 1, Interval: 1}
	if err := errors.Join(r.addToken(k, "four"), r.setLimits(k, l, false)); err != nil {
		t.Fatal(err)
	}
	again := newRegistry(r.engine)
	if err := again.load(); err != nil || again.bytes != r.bytes || r.bytes != 2*len("defaultnstoken")+len("four") {
		t.Errorf("%d bytes, and %d after a start: %v", r.bytes, again.bytes, err)
	}
	other := tokenKey{"default", "ns", "other"}
	r.bytes += tokensBytes
	if err := r.addToken(other, ""); !errors.Is(err, errTokenBytes) {
		t.Errorf("a token for which there is no room: %v", err)
	}
	if err := r.setLimits(other, l, true); !errors.Is(err, errTokenBytes) {
		t.Errorf("limits for which there is no room: %v", err)
	}
	if err := r.setLimits(k, l, true); err != nil {
		t.Errorf("other limits of a token that has some: %v", err)
	}
	if err := errors.Join(r.dropToken(k), r.dropToken(k)); err != nil || r.bytes != tokensBytes {
		t.Errorf("%d bytes are left, %v", r.bytes-tokensBytes, err)
	}
}

// TestTokensCost is not parallel, because it counts all allocations: what a change costs does not depend on how many
// tokens there are.
func TestTokensCost(t *testing.T) { //nolint:paralleltest // as it says
	r := newRegistry(newTestEngine(t))
	for i := range tokensMax - 1000 {
		k := tokenKey{"default", "ns", strconv.Itoa(i)}
		r.tokens[k], r.limiters[k] = "", new(limiter)
	}
	k := tokenKey{"default", "ns", "t"}
	testkit.Bounded(t, 0, func() {
		if err := errors.Join(r.addToken(k, ""), r.setLimits(k, limits{Read: 1, Interval: 1}, false),
			r.dropToken(k)); err != nil {
			t.Error(err)
		}
	})
}
