package web

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// jobList is one of the pages that list jobs.
type jobList struct {
	Path  string
	Title string
	State string // that it is about; empty is every one
	// Empty is what is said when there is nothing.
	Empty string
}

// The lists.
var (
	listAll = jobList{
		"/jobs", "Jobs", "",
		"There are no jobs here. Jobs appear as soon as a client pushes one, through any protocol.",
	}
	listScheduled = jobList{
		"/scheduled", "Scheduled", job.Scheduled.Name(),
		"No job waits for its time. Jobs that are pushed with a delay or a date wait here until they are due.",
	}
	listRetries = jobList{
		"/retries", "Retrying", job.Retrying.Name(),
		"No job waits for its next attempt. Jobs that have failed wait here until their back-off is over.",
	}
	listDead = jobList{
		"/dead", "Dead", job.Dead.Name(),
		"There are no dead jobs. Jobs that have used up their attempts are kept here for you to look at.",
	}
	listRunning = jobList{
		"/running", "Running", job.Leased.Name(),
		"No job is running. A job is here from when a worker fetches it until it is acked.",
	}
	listWorker = jobList{"/running", "Its jobs", job.Leased.Name(), "It has no job at the moment."}
	listFailed = jobList{"/jobs", "Its failed jobs", "", "No job of this type is dead or retrying."}
	listBatch  = jobList{
		"/jobs", "Its jobs", "",
		"None of its jobs is there any more: those that succeed are gone, unless they are kept.",
	}
)

// pageRows is how many jobs a page shows.
const pageRows = 50

// jobsPage is what a list of jobs shows.
type jobsPage struct {
	List     jobList
	Filter   api.Filter
	Query    url.Values // the filter
	States   []stateChoice
	After    string
	Before   string
	Filtered bool
	Rows     []api.JobRow
	Progress api.Progress
	// All is how the jobs that fit are called in the choice of what an action concerns.
	All string
	links
	More    string // of what continues this page, if the search has stopped early
	Have    int    // rows shown so far
	Actions []api.Action
}

// Percent is how far the search is.
func (p *jobsPage) Percent() int {
	if p.Progress.Total == 0 {
		return 0
	}
	return int(min(100, p.Progress.Examined*100/p.Progress.Total))
}

type stateChoice struct {
	Name    string
	Checked bool
}

// inputTime is how a browser sends a time of a form; seconds are left out if they are zero.
const (
	inputTime        = "2006-01-02T15:04"
	inputTimeSeconds = "2006-01-02T15:04:05"
)

// filterOf reads the filter of a list, from an address or a form.
func filterOf(l jobList, q url.Values) (api.Filter, error) {
	q = cloneOf(q)
	for _, name := range []string{"after", "before"} {
		for _, layout := range []string{inputTime, inputTimeSeconds} {
			if t, err := time.Parse(layout, q.Get(name)); err == nil {
				q.Set(name, t.Format(time.RFC3339))
			}
		}
	}
	if l.State != "" {
		q.Set("state", l.State)
	}
	return api.FilterOf(q)
}

func cloneOf(q url.Values) url.Values {
	out := make(url.Values, len(q))
	maps.Copy(out, q)
	return out
}

// jobs returns the page of a list.
func (h *handler) jobs(l jobList) page {
	return func(v *visit) error {
		q := v.r.URL.Query()
		f, err := filterOf(l, q)
		if err != nil {
			return err
		}
		have, err := strconv.Atoi(q.Get("have"))
		if err != nil || have < 0 || have >= pageRows {
			have = 0
		}
		found, err := h.service.Jobs(f, api.PageOf{Cursor: q.Get("cursor"), Limit: pageRows - have})
		if err != nil {
			return err
		}
		p := listOf(l, f, q, &found, have)
		if have > 0 || q.Has("have") {
			return v.part("jobs", "found", p)
		}
		return v.show(http.StatusOK, "jobs", l.Title, p)
	}
}

// jobsOf returns the first jobs that fit, as a part of another page.
func (h *handler) jobsOf(l jobList, f api.Filter, self string) (*jobsPage, error) {
	found, err := h.service.Jobs(f, api.PageOf{Limit: pageRows})
	if err != nil {
		return nil, err
	}
	p := listOf(l, f, url.Values{}, &found, 0)
	p.Self, p.Filtered = self, false
	return p, nil
}

func listOf(l jobList, f api.Filter, q url.Values, found *api.JobPage, have int) *jobsPage {
	query := f.Query()
	if l.State != "" {
		query.Del("state")
	}
	p := &jobsPage{
		List: l, Filter: f, Query: query, Rows: found.Jobs, Progress: found.Progress, Filtered: len(query) > 0,
		Have:  have + len(found.Jobs),
		After: inputOf(f.After), Before: inputOf(f.Before), Actions: actionsFor(f.States), All: allOf(&f, found),
	}
	for _, name := range api.ShownStates() {
		p.States = append(p.States, stateChoice{
			name,
			strings.Contains(","+strings.Join(f.States, ",")+",", ","+name+","),
		})
	}
	p.links = paging(l.Path, query, q, found.Next)
	if found.Next != "" && p.Have < pageRows {
		more := cloneOf(query)
		more.Set("cursor", found.Next)
		more.Set("have", strconv.Itoa(p.Have))
		more.Set("from", q.Get("cursor"))
		if q.Has("from") {
			more.Set("from", q.Get("from"))
		}
		more["trail"] = q["trail"]
		p.More = address(l.Path, more)
	}
	return p
}

// inputOf shows a time in a form.
func inputOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(inputTimeSeconds)
}

// allOf tells how many jobs fit, as far as that is known.
func allOf(f *api.Filter, found *api.JobPage) string {
	exact := f.Type == "" && f.Ref == "" && f.Error == "" && f.Body == "" && f.Batch == 0 && f.Holder == "" &&
		f.After == nil && f.Before == nil
	if exact {
		return "all " + number(found.Progress.Total) + " that match"
	}
	return "all that match"
}

// jobLink is the address of the page of a job.
func jobLink(namespace, queue string, id job.ID) string {
	return link("/job", "namespace", namespace, "queue", queue, "id", strconv.FormatUint(uint64(id), 10))
}
