package config

import (
	"fmt"
	"strings"
)

// Suggest returns the candidate that name was most likely meant to be, or "" if
// none is near. Case and the kind of separator do not count.
func Suggest(name string, candidates []string) string {
	const sizeMax = 128 // nobody mistypes more; it bounds the work on hostile input
	if len(name) > sizeMax {
		return ""
	}
	name = foldName(name)
	best, bestDistance := "", len(name)/3+1
	for _, candidate := range candidates {
		if d := distance(name, foldName(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// didYouMean returns the end of a message with the suggestion, or "".
func didYouMean(name string, candidates []string) string {
	if best := Suggest(name, candidates); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

var foldReplacer = strings.NewReplacer("-", "_", ".", "_")

func foldName(name string) string { return foldReplacer.Replace(strings.ToLower(name)) }

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
