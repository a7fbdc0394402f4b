package testkit

import (
	"runtime/metrics"
	"testing"
)

// boundedSlack is what reading may allocate whatever the size of the input: scratch
// buffers, and what the runtime and the fuzzing itself do meanwhile, which has been seen to be 430 KB.
const boundedSlack = 1 << 20

// Bounded runs f, which reads size bytes of input, and fails the test if it allocates more
// than four times that and a constant: no length in the input may be believed. It counts
// the allocations of the whole process, so nothing else may run at the same time; fuzz
// targets run alone.
func Bounded(tb testing.TB, size int, f func()) {
	tb.Helper()
	before := allocated()
	f()
	if got := allocated() - before; got > 4*uint64(size)+boundedSlack { //nolint:gosec // a length
		tb.Fatalf("%d bytes of input made %d bytes of memory", size, got)
	}
}

// allocated returns how many bytes have been allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
