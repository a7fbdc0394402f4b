// Package tier says how much of a long test is to run. In the quick tier, which is what
// `go test ./...` runs, a long test takes its short form: fewer seeds, fewer crashes, the
// same assertions. TEST_TIER=full asks for the whole of it; make test and so CI do that.
//
// A test is in both tiers. What must not be shortened is simply not asked for here.
package tier

import (
	"flag"
	"fmt"
	"os"
	"strconv"
)

// Full reports whether long tests run whole.
//
// Ask for it while a test runs, not when a package is initialized: the go tool notes what a
// test reads from its environment, so that a result of one tier is not taken for one of the
// other, and it begins to do so with the first test.
func Full() bool {
	switch v := os.Getenv("TEST_TIER"); v {
	case "", "quick":
		return false
	case "full":
		return true
	default:
		panic(fmt.Sprintf("TEST_TIER is %q: it is quick or full", v))
	}
}

// Pick returns the size of a test: whole in the full tier, short in the quick one.
func Pick[T any](whole, short T) T {
	if Full() {
		return whole
	}
	return short
}

// Parallel has up to n tests of a package run beside each other, unless the flag -parallel says how many. It is for
// tests that wait most of the time, which would leave the processors idle if there were only as many tests as
// processors. TestMain calls it.
func Parallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
