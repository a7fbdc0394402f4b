package web

import (
	"net/http"
	"strconv"
	"time"

	"millrace/internal/api"
)

// cronList shows all cron entries.
func (h *handler) cronList(v *visit) error {
	found, err := h.service.Crons("")
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "crons", "Cron", found.Cron)
}

// cronPage is what is shown of a cron entry.
type cronPage struct {
	api.Cron
	Runs  []api.CronRun
	Comes []time.Time // its next runs
	Self  string
}

// nextShown is of how many runs a page tells when they will be.
const nextShown = 5

func (h *handler) cronEntry(v *visit) error {
	q := v.r.URL.Query()
	namespace, name := q.Get("namespace"), q.Get("name")
	c, err := h.service.Cron(namespace, name)
	if err != nil {
		return err
	}
	next, err := h.service.NextCron(namespace, name, nextShown)
	if err != nil {
		return err
	}
	p := cronPage{
		Cron: c, Runs: c.Runs, Comes: next.Next,
		Self: link("/cron/entry", "namespace", namespace, "name", name),
	}
	return v.show(http.StatusOK, "cron", "Cron entry "+name, p)
}

// actOnCron pauses, resumes, runs or removes a cron entry.
func (h *handler) actOnCron(v *visit) error {
	form, ctx := v.r.PostForm, v.r.Context()
	namespace, name := form.Get("namespace"), form.Get("name")
	back := link("/cron/entry", "namespace", namespace, "name", name)
	var notice string
	var err error
	switch form.Get("action") {
	case "pause":
		notice = "Entry " + name + " is paused."
		_, err = h.service.PauseCron(ctx, namespace, name, true)
	case "resume":
		notice = "Entry " + name + " goes on."
		_, err = h.service.PauseCron(ctx, namespace, name, false)
	case "run":
		var j api.Pushed
		j, err = h.service.RunCron(ctx, namespace, name)
		notice = "Job " + strconv.FormatUint(uint64(j.ID), 10) + " was pushed."
	case "remove":
		if !v.confirmed() {
			return v.confirm(confirmPage{
				Question: "Remove the cron entry " + name + "?", Button: "Remove",
				About: "It pushes no more jobs. Those that it has pushed stay.",
			})
		}
		back, notice = "/cron", "Entry "+name+" is removed."
		err = h.service.DropCron(ctx, namespace, name)
	default:
		return refuse(http.StatusBadRequest, "There is no such action", "Nothing was done.")
	}
	if err != nil {
		return err
	}
	return v.done(notice, back)
}
