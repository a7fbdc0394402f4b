package api

import (
	"net/http"
	"slices"

	"millrace/internal/auth"
)

const (
	anyone   = auth.RoleNone
	reader   = auth.RoleRead
	operator = auth.RoleOperator

	notFound = http.StatusNotFound
	conflict = http.StatusConflict
	stopping = http.StatusServiceUnavailable
	noSpace  = http.StatusInsufficientStorage

	pathCron = PathNamespace + "/cron/{name}"
)

// Routes are all calls of the API, in the order of its document.
var Routes = slices.Concat(
	tagged("server", serverRoutes), tagged("queues", queuesRoutes), tagged("jobs", jobsRoutes),
	tagged("bulk", bulkRoutes), tagged("workers", workersRoutes), tagged("batches", batchesRoutes),
	tagged("cron", cronRoutes), tagged("hooks", hooksRoutes), tagged("tokens", tokensRoutes),
	tagged("live", liveRoutes), tagged("health", healthRoutes), tagged("work", workRoutes), tagged("data", dataRoutes),
)

func tagged(tag string, routes []Route) []Route {
	for i := range routes {
		routes[i].Tag = tag
		if routes[i].OK == 0 {
			routes[i].OK = http.StatusOK
		}
	}
	return routes
}
