package shards

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// loads returns the load of namespaces, of which the i-th largest has 1/i^skew of the largest one's. All of them
// together have 1.
func loads(count int, skew float64) []float64 {
	list := make([]float64, count)
	sum := 0.0
	for i := range list {
		list[i] = math.Pow(float64(i+1), -skew)
		sum += list[i]
	}
	for i := range list {
		list[i] /= sum
	}
	return list
}

// hashed places each namespace by its name alone.
func hashed(load []float64, shards int) []float64 {
	out := make([]float64, shards)
	for i, l := range load {
		h := fnv.New64a()
		_, _ = h.Write([]byte("namespace " + strconv.Itoa(i))) // never fails
		// The low bits of short names are alike, so all bits are mixed.
		out[h.Sum64()*0x9e3779b97f4a7c15>>32%uint64(shards)] += l
	}
	return out
}

// arrived places each namespace, in the order in which they come, on the shard that has the least load then.
func arrived(load []float64, shards int, rng *rand.Rand) []float64 {
	out := make([]float64, shards)
	for _, i := range rng.Perm(len(load)) {
		out[slices.Index(out, slices.Min(out))] += load[i]
	}
	return out
}

// moved places the largest first: what can be had by moving namespaces when their load is known.
func moved(load []float64, shards int) []float64 {
	sorted := slices.SortedFunc(slices.Values(load), func(a, b float64) int { return cmp.Compare(b, a) })
	out := make([]float64, shards)
	for _, l := range sorted {
		out[slices.Index(out, slices.Min(out))] += l
	}
	return out
}

// gain is how much more the shards do together than one, if each does the same and the busiest of them is at its limit.
func gain(placed []float64) float64 { return 1 / slices.Max(placed) }

// How much several shards bring depends on the largest namespace: no placement helps beyond it. A map that is kept, and
// namespaces that can be moved, get close to what is possible; a hash of the name does not.
func TestSpread(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		namespaces int
		skew       float64
	}{{10, 0}, {10, 1}, {100, 0.5}, {100, 1}, {1000, 1}, {1000, 1.5}} {
		load := loads(c.namespaces, c.skew)
		for _, shards := range []int{2, 4, 8} {
			best := min(float64(shards), 1/load[0]) // nobody can have more
			h, a, m := gain(hashed(load, shards)), gain(arrived(load, shards, rng)), gain(moved(load, shards))
			t.Logf("%4d namespaces, skew %.1f, %d shards: by hash %.2f, as they come %.2f, moved %.2f, at most %.2f",
				c.namespaces, c.skew, shards, h, a, m, best)
			for name, g := range map[string]float64{"by hash": h, "as they come": a, "moved": m} {
				if g < 1-1e-9 || g > best+1e-9 {
					t.Errorf("%s: a gain of %.3f, and at most %.3f is possible", name, g, best)
				}
			}
			// The longest-first rule is never further from the best than 4/3.
			if m < best*3/4-1e-9 && c.namespaces >= 4*shards {
				t.Errorf("moved: %.2f of %.2f", m, best)
			}
			if m < h-1e-9 && m < a-1e-9 {
				t.Errorf("moving namespaces is worse than both: %.2f, %.2f, %.2f", m, h, a)
			}
		}
	}
}
