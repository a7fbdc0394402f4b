package httpapi

import (
	"strconv"

	"millrace/internal/api"
)

func (c *call) cronName() (namespace, name string) { return c.Name("namespace"), c.Name("name") }

func (c *call) listCron() error { return c.Result(c.Crons(c.query("namespace"))) }

func (c *call) getCron() error { return c.Result(c.Cron(c.cronName())) }

func (c *call) setCron(in *api.NewCron) error {
	namespace, name := c.cronName()
	return c.Result(c.SetCron(c.R.Context(), namespace, name, *in))
}

func (c *call) dropCron() error {
	namespace, name := c.cronName()
	return c.gone(c.DropCron(c.R.Context(), namespace, name))
}

func (c *call) pauseCron(paused bool) error {
	namespace, name := c.cronName()
	return c.Result(c.PauseCron(c.R.Context(), namespace, name, paused))
}

func (c *call) runCron() error {
	namespace, name := c.cronName()
	return c.Result(c.RunCron(c.R.Context(), namespace, name))
}

func (c *call) nextCron() error {
	count := 5
	if text := c.query("count"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return api.Invalid("count: %q is no number", text)
		}
		count = n
	}
	namespace, name := c.cronName()
	return c.Result(c.NextCron(namespace, name, count))
}
