package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
)

// A job is pushed from a form, which a job can fill: to push a copy, or to mend a job that failed.
func TestPushForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	form := url.Values{
		"namespace": {"ns"}, "queue": {"q"}, "type": {"Mail"}, "kind": {"json"},
		"body": {`{"to":"<b>ann</b>"}`}, "retry": {"3"}, "delay": {""},
	}
	for change, status := range map[string]int{
		"body={": 400, "kind=odd": 400, "retry=x": 400, "delay=x": 400,
		"queue=": 400, "replace=x": 400,
	} {
		name, value, _ := strings.Cut(change, "=")
		wrong := maps.Clone(form)
		wrong.Set(name, value)
		if a := s.post("/push", wrong); a.Code != status {
			t.Errorf("%s: %d", change, a.Code)
		}
	}
	a := s.post("/push", form)
	page := s.page(a.Header().Get("Location")).text
	for _, part := range []string{"Pushed job", "&lt;b&gt;ann", ">Duplicate</a>", `data-copy="`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of the job lacks %q:\n%s", part, page)
		}
	}
	if text := s.page("/activity").text; !strings.Contains(text, "push to queue q") ||
		!strings.Contains(text, "web UI") {
		t.Errorf("the activity: %s", text)
	}

	ids := s.allStates("states")
	from := fmt.Sprintf("/push?namespace=ns&queue=states&id=%d", ids["dead"])
	text := s.page(from).text
	if !strings.Contains(text, "and delete the job that failed") || !strings.Contains(text, "\ndead</textarea>") {
		t.Fatal(text)
	}
	dead, err := s.service.Job("ns", "states", ids["dead"])
	if err != nil {
		t.Fatal(err)
	}
	form = url.Values{
		"namespace": {"ns"}, "queue": {"states"}, "kind": {"bytes"}, "body": {"alive\r\nagain"},
		"retry": {"0"}, "replace": {targetText(&dead.JobRow)},
	}
	if to := s.post("/push", form).Header().Get("Location"); !strings.Contains(s.page(to).text,
		"deleted the earlier one") || s.state(ids["dead"]) != "gone" {
		t.Errorf("it is %s", s.state(ids["dead"]))
	}
	if jobs, err := s.service.Jobs(api.Filter{Queue: "states", Body: "alive\nagain"}, api.PageOf{}); err != nil ||
		len(jobs.Jobs) != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
	if text := s.page("/failures?namespace=ns&queue=states").text; strings.Contains(text, "1 dead") {
		t.Error(text)
	}
	if a := s.get(fmt.Sprintf("/push?namespace=ns&queue=states&id=%d", ids["buried"])); a.Code != http.StatusConflict {
		t.Errorf("a body that is no text: %d", a.Code)
	}
	if text := s.page(fmt.Sprintf("/push?namespace=ns&queue=states&id=%d", ids["ready"])).text; strings.Contains(text,
		"delete the job") {
		t.Error("a ready job is not to be replaced")
	}
}

// The progress of a batch is what is done of it.
func TestBatchProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	batch := s.do(&job.NewBatch{Namespace: "ns", Text: "nightly", OpenFor: 1 << 40})[0].Batch
	for range 4 {
		s.push(job.Spec{Queue: "q", Batch: batch})
	}
	s.do(&job.Ack{Ref: job.ByID("ns", "q", s.fetch("q")), Need: job.NeedLeased})
	for _, target := range []string{fmt.Sprintf("/batch?namespace=ns&id=%d", batch), "/batches?namespace=ns"} {
		if text := s.page(target).text; !strings.Contains(text, `max="4" value="1"`) {
			t.Errorf("%s: %s", target, text)
		}
	}
}

// The help explains every state and every action.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, s := range api.ShownStates() {
		if stateHelp[s] == "" {
			t.Errorf("no help about state %s", s)
		}
	}
	for _, a := range api.Actions() {
		if actionHelp[a] == "" {
			t.Errorf("no help about action %s", a)
		}
	}
}
