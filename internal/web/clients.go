package web

import (
	"net/http"
	"net/url"
	"strconv"

	"millrace/internal/api"
)

// workersPage is what the list of workers shows.
type workersPage struct {
	links
	Workers []api.Worker
}

func (h *handler) workers(v *visit) error {
	q := v.r.URL.Query()
	found, err := h.service.Workers(api.PageOf{Cursor: q.Get("cursor")})
	if err != nil {
		return err
	}
	p := workersPage{Workers: found.Workers, links: paging("/workers", nil, q, found.Next)}
	return v.show(http.StatusOK, "workers", "Workers", p)
}

// workerPage is what the page of a worker shows.
type workerPage struct {
	Holder string
	Worker *api.Worker // nil: it has not introduced itself
	Self   string
	Jobs   *jobsPage
}

func (h *handler) worker(v *visit) error {
	p := workerPage{Holder: v.r.URL.Query().Get("holder")}
	if p.Holder == "" {
		return refuse(http.StatusNotFound, "There is no such worker",
			"The list of workers, and every running job, leads to theirs.")
	}
	p.Self = workerLink(p.Holder)
	title := "Worker " + p.Holder
	if w, ok := h.service.WorkerOf(p.Holder); ok {
		p.Worker, title = &w, "Worker "+w.ID
	}
	var err error
	p.Jobs, err = h.jobsOf(listWorker, api.Filter{Holder: p.Holder}, p.Self)
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "worker", title, p)
}

// workerLink is the address of the page of a worker.
func workerLink(holder string) string { return link("/worker", "holder", holder) }

// signalWorkers tells one worker, or all, to be quiet or to stop.
func (h *handler) signalWorkers(v *visit) error {
	form := v.r.PostForm
	signal := api.Signal(form.Get("signal"))
	id := form.Get("id")
	if id == "" && form.Get("all") != "yes" {
		return refuse(http.StatusBadRequest, "No worker was chosen", "Nothing was done.")
	}
	if !v.confirmed() && (id == "" || signal == api.SignalStop) {
		who := "all workers"
		if id != "" {
			who = "worker " + id
		}
		about := "They are asked to take no more jobs, and to finish those they have."
		if signal == api.SignalStop {
			about = "They are asked to end: they finish the jobs they have, or fail them, and do not come " +
				"back by themselves."
		}
		return v.confirm(confirmPage{
			Question: "Tell " + who + " to " + signalText(signal) + "?",
			Button:   "Tell them", About: about,
		})
	}
	n, err := h.service.SignalWorkers(form.Get("namespace"), id, signal)
	if err != nil {
		return err
	}
	h.service.Note(v.r.Context(), 0, "%s %s", signal, plural(n, "worker", "workers"))
	return v.done("Told "+plural(n, "worker",
		"workers")+" to "+signalText(signal)+". They hear it with their next heartbeat.", localPath(form.Get("back")))
}

func signalText(s api.Signal) string {
	if s == api.SignalQuiet {
		return "be quiet"
	}
	return "stop"
}

func (h *handler) connections(v *visit) error {
	return v.show(http.StatusOK, "connections", "Connections", h.service.Connections())
}

// batchDone is how many jobs of a batch are done.
func batchDone(b api.Batch) uint64 { return b.Total - min(b.Pending, b.Total) }

// batchesPage is what the list of batches shows.
type batchesPage struct {
	Namespace  string
	Namespaces []api.Namespace
	Batches    []api.Batch
	links
}

func (h *handler) batches(v *visit) error {
	q := v.r.URL.Query()
	names, err := h.service.Namespaces(api.PageOf{Limit: api.PageMax})
	if err != nil {
		return err
	}
	p := batchesPage{Namespace: q.Get("namespace"), Namespaces: names.Namespaces}
	if p.Namespace == "" && len(p.Namespaces) > 0 {
		p.Namespace = p.Namespaces[0].Name
	}
	if p.Namespace != "" {
		found, err := h.service.Batches(p.Namespace, api.PageOf{Cursor: q.Get("cursor")})
		if err != nil {
			return err
		}
		p.Batches = found.Batches
		p.links = paging("/batches", url.Values{"namespace": {p.Namespace}}, q, found.Next)
	}
	return v.show(http.StatusOK, "batches", "Batches", p)
}

// batchPage is what the page of a batch shows.
type batchPage struct {
	api.Batch
	Self string
	Jobs *jobsPage
}

func (h *handler) batch(v *visit) error {
	q := v.r.URL.Query()
	id, err := strconv.ParseUint(q.Get("id"), 10, 64)
	if err != nil {
		return refuse(http.StatusNotFound, "There is no such batch", "Numbers of batches are digits only.")
	}
	b, err := h.service.Batch(q.Get("namespace"), id)
	if err != nil {
		return err
	}
	p := batchPage{Batch: b, Self: link("/batch", "namespace", b.Namespace, "id", q.Get("id"))}
	if p.Jobs, err = h.jobsOf(listBatch, api.Filter{Namespace: b.Namespace, Batch: id}, p.Self); err != nil {
		return err
	}
	return v.show(http.StatusOK, "batch", "Batch "+strconv.FormatUint(id, 10), p)
}
