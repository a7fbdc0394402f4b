package workq

import (
	"strings"
	"testing"
)

// Every byte is either allowed in a name, wherever it stands, or not.
func TestValidName(t *testing.T) {
	t.Parallel()
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	for c := range 256 {
		for _, name := range [][]byte{{byte(c)}, {byte(c), 'x'}, {'x', byte(c)}} {
			if want := strings.IndexByte(allowed, byte(c)) >= 0; validName(name) != want {
				t.Errorf("%q is a name: %v, want %v", name, !want, want)
			}
		}
	}
	if validName("") || !validName(strings.Repeat("x", nameMax)) || validName(strings.Repeat("x", nameMax+1)) {
		t.Error("a name has 1 to 255 bytes")
	}
}
