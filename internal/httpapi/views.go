package httpapi

import (
	"cmp"
	"net/http"

	"millrace/internal/api"
	"millrace/internal/history"
)

func (c *call) getHistory() error {
	return c.Result(c.History(cmp.Or(c.query("resolution"), history.All[0].Name)))
}

func (c *call) getParts() error {
	return c.Result(c.Parts(cmp.Or(c.query("period"), history.Parts[0].Name)))
}

func (c *call) getFailures() error {
	return c.Result(c.Failures(c.query("namespace"), c.query("queue")))
}

func (c *call) getTypes() error { return c.Result(c.Types(c.query("period"))) }

func (c *call) getTypeHistory() error {
	return c.Result(c.TypeHistory(c.query("type"), cmp.Or(c.query("period"), history.Parts[0].Name)))
}

func (c *call) getActivity() error {
	return c.Answer(http.StatusOK, api.ActivityList{Activity: append([]api.Activity{}, c.Activities()...)})
}
