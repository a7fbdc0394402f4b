package tier_test

import (
	"flag"
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

// What the command line says counts.
func TestParallel(t *testing.T) {
	f := flag.Lookup("test.parallel")
	before, want := f.Value.String(), "7"
	defer func() { _ = f.Value.Set(before) }()
	flag.Visit(func(given *flag.Flag) {
		if given == f {
			want = before
		}
	})
	for _, n := range []int{7, 9} { // the second time a flag has been set
		tier.Parallel(n)
		if got := f.Value.String(); got != want {
			t.Errorf("%s tests run beside each other, want %s", got, want)
		}
	}
}
