//go:build !race

package raftsim

// slowdown is by how much fewer runs a test makes by itself.
const slowdown = 1
