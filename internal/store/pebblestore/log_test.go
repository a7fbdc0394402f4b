package pebblestore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store/pebblestore"
)

func TestEngineLogsAtDebugLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]bool{
		slog.LevelDebug: true, slog.LevelInfo: false, slog.LevelWarn: false, slog.LevelError: false,
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		s := open(t, pebblestore.Options{Dir: memDir, FS: vfs.NewMem(), Logger: log})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "level=DEBUG msg=pebble component=store"); got != want {
			t.Errorf("at %v: %q", level, out.String())
		}
	}
}
