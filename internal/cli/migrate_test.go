package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/internal/migrate/migratetest"
)

// A server that is read under two names is told of before its jobs arrive a second time.
func TestMigrateWarnsOfOtherName(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--masenko-addr=127.0.0.1:0")
	task := migratetest.MasenkoTask{ID: 1, Queue: "mails", Name: "send"}
	dir := t.TempDir()
	file := filepath.Join(dir, "masenko.0.wal")
	if err := os.WriteFile(file, migratetest.MasenkoChunk(task.Op()), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "a second time"
	for _, c := range []struct {
		name   string
		warned bool
	}{{"old", false}, {"old", false}, {"other", true}} {
		got := s.with(nil, "migrate", "masenko", dir, "--name", c.name)
		if got.status != 0 || strings.Contains(got.stderr, warning) != c.warned {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := s.with(nil, "migrate", "masenko", dir, "--dry-run"); !strings.Contains(got.stderr, "old, other") {
		t.Errorf("%+v", got)
	}
}
