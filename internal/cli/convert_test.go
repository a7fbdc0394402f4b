package cli

import (
	"strings"
	"testing"

	"millrace/internal/server"
)

// Whoever has said --yes is not asked to say it.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	s := server.Survivor{Node: "a", Nodes: []string{"a", "b", "c"}, Term: 4, Index: 16}
	for _, decided := range []bool{false, true} {
		got := survivor(&s, decided)
		if !strings.Contains(got, "node a, of a cluster of a, b, c\nlast entry: term 4, index 16, at a time "+
			"that is not known\n") {
			t.Errorf("decided: %v: %s", decided, got)
		}
		if strings.Contains(got, "--yes") == decided {
			t.Errorf("decided: %v: %s", decided, got)
		}
	}
}
