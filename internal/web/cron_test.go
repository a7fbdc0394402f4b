package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"millrace/internal/auth"
	"millrace/internal/job"
)

func TestCronForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	s.do(&job.SetSchedules{Entries: []job.Schedule{{
		Namespace: "ns", Name: "n", When: "@daily",
		Job: job.Spec{Queue: "q"},
	}}})
	act := func(action string, more ...string) answer {
		form := url.Values{"namespace": {"ns"}, "name": {"n"}, "action": {action}}
		for _, name := range more {
			form.Set(name, "yes")
		}
		return s.post("/cron/act", form)
	}
	const page = "/cron/entry?namespace=ns&name=n"
	for _, step := range []struct{ action, shows string }{
		{"pause", "paused"}, {"resume", "Next runs"}, {"run", "manual"},
	} {
		if a := act(step.action); a.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", step.action, a.Code, a.text)
		}
		if a := s.get(page); !strings.Contains(a.text, step.shows) {
			t.Errorf("after %s: %s", step.action, a.text)
		}
	}
	if a := act("dance"); a.Code != http.StatusBadRequest {
		t.Errorf("dance: %d", a.Code)
	}
	if a := act("remove"); !strings.Contains(a.text, "Remove the cron entry n?") {
		t.Errorf("removed without a question: %s", a.text)
	}
	if a := act("remove", "confirm"); a.Code != http.StatusSeeOther {
		t.Errorf("remove: %d", a.Code)
	}
	if a := s.get(page); a.Code != http.StatusNotFound {
		t.Errorf("it is still there: %d", a.Code)
	}
}
