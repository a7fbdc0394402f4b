package admin

import (
	"cmp"
	"net/http"

	"millrace/internal/auth"
)

// viewRoutes are the calls behind pages that sum something up.
var viewRoutes = []route{
	{http.MethodGet, pathAPI + "/failures", auth.RoleRead, []string{"namespace", "queue"}, (*call).getFailures},
	{http.MethodGet, pathAPI + "/types", auth.RoleRead, []string{"period"}, (*call).getTypes},
	{http.MethodGet, pathAPI + "/history/type", auth.RoleRead, []string{"type", "period"}, (*call).getTypeHistory},
	{http.MethodGet, pathAPI + "/activity", auth.RoleRead, nil, (*call).getActivity},
}

func (c *call) getFailures() error {
	return c.result(c.Failures(c.query("namespace"), c.query("queue")))
}

func (c *call) getTypes() error { return c.result(c.Types(c.query("period"))) }

func (c *call) getTypeHistory() error {
	return c.result(c.TypeHistory(c.query("type"), cmp.Or(c.query("period"), periods[0].name)))
}

// ActivityList is what operators have done, the newest first.
type ActivityList struct {
	Activity []Activity `json:"activity"`
}

func (c *call) getActivity() error {
	return c.answer(http.StatusOK, ActivityList{append([]Activity{}, c.Activities()...)})
}
