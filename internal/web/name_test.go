package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"millrace/internal/auth"
	"millrace/internal/job"
)

var hrefPattern = regexp.MustCompile(`href="([^"]*)"`)

// follow asks for the page behind the first link of a page that begins with something and has all pairs in its query.
func (s *site) follow(from answer, path string, pairs ...string) answer {
	s.t.Helper()
	for _, m := range hrefPattern.FindAllStringSubmatch(from.text, -1) {
		to := html.UnescapeString(m[1])
		u, err := url.Parse(to)
		if err != nil || u.Path != path {
			continue
		}
		fits := true
		for i := 0; i < len(pairs); i += 2 {
			fits = fits && u.Query().Get(pairs[i]) == pairs[i+1]
		}
		if fits {
			return s.page(to)
		}
	}
	s.t.Fatalf("no link to %s %q in %s", path, pairs, from.text)
	return answer{}
}

// Every page and form works for names that mean something in paths, in queries and in pages.
func TestOddNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		".", "..", "~.", "a/b", "/", "%2e", "%2e%2e", " ", "a b", "?", "#x", "%", "&a=b", "+",
		"é", "日本", `<b>"'`, "a/../b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, auth.LoginOptions{})
			s.headers["X-Forwarded-Prefix"] = "/below"
			testOddName(t, s, name)
		})
	}
}

func testOddName(t *testing.T, s *site, name string) {
	t.Helper()
	s.push(job.Spec{Namespace: name, Queue: name, Key: name, Type: name})
	queue := s.follow(s.page("/queues"), "/below/queue", "namespace", name, "queue", name)
	if want := "<title>Queue " + html.EscapeString(name); !strings.Contains(html.UnescapeString(queue.text),
		html.UnescapeString(want)) {
		t.Errorf("another page: %s", queue.text)
	}
	press := func(from answer, action string, pairs ...string) answer {
		t.Helper()
		f := from.form(t, `value="`+action+`"`).with("action", action)
		for i := 0; i < len(pairs); i += 2 {
			f = f.with(pairs[i], pairs[i+1])
		}
		f.action = strings.TrimPrefix(f.action, "/below")
		a := s.submit(f)
		if a.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", action, a.Code, a.text)
		}
		return a
	}
	paused := func() bool {
		q, err := s.service.Queue(name, name)
		if err != nil {
			t.Fatal(err)
		}
		return q.Paused
	}
	queue = press(queue, "pause")
	if !paused() {
		t.Error("it is not paused")
	}
	if queue = press(queue, "resume"); paused() {
		t.Error("it is not resumed")
	}
	jobs := s.follow(queue, "/below/jobs", "namespace", name, "queue", name, "state", "ready")
	detail := s.follow(jobs, "/below/job", "namespace", name, "queue", name)
	s.follow(detail, "/below/queue", "namespace", name, "queue", name)
	press(detail, "bury")
	q, err := s.service.Queue(name, name)
	if err != nil || q.Counts["buried"] != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	press(queue, "purge", "state", "buried")
	press(queue, "remove")
	if _, err := s.service.Queue(name, name); err == nil {
		t.Error("the queue is still there")
	}
}
