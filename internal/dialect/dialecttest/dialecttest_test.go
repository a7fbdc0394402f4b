package dialecttest

import (
	"testing"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestCommonCases runs every protocol through the common cases.
func TestCommonCases(t *testing.T) {
	t.Parallel()
	for _, d := range Drivers() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			Run(t, d)
		})
	}
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	Matrix(t, Drivers())
}
