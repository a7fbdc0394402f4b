package web

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"millrace/internal/auth"
	"millrace/internal/job"
)

// TestPaging goes to the end of a list and back again: every part is what it was, as far back as the trail goes.
func TestPaging(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	var cmds []job.Command
	const parts = trailMax + 3
	for i := range parts*pageRows - 20 {
		cmds = append(cmds, &job.Push{Spec: job.Spec{
			Namespace: "ns", Queue: "q", Body: fmt.Appendf(nil, "body %d", i),
			BodyKind: job.BodyBytes,
		}})
	}
	s.do(cmds...)
	rows := regexp.MustCompile(`aria-label="Choose job (\d+)"`)
	shown := func(a answer) string { return fmt.Sprint(rows.FindAllString(a.text, -1)) }
	to := func(a answer, rel string) string {
		t.Helper()
		if !rows.MatchString(a.text) {
			t.Fatal("a part without jobs")
		}
		m := regexp.MustCompile(`rel="` + rel + `" href="([^"]*)"`).FindStringSubmatch(a.text)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	// The same with a filter that has every job looked at, some parts in several requests.
	for _, first := range []string{"/jobs?queue=q", "/jobs?body=body&queue=q"} {
		seen := []string{shown(s.page(first))}
		a := s.page(first)
		if to(a, "prev") != "" {
			t.Error("there is something before the beginning")
		}
		for next := to(a, "next"); next != ""; next = to(a, "next") {
			if len(next) > 8000 {
				t.Fatalf("an address of %d bytes", len(next))
			}
			a = s.page(next)
			seen = append(seen, shown(a))
		}
		if len(seen) != parts {
			t.Fatalf("%d parts", len(seen))
		}
		back := 0
		for prev := to(a, "prev"); prev != ""; prev = to(a, "prev") {
			a = s.page(prev)
			back++
			if got := shown(a); got != seen[len(seen)-1-back] {
				t.Fatalf("%d parts back: %s, want %s", back, got, seen[len(seen)-1-back])
			}
		}
		if back != trailMax || !strings.Contains(a.text, ">First page</a>") {
			t.Errorf("%d parts back", back)
		}
	}
}

func TestPagingLinks(t *testing.T) {
	t.Parallel()
	query := url.Values{"state": {"dead"}}
	for name, tt := range map[string]struct {
		asked, next string
		want        links
	}{
		"all of it": {"", "", links{"", "", "", "/l?state=dead"}},
		"the first": {"", "B", links{"", "", "/l?cursor=B&state=dead&trail=", "/l?state=dead"}},
		"the second": {"cursor=B&trail=", "C", links{
			"/l?state=dead", "/l?state=dead",
			"/l?cursor=C&state=dead&trail=B&trail=", "/l?cursor=B&state=dead&trail=",
		}},
		"the third": {
			"cursor=C&trail=B&trail=", "",
			links{"/l?state=dead", "/l?cursor=B&state=dead&trail=", "", "/l?cursor=C&state=dead&trail=B&trail="},
		},
		"shared": {"cursor=C", "", links{"/l?state=dead", "", "", "/l?cursor=C&state=dead"}},
		"within": {
			"cursor=X&from=B&trail=", "C",
			links{
				"/l?state=dead", "/l?state=dead", "/l?cursor=C&state=dead&trail=B&trail=",
				"/l?cursor=B&state=dead&trail=",
			},
		},
	} {
		asked, err := url.ParseQuery(tt.asked)
		if err != nil {
			t.Fatal(err)
		}
		if got := paging("/l", query, asked, tt.next); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if len(query) != 1 {
		t.Error("the query was changed")
	}
}
