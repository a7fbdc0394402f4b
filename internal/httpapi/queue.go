package httpapi

import "millrace/internal/api"

func (c *call) getFairness() error { return c.Result(c.Fairness(c.queueName())) }

func (c *call) setFairness(in *api.Fairness) error {
	namespace, name := c.queueName()
	return c.Result(c.SetFairness(c.R.Context(), namespace, name, *in))
}

func (c *call) listHooks() error { return c.Result(c.Hooks(c.query("namespace"))) }

func (c *call) getHook() error { return c.Result(c.Hook(c.queueName())) }

func (c *call) setHook(in *api.NewHook) error {
	namespace, queue := c.queueName()
	return c.Result(c.SetHook(c.R.Context(), namespace, queue, *in))
}

func (c *call) dropHook() error {
	namespace, queue := c.queueName()
	return c.gone(c.DropHook(c.R.Context(), namespace, queue))
}

func (c *call) getLimits() error { return c.Result(c.Limits(c.queueName())) }

func (c *call) setLimits(in *api.Limits) error {
	namespace, name := c.queueName()
	return c.Result(c.SetLimits(c.R.Context(), namespace, name, *in))
}
