package server

import (
	"testing"

	"go.uber.org/goleak"
)

// Raft does not answer what it was asked shortly before it was shut down, and somebody waits for it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*deferError).Error"))
}
