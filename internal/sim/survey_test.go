package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var digits = regexp.MustCompile("[0-9]+|\"[^\"]*\"|b/|a/[a-z]+|(Wait|Want|Keep|Max|By|Holder|Result|NewBody)[^ ]* ?")

func TestSurvey(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	crash := os.Getenv("CRASH") != ""
	seen := map[string]int{}
	fails := 0
	for seed := uint64(from); seed < uint64(from+n); seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := randomSettings(rng)
		next := random(rng, 200, false)
		if crash {
			rng = rand.New(rand.NewPCG(seed, 2))
			s = randomSettings(rng)
			s.onDisk = true
			next = random(rng, 200, true)
			if seed%2 == 0 {
				next = crashing(rng, 200)
			}
		}
		tr, err := execute(s, next)
		if err == nil {
			continue
		}
		fails++
		if len(seen) >= 5 {
			continue
		}
		tr, err = shrink(s, tr, err)
		k := fmt.Sprintf("%.100s", digits.ReplaceAllString(err.Error(), "N"))
		if seen[k]++; seen[k] > 1 {
			continue
		}
		var b strings.Builder
		for _, a := range tr {
			if strings.Contains(a.String(), `Namespace:"z"`) {
				fmt.Fprintf(&b, "z+%v ", a.pass)
				continue
			}
			fmt.Fprintf(&b, "\n  %s", a)
		}
		t.Errorf("seed %d: %d steps: %+v%s\n => %v", seed, len(tr), s.options, b.String(), err)
	}
	t.Logf("%d of %d failed", fails, n)
}
