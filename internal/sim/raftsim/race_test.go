//go:build race

package raftsim

// slowdown is by how much fewer runs a test makes by itself: the race detector makes each many times slower.
const slowdown = 10
