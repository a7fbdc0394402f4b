package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// A bug that can no longer be planted proves nothing: each has exactly one place, and
// what it makes of the file is a Go source.
func TestPlantsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", p.file))
			if err != nil {
				t.Fatalf("the file is gone, give the bug a new place in plants.go: %v", err)
			}
			changed, err := p.change(text)
			if err != nil {
				t.Fatalf("%s has changed, give the bug a new place in plants.go: %v", p.file, err)
			}
			if bytes.Equal(changed, text) {
				t.Error("it changes nothing")
			}
			if _, err := parser.ParseFile(token.NewFileSet(), p.file, changed, parser.SkipObjectResolution); err != nil {
				t.Errorf("with it the file is no source: %v", err)
			}
		})
	}
}

// A plant says why it cannot be planted.
func TestChange(t *testing.T) {
	t.Parallel()
	p := plant{old: "a\nb\n", new: "a\nc\n"}
	for text, want := range map[string]string{
		"x\na\nb\n":    "",
		"a\nx\n":       `it stood at a line that is no longer there: "b"`,
		"a\nx\nb\n":    "the lines at which it stood no longer follow each other",
		"a\nb\na\nb\n": "there are 2 places for it, the text is too short",
	} {
		changed, err := p.change([]byte(text))
		switch {
		case err == nil && want == "":
			if string(changed) != "x\na\nc\n" {
				t.Errorf("%q became %q", text, changed)
			}
		case err == nil || err.Error() != want:
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
