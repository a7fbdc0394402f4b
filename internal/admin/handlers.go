package admin

import (
	"net/http"
	"strconv"
)

func (c *call) getServer() error {
	info := c.Server()
	info.Role = c.role.String()
	return c.answer(http.StatusOK, info)
}

func (c *call) listNamespaces() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.result(c.Namespaces(page))
}

func (c *call) listQueues() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.result(c.Queues(QueueFilter{Namespace: c.query("namespace"), Name: c.query("name")}, page))
}

// queueName returns the queue that the path names.
func (c *call) queueName() (namespace, name string) {
	return c.name("namespace"), c.name("queue")
}

func (c *call) getQueue() error { return c.result(c.Queue(c.queueName())) }

func (c *call) removeQueue() error {
	idle, err := c.flag("if_idle")
	if err != nil {
		return err
	}
	keep, err := c.flag("keep")
	if err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.result(c.RemoveQueue(c.r.Context(), namespace, name, RemoveOptions{IfIdle: idle, Keep: keep}))
}

func (c *call) pauseQueue() error {
	var in struct {
		Seconds float64 `json:"for_seconds"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	d, err := seconds("for_seconds", in.Seconds)
	if err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.result(c.Pause(c.r.Context(), namespace, name, d))
}

func (c *call) resumeQueue() error {
	namespace, name := c.queueName()
	return c.result(c.Resume(c.r.Context(), namespace, name))
}

func (c *call) purgeQueue() error {
	var in struct {
		State string `json:"state"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.result(c.Purge(c.r.Context(), namespace, name, in.State))
}

func (c *call) respawnQueue() error {
	in := struct {
		Limit    int     `json:"limit"`
		Attempts uint32  `json:"attempts"`
		TTL      float64 `json:"ttl_seconds"`
	}{Limit: respawnMax, Attempts: 1}
	if err := c.decode(&in); err != nil {
		return err
	}
	ttl, err := seconds("ttl_seconds", in.TTL)
	if err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.result(c.Respawn(c.r.Context(), namespace, name, RespawnOptions{Limit: in.Limit, Attempts: in.Attempts, TTL: ttl}))
}

func (c *call) listJobs() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	f, err := FilterOf(c.r.URL.Query())
	if err != nil {
		return err
	}
	return c.result(c.Jobs(f, page))
}

func (c *call) getJob() error {
	id, err := c.id()
	if err != nil {
		return err
	}
	return c.result(c.Job(c.name("namespace"), c.query("queue"), id))
}

// getBody answers the bytes as they were pushed. A browser must never take them for a page.
func (c *call) getBody() error {
	id, err := c.id()
	if err != nil {
		return err
	}
	body, err := c.JobBody(c.name("namespace"), c.query("queue"), id)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="job-`+strconv.FormatUint(uint64(id), 10)+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = c.w.Write(body) // nobody to tell
	return nil
}

func (c *call) actOnJob() error {
	id, err := c.id()
	if err != nil {
		return err
	}
	var in struct {
		Action Action `json:"action"`
		With
		Queue string `json:"queue"`
		State string `json:"state"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	t := Target{Namespace: c.name("namespace"), Queue: in.Queue, ID: id, State: in.State}
	if err := c.Act(c.r.Context(), in.Action, t, in.With); err != nil {
		return err
	}
	return c.answer(http.StatusOK, Outcome{Namespace: t.Namespace, ID: id, Done: true})
}

func (c *call) actOnJobs() error {
	var in struct {
		Action Action `json:"action"`
		With
		Jobs []Target `json:"jobs"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	outcomes, err := c.ActAll(c.r.Context(), in.Action, in.Jobs, in.With)
	return c.result(struct {
		Jobs []Outcome `json:"jobs"`
	}{outcomes}, err)
}

func (c *call) listBulk() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.result(c.Bulks(page))
}

func (c *call) startBulk() error {
	var in struct {
		Action Action `json:"action"`
		With
		Filter Filter `json:"filter"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	b, err := c.StartBulk(c.r.Context(), in.Action, in.Filter, in.With)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", Prefix(c.r)+pathAPI+"/bulk/"+b.ID)
	return c.answer(http.StatusAccepted, b)
}

func (c *call) getBulk() error { return c.result(c.Bulk(c.name("bulk"))) }

func (c *call) cancelBulk() error {
	return c.result(c.CancelBulk(c.r.Context(), c.name("bulk")))
}

func (c *call) forgetBulk() error {
	if err := c.ForgetBulk(c.r.Context(), c.name("bulk")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) listWorkers() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.result(c.Workers(page))
}

func (c *call) signalWorkers() error {
	var in struct {
		Signal    Signal `json:"signal"`
		Namespace string `json:"namespace"`
		ID        string `json:"id"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	n, err := c.SignalWorkers(in.Namespace, in.ID, in.Signal)
	if err == nil {
		c.Note(c.r.Context(), 0, "%s %d workers", in.Signal, n)
	}
	return c.result(struct {
		Workers int `json:"workers"`
	}{n}, err)
}

func (c *call) listConnections() error {
	return c.answer(http.StatusOK, struct {
		Connections []Connections `json:"connections"`
	}{c.Connections()})
}

func (c *call) listBatches() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.result(c.Batches(c.query("namespace"), page))
}

func (c *call) getBatch() error {
	id, err := strconv.ParseUint(c.name("batch"), 10, 64)
	if err != nil {
		return notFound("%q is no id of a batch", c.name("batch"))
	}
	return c.result(c.Batch(c.name("namespace"), id))
}

func (c *call) getStorage() error { return c.answer(http.StatusOK, c.Storage()) }

func (c *call) getSettings() error {
	return c.answer(http.StatusOK, struct {
		Settings []Setting `json:"settings"`
	}{c.Settings()})
}

func (c *call) getLive() error { return c.answer(http.StatusOK, c.Live()) }

func (c *call) getHistory() error {
	name := c.query("resolution")
	if name == "" {
		name = resolutions[0].name
	}
	return c.result(c.History(name))
}
