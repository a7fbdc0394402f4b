//go:build !race

package clustersim

// slowdown is by how much fewer runs a test makes by itself.
const slowdown = 1
