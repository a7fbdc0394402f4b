package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// jobPage is what the page of a job shows.
type jobPage struct {
	api.JobDetail
	Body     *contentView
	Result   *contentView
	Timeline []event
	Actions  []jobAction
	Queues   string // the address of the list of its queue
}

// jobAction is a button.
type jobAction struct {
	Action api.Action
	Danger bool
	Target string
	Back   string
}

// event is an entry of the timeline.
type event struct {
	At        time.Time
	Title     string
	Text      string
	Backtrace []string
	Kind      string // failure, now or ahead; empty for the rest
}

// idOf reads the id of a job.
func idOf(text string) (job.ID, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil || n == 0 {
		return 0, refuse(http.StatusNotFound, "There is no such job",
			"Ids of jobs are numbers. To find a job by its key, use the search.")
	}
	return job.ID(n), nil
}

func (h *handler) job(v *visit) error {
	q := v.r.URL.Query()
	id, err := idOf(q.Get("id"))
	if err != nil {
		return err
	}
	namespace, queue := q.Get("namespace"), q.Get("queue")
	if queue == "" {
		found, err := h.service.Jobs(api.Filter{Namespace: namespace, Ref: q.Get("id")}, api.PageOf{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found.Jobs, func(r api.JobRow) bool { return r.ID == id })
		switch {
		case i >= 0:
			queue = found.Jobs[i].Queue
		case found.Next != "": // many queues are left to ask, which the list does step by step
			return v.redirect(link("/jobs", "namespace", namespace, "ref", q.Get("id")))
		default:
			return refuse(http.StatusNotFound, "There is no such job",
				"job "+q.Get("id")+" is not in namespace "+namespace+": it may have been acked, "+
					"deleted or have expired.")
		}
	}
	d, err := h.service.Job(namespace, queue, id)
	if err != nil {
		return err
	}
	p := &jobPage{
		JobDetail: d, Body: viewOf(d.Body, q.Get("as")), Result: viewOf(d.Result, q.Get("result_as")),
		Timeline: timeline(&d), Queues: queueLink(d.Namespace, d.Queue),
	}
	p.Actions = jobActions(&d)
	title := "Job " + strconv.FormatUint(uint64(id), 10)
	return v.show(http.StatusOK, "job", title, p)
}

// jobActions are the buttons of a job: those that apply to its state. An unfinished job is cancelled, another deleted.
func jobActions(d *api.JobDetail) []jobAction {
	var out []jobAction
	self := jobLink(d.Namespace, d.Queue, d.ID)
	for _, a := range actionsFor([]string{d.State}) {
		back := self
		switch {
		case a == api.ActionDelete && api.ActionCancel.Applies(d.State):
			continue
		case a == api.ActionDelete || a == api.ActionCancel:
			back = link("/jobs", "namespace", d.Namespace, "queue", d.Queue)
		case a == api.ActionMove:
			back = jobLink(d.Namespace, "", d.ID)
		}
		out = append(out, jobAction{Action: a, Danger: textOf(a).danger, Target: targetText(&d.JobRow), Back: back})
	}
	return out
}

// stateTexts say what the state of a job means for it.
var stateTexts = map[string]string{
	"scheduled": "Waits for its time", "blocked": "Waits for other jobs", "ready": "Ready to be fetched",
	"running":  "Running",
	"retrying": "Waits for its next attempt", "buried": "Buried, until it is kicked", "done": "Done",
	"failed": "Failed for good", "dead": "Dead",
}

// failureTexts say how a try failed.
var failureTexts = map[string]string{
	"worker": "Failed", "lapse": "Its lease lapsed", "end": "Its holder went away",
	"blocker": "A job it waited for failed",
}

// timeline puts what is known about the life of a job in order.
func timeline(d *api.JobDetail) []event {
	var out []event
	add := func(at *time.Time, e event) {
		if at != nil {
			e.At = *at
			out = append(out, e)
		}
	}
	add(d.Created, event{Title: "Pushed", Text: "through " + d.PushedBy})
	for i := range d.Failures {
		f := &d.Failures[i]
		text := f.Message
		if f.Type != "" {
			text = f.Type + ": " + f.Message
		}
		add(f.At, event{
			Title: cmp.Or(failureTexts[f.Kind], "Failed"), Text: text,
			Backtrace: f.Backtrace, Kind: "failure",
		})
	}
	current := event{Title: cmp.Or(stateTexts[d.State], d.State), Kind: "now"}
	if d.Lease != nil {
		current.Text = "fetched through " + d.Lease.FetchedBy + ", held by " + cmp.Or(d.Lease.Worker, d.Lease.Holder)
		add(d.Lease.Until, event{Title: "Its lease ends", Kind: "ahead"})
	}
	add(d.Since, current)
	if d.State == job.Scheduled.Name() || d.State == job.Retrying.Name() {
		add(d.RunAt, event{Title: "Due", Kind: "ahead"})
	}
	add(d.ExpireAt, event{Title: "Expires", Kind: "ahead"})
	slices.SortStableFunc(out, func(a, b event) int { return a.At.Compare(b.At) })
	return out
}

// jobBody hands out a body as it was pushed, as a file: a browser must not show it as a page.
func (h *handler) jobBody(v *visit) error {
	q := v.r.URL.Query()
	id, err := idOf(q.Get("id"))
	if err != nil {
		return err
	}
	body, err := h.service.JobBody(q.Get("namespace"), q.Get("queue"), id)
	if err != nil {
		return err
	}
	head := v.w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Disposition", "attachment; filename=job-"+strconv.FormatUint(uint64(id), 10))
	write(v.w, v.r, http.StatusOK, body, nil)
	return nil
}
