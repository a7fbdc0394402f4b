package tier_test

import (
	"testing"

	"millrace/test/tier"
)

func TestPick(t *testing.T) {
	for value, want := range map[string]int{"": 2, "quick": 2, "full": 50} {
		t.Setenv("TEST_TIER", value)
		if got := tier.Pick(50, 2); got != want {
			t.Errorf("TEST_TIER=%q picks %d, want %d", value, got, want)
		}
	}
}

// A word that means nothing must not pass for the quick tier: somebody would take its result for that of the full one.
func TestUnknownTier(t *testing.T) {
	t.Setenv("TEST_TIER", "ful")
	defer func() {
		if recover() == nil {
			t.Error("any word is a tier")
		}
	}()
	tier.Full()
}
