//go:build !plants

// Package plant lets bugs be planted into the server, to see whether the tests find them. Each stands as a hook beside
// the code that it breaks. Only a build with the tag plants has them: in all others On is false and the compiler leaves
// them out.
package plant

// Plant is a bug.
type Plant string

// On reports whether the bug is planted.
func (Plant) On() bool { return false }

// Or returns what is right, or what is wrong if the bug is planted.
func Or[T any](right T, _ Plant, _ T) T { return right }
