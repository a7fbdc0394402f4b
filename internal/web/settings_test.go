package web

import (
	"strings"
	"testing"

	"millrace/internal/auth"
)

// The page of settings has one part for each group, and a search shows what it finds and nothing else.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	all := s.page("/settings").text
	for _, want := range []string{
		"<h2>data</h2>", "<h2>web</h2>", "<code>data.dir</code>",
		"<code>web.password</code>",
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%d times %s:\n%s", strings.Count(all, want), want, all)
		}
	}
	found := s.page("/settings?find=OPERATORS").text
	if !strings.Contains(found, "<code>web.password</code>") || strings.Contains(found, "<h2>data</h2>") ||
		strings.Contains(found, "data.dir") {
		t.Errorf("a search for operators:\n%s", found)
	}
}
