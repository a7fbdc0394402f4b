package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	const text = "# T\n\n<!-- a -->\nold\n<!-- /a -->\n\n<!-- b -->\n<!-- /b -->\nend\n"
	path := filepath.Join(t.TempDir(), "document.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Publish(path, "a", "new\n"); err != nil {
		t.Fatal(err)
	}
	if err := Publish(path, "c", "new\n"); err == nil {
		t.Error("a place that is not there is no error")
	}
	got, err := os.ReadFile(path)
	if want := strings.Replace(text, "old", "new", 1); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
