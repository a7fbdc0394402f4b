//go:build plants

package plant

import "os"

// Plant is a bug.
type Plant string

// planted is the one bug that this process has.
var planted = Plant(os.Getenv("PLANT"))

// On reports whether the bug is planted.
func (p Plant) On() bool { return p == planted }

// Or returns what is right, or what is wrong if the bug is planted.
func Or[T any](right T, p Plant, wrong T) T {
	if p.On() {
		return wrong
	}
	return right
}
