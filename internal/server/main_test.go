package server

import (
	"testing"

	"go.uber.org/goleak"

	"millrace/test/tier"
)

// Most of the tests wait for elections. Raft does not answer what it was asked shortly before it was shut down, and
// somebody waits for it.
func TestMain(m *testing.M) {
	tier.Parallel(8)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*deferError).Error"))
}
