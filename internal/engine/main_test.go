package engine_test

import (
	"testing"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
