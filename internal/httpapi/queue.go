package httpapi

import (
	"net/http"

	"millrace/internal/api"
)

func (c *call) getFairness() error { return c.Result(c.Fairness(c.queueName())) }

func (c *call) setFairness() error {
	var in api.Fairness
	if err := c.Decode(&in); err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.Result(c.SetFairness(c.R.Context(), namespace, name, in))
}

func (c *call) listHooks() error { return c.Result(c.Hooks(c.query("namespace"))) }

func (c *call) getHook() error { return c.Result(c.Hook(c.queueName())) }

func (c *call) setHook() error {
	var in api.NewHook
	if err := c.Decode(&in); err != nil {
		return err
	}
	namespace, queue := c.queueName()
	return c.Result(c.SetHook(c.R.Context(), namespace, queue, in))
}

func (c *call) dropHook() error {
	namespace, queue := c.queueName()
	if err := c.DropHook(c.R.Context(), namespace, queue); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) getLimits() error { return c.Result(c.Limits(c.queueName())) }

func (c *call) setLimits() error {
	var in api.Limits
	if err := c.Decode(&in); err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.Result(c.SetLimits(c.R.Context(), namespace, name, in))
}
