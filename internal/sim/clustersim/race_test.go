//go:build race

package clustersim

// slowdown is by how much fewer runs a test makes by itself: the race detector
// makes each many times slower, and there is but one goroutine to watch.
const slowdown = 20
