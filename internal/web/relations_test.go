package web

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
)

// A job leads to its worker, and the worker to its jobs and to nobody else's.
func TestWorkerPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	s.workers.workers = []api.Worker{{ID: "w<1>", Hostname: "app-01", State: "running", Leases: holder}}
	mine := s.push(job.Spec{Queue: "q", Type: "Mine"})
	s.fetch("q")
	other := s.push(job.Spec{Queue: "q", Type: "Other"})
	s.do(&job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1, Holder: job.Holder{Node: 7, Num: 7}})
	self := "/worker?holder=" + s.holder("q", mine)
	for _, from := range []string{jobLink("ns", "q", mine), "/running", "/workers", "/queue?namespace=ns&queue=q"} {
		if text := s.page(from).text; !strings.Contains(text, `href="`+self+`"`) {
			t.Errorf("%s does not lead to the worker: %s", from, text)
		}
	}
	text := s.page(self).text
	if !strings.Contains(text, "w&lt;1&gt;") || !strings.Contains(text, "app-01") || !strings.Contains(text, "Mine") ||
		strings.Contains(text, "Other") {
		t.Errorf("its page: %s", text)
	}
	if text := s.page("/worker?holder=" + s.holder("q", other)).text; !strings.Contains(text,
		"has not introduced itself") || !strings.Contains(text, "Other") {
		t.Errorf("the page of another: %s", text)
	}
	if a := s.get("/worker"); a.Code != http.StatusNotFound {
		t.Errorf("no worker: %d", a.Code)
	}
}

// A batch shows its jobs, a blocked job what it waits for.
func TestBatchAndBlockedPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	batch := s.do(&job.NewBatch{Namespace: "ns", Text: "nightly", OpenFor: time.Hour})[0].Batch
	for i := range 3 {
		s.push(job.Spec{Queue: fmt.Sprint("q", i), Type: fmt.Sprint("Part", i), Batch: batch})
	}
	s.push(job.Spec{Queue: "q1", Type: "Stranger"})
	text := s.page(fmt.Sprintf("/batch?namespace=ns&id=%d", batch)).text
	for _, want := range []string{"Part0", "Part1", "Part2", "0 of 3 done"} {
		if !strings.Contains(text, want) {
			t.Errorf("the batch lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "Stranger") {
		t.Error("the batch shows a job that is not its own")
	}

	first := s.push(job.Spec{Queue: "a", Type: "First<b>", Numbered: true})
	j, err := s.engine.Get(job.ByID("ns", "a", first))
	if err != nil {
		t.Fatal(err)
	}
	second := s.push(job.Spec{Queue: "b", BlockedBy: []job.Blocker{{QueueNum: j.QueueNum, ID: first}}})
	text = s.page(jobLink("ns", "b", second)).text
	if !strings.Contains(text, "What it waits for") || !strings.Contains(text, "First&lt;b&gt;") ||
		!strings.Contains(text, html.EscapeString(jobLink("ns", "a", first))) {
		t.Errorf("the blocked job: %s", text)
	}
}

// A job that is named by its id alone is shown, unless so many queues are to be asked that the list does it step by
// step.
func TestJobWithoutQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	plain, numbered := s.push(job.Spec{Queue: "zz", Type: "Plain"}), s.push(job.Spec{
		Queue: "zz",
		Type:  "Numbered", Numbered: true,
	})
	if text := s.page(jobLink("ns", "", plain)).text; !strings.Contains(text, "Plain") {
		t.Error(text)
	}
	cmds := make([]job.Command, 2100)
	for i := range cmds {
		cmds[i] = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: fmt.Sprint("q", i)}}
	}
	s.do(cmds...)
	if text := s.page(jobLink("ns", "", numbered)).text; !strings.Contains(text, "Numbered") {
		t.Error(text)
	}
	if to := s.get(jobLink("ns", "", plain)).Header().Get("Location"); to != fmt.Sprintf("/jobs?namespace=ns&ref=%d",
		plain) {
		t.Errorf("led to %q", to)
	}
	if a := s.get("/job?namespace=ns"); a.Code != http.StatusNotFound {
		t.Errorf("no job: %d", a.Code)
	}
}
