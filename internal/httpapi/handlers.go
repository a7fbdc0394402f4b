package httpapi

import (
	"net/http"
	"strconv"

	"millrace/internal/api"
	"millrace/internal/operator"
)

func (c *call) getServer() error {
	info := c.Server()
	info.Role = c.role.String()
	return c.Answer(http.StatusOK, info)
}

func (c *call) listQueues() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.Result(c.Queues(api.QueueFilter{Namespace: c.query("namespace"), Name: c.query("name")}, page))
}

// queueName returns the queue that the path names.
func (c *call) queueName() (namespace, name string) {
	return c.Name("namespace"), c.Name("queue")
}

func (c *call) getQueue() error { return c.Result(c.Queue(c.queueName())) }

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
	return c.Result(c.RemoveQueue(c.R.Context(), namespace, name, api.RemoveOptions{IfIdle: idle, Keep: keep}))
}

func (c *call) pauseQueue(in *api.PauseRequest) error {
	d, err := api.Seconds("for_seconds", in.Seconds)
	if err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.Result(c.Pause(c.R.Context(), namespace, name, d))
}

func (c *call) resumeQueue() error {
	namespace, name := c.queueName()
	return c.Result(c.Resume(c.R.Context(), namespace, name))
}

func (c *call) purgeQueue(in *api.PurgeRequest) error {
	namespace, name := c.queueName()
	return c.Result(c.Purge(c.R.Context(), namespace, name, in.State))
}

func (c *call) respawnQueue() error {
	in := api.RespawnRequest{Limit: operator.RespawnMax, Attempts: 1}
	if err := c.Decode(&in); err != nil {
		return err
	}
	ttl, err := api.Seconds("ttl_seconds", in.TTL)
	if err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.Result(c.Respawn(c.R.Context(), namespace, name,
		api.RespawnOptions{Limit: in.Limit, Attempts: in.Attempts, TTL: ttl}))
}

func (c *call) listJobs() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	f, err := api.FilterOf(c.R.URL.Query())
	if err != nil {
		return err
	}
	return c.Result(c.Jobs(f, page))
}

func (c *call) getJob() error {
	id, err := c.ID()
	if err != nil {
		return err
	}
	return c.Result(c.Job(c.Name("namespace"), c.query("queue"), id))
}

// getBody answers the bytes as they were pushed. A browser must never take them for a page.
func (c *call) getBody() error {
	id, err := c.ID()
	if err != nil {
		return err
	}
	body, err := c.JobBody(c.Name("namespace"), c.query("queue"), id)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="job-`+strconv.FormatUint(uint64(id), 10)+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = c.W.Write(body) // nobody to tell
	return nil
}

func (c *call) actOnJob() error {
	id, err := c.ID()
	if err != nil {
		return err
	}
	var in api.ActRequest
	if err := c.Decode(&in); err != nil {
		return err
	}
	t := api.Target{Namespace: c.Name("namespace"), Queue: in.Queue, ID: id, State: in.State}
	if err := c.Act(c.R.Context(), in.Action, t, in.With); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, api.Outcome{Namespace: t.Namespace, ID: id, Done: true})
}

func (c *call) actOnJobs(in *api.ActAllRequest) error {
	outcomes, err := c.ActAll(c.R.Context(), in.Action, in.Jobs, in.With)
	return c.Result(api.Outcomes{Jobs: outcomes}, err)
}

func (c *call) startBulk(in *api.BulkRequest) error {
	b, err := c.StartBulk(c.R.Context(), in.Action, in.Filter, in.With)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", Prefix(c.R)+api.PathAPI+"/bulk/"+b.ID)
	return c.Answer(http.StatusAccepted, b)
}

func (c *call) getBulk() error { return c.Result(c.Bulk(c.Name("bulk"))) }

func (c *call) cancelBulk() error {
	return c.Result(c.CancelBulk(c.R.Context(), c.Name("bulk")))
}

func (c *call) forgetBulk() error {
	return c.gone(c.ForgetBulk(c.R.Context(), c.Name("bulk")))
}

func (c *call) signalWorkers(in *api.SignalRequest) error {
	n, err := c.SignalWorkers(in.Namespace, in.ID, in.Signal)
	if err == nil {
		c.Note(c.R.Context(), 0, "%s %d workers", in.Signal, n)
	}
	return c.Result(api.Signalled{Workers: n}, err)
}

func (c *call) listConnections() error {
	return c.Answer(http.StatusOK, api.ConnectionList{Connections: c.Connections()})
}

func (c *call) listBatches() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.Result(c.Batches(c.query("namespace"), page))
}

func (c *call) getBatch() error {
	id, err := strconv.ParseUint(c.Name("batch"), 10, 64)
	if err != nil {
		return api.NotFound("%q is no id of a batch", c.Name("batch"))
	}
	return c.Result(c.Batch(c.Name("namespace"), id))
}

func (c *call) getStorage() error { return c.Answer(http.StatusOK, c.Storage()) }

func (c *call) getSettings() error {
	return c.Answer(http.StatusOK, api.SettingList{Settings: c.Settings()})
}

func (c *call) getLive() error { return c.Answer(http.StatusOK, c.Live()) }
