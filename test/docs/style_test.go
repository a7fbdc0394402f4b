package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// habits are words that docs/style.md asks not to use, with what to write instead. A habit is added here once the
// documents are free of it.
var habits = map[string]string{
	`\bin whatever\b`:    "any, every, case-insensitive",
	`\bbut for\b`:        "except",
	`\bso many\b`:        "that many, n",
	`\banew\b`:           "again, rebuilt",
	`\bas if\.`:          "say as if what",
	`\bof whatever\b`:    "of any",
	`\bwhomever\b`:       "anyone",
	`\bits fill\b`:       "is at its limit",
	`\bwell worn\b`:      "mature",
	`\bWho has (lo|the)`: "name the session or the person",
	`\bcounts no more\b`: "is not used any more",
	`\bin a circle\b`:    "loops",
}

// TestStyle looks for these in what users read: notes of the lab and records of decisions are left as they were
// written.
func TestStyle(t *testing.T) {
	t.Parallel()
	documents, err := documentsOf(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		switch {
		case strings.HasPrefix(d, "docs/lab/"), strings.HasPrefix(d, "docs/decisions/"), d == "docs/style.md":
			continue
		}
		for number, line := range strings.Split(text(t, d), "\n") {
			for habit, instead := range habits {
				if word := regexp.MustCompile(habit).FindString(line); word != "" {
					t.Errorf("%s:%d says %q: write %s", d, number+1, word, instead)
				}
			}
		}
	}
}
