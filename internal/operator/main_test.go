package operator

import (
	"testing"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
