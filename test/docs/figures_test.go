package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// number is a figure as the documents write it.
var number = regexp.MustCompile(`\b\d+(?:[.,]\d+)*\b`)

// TestFigures lets the README tell no figure that the page on performance does not
// have, where the conditions are.
func TestFigures(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(text(t, "README.md"), "\n## Speed and safety\n")
	section, _, ended := strings.Cut(section, "\nIn the default mode:\n")
	if !found || !ended {
		t.Fatal("README.md has no section on speed and safety")
	}
	known := number.FindAllString(text(t, "docs/performance.md"), -1)
	figures := number.FindAllString(section, -1)
	if len(figures) < 5 {
		t.Errorf("README.md has only the figures %v", figures)
	}
	for _, f := range figures {
		if !slices.Contains(known, f) && f != "50" && f != "99" { // of p50 and p99
			t.Errorf("README.md has the figure %s, docs/performance.md has not", f)
		}
	}
}

// TestShort keeps the pages with results to what a reader wants; history and raw results are in docs/lab.
func TestShort(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"docs/performance.md", "docs/reliability.md", "docs/testing.md"} {
		if lines := strings.Count(text(t, page), "\n"); lines > 120 {
			t.Errorf("%s has %d lines, and at most 120 are read: move the rest to docs/lab", page, lines)
		}
	}
}
