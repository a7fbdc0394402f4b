package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"millrace/internal/api"
)

// pushPage is the form that pushes a job: an empty one, or one that is filled from a job.
type pushPage struct {
	Namespace, Queue, Type, Kind, Body string
	Retry                              int
	From                               string // the address of the job that it was filled from
	Replace                            string // that job, if it can be replaced
	Binary                             bool   // its body cannot be edited
}

// bodyKinds are what the body of a job can be that is pushed here.
func bodyKinds() map[string]string {
	return map[string]string{"json": "JSON", "args": "JSON array of arguments", "bytes": "text", "none": "absent"}
}

func (h *handler) pushForm(v *visit) error {
	q := v.r.URL.Query()
	p := pushPage{
		Namespace: cmp.Or(q.Get("namespace"), "default"), Queue: q.Get("queue"),
		Retry: api.RetryDefault, Kind: "json",
	}
	if q.Get("id") != "" {
		id, err := idOf(q.Get("id"))
		if err != nil {
			return err
		}
		d, err := h.service.Job(p.Namespace, p.Queue, id)
		if err != nil {
			return err
		}
		p.Queue, p.Type, p.Kind, p.From = d.Queue, d.Type, cmp.Or(d.BodyKind,
			"none"), jobLink(d.Namespace, d.Queue, d.ID)
		if api.ActionRetry.Applies(d.State) {
			p.Replace = targetText(&d.JobRow)
		}
		if d.Policy.MaxFails > 0 {
			p.Retry = int(d.Policy.MaxFails) - 1
		}
		if d.Body != nil {
			p.Body = string(d.Body.Base64)
			p.Binary = d.Body.Truncated || d.Body.JSON == nil && d.Body.Text == nil
		}
	}
	if p.Binary {
		return refuse(http.StatusConflict, "This body cannot be edited",
			"It is not text, or too large. Export the job, or push it with a client.")
	}
	return v.show(http.StatusOK, "push", "Push a job", p)
}

// push pushes a job. If it replaces another one, that is deleted afterwards: a job is never lost in between.
func (h *handler) push(v *visit) error {
	form := v.r.PostForm
	retry, err := strconv.Atoi(form.Get("retry"))
	if err != nil {
		return refuse(http.StatusBadRequest, "This is no number of retries", "Nothing was done.")
	}
	delay, err := strconv.ParseFloat(cmp.Or(form.Get("delay"), "0"), 64)
	if err != nil {
		return refuse(http.StatusBadRequest, "This is no number of seconds", "Nothing was done.")
	}
	n := api.NewJob{
		Type: form.Get("type"), Retry: &retry, Delay: delay,
		Payload: api.Payload{BodyKind: form.Get("kind")},
	}
	// A browser ends every line of a field with \r\n, whatever was there.
	if text := strings.ReplaceAll(form.Get("body"), "\r\n", "\n"); n.BodyKind != "none" {
		n.BodyText = &text
	}
	namespace, queue := form.Get("namespace"), form.Get("queue")
	out, err := h.pushJobs(v.r.Context(), namespace, queue, []*api.NewJob{&n})
	if err != nil {
		return err
	}
	h.service.Note(v.r.Context(), 1, "push to queue %s", queue)
	to := jobLink(namespace, queue, out.Jobs[0].ID)
	if form.Get("replace") == "" {
		return v.done("Pushed job "+strconv.FormatUint(uint64(out.Jobs[0].ID), 10)+".", to)
	}
	return h.replace(v, form, to)
}

// replace deletes the job that another one has been pushed for.
func (h *handler) replace(v *visit, form url.Values, to string) error {
	old, err := parseTarget(form.Get("replace"))
	if err != nil {
		return err
	}
	outcomes, err := h.service.ActAll(v.r.Context(), api.ActionDelete, []api.Target{old}, api.With{})
	switch {
	case err != nil:
		return err
	case !outcomes[0].Done:
		return v.done("Pushed the job. The earlier one is still there: it has moved on meanwhile.", to)
	}
	return v.done("Pushed the job, and deleted the earlier one.", to)
}
