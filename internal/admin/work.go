package admin

import (
	"log/slog"
	"net/http"
	"sync"

	"millrace/internal/api"
	"millrace/internal/auth"
)

// workRoutes are the calls of those who push and fetch jobs, and of those who copy all of them.
var workRoutes = []route{
	{http.MethodPost, api.PathQueue + "/jobs", auth.RoleOperator, nil, (*call).pushJobs},
	{http.MethodPost, api.PathAPI + "/namespaces/{namespace}/fetch", auth.RoleOperator, nil, (*call).fetchJobs},
	{http.MethodPost, api.PathJob + "/ack", auth.RoleOperator, nil, (*call).ackJob},
	{http.MethodPost, api.PathJob + "/fail", auth.RoleOperator, nil, (*call).failJob},
	{http.MethodPost, api.PathJob + "/extend", auth.RoleOperator, nil, (*call).extendJob},
	{http.MethodPost, api.PathJob + "/release", auth.RoleOperator, nil, (*call).releaseJob},
	{http.MethodPost, pathBackups, auth.RoleOperator, nil, (*call).makeBackup},
	{http.MethodGet, api.PathAPI + "/export", auth.RoleRead, exportParams, (*call).exportJobs},
	{http.MethodGet, pathImport, auth.RoleRead, nil, (*call).getImport},
	{http.MethodPost, pathImport, auth.RoleOperator, []string{"line", "duplicates"}, (*call).importJobs},
	{http.MethodGet, api.PathAPI + "/migrations", auth.RoleRead, nil, (*call).listMigrations},
	{http.MethodPost, pathMigration, auth.RoleOperator, []string{"protocol", "namespace", "dry_run"}, (*call).migrateJobs},
	{http.MethodDelete, pathMigration, auth.RoleOperator, nil, (*call).forgetMigration},
}

const (
	pathImport    = api.PathAPI + "/imports/{import}"
	pathMigration = api.PathAPI + "/migrations/{source}"
)

// routine tells that a call belongs to the daily work: no log line for each.
func (rt *route) routine() bool {
	switch rt.path {
	case api.PathQueue + "/jobs", api.PathAPI + "/namespaces/{namespace}/fetch", api.PathJob + "/ack", api.PathJob + "/fail", api.PathJob + "/extend",
		api.PathJob + "/release", pathImport, pathMigration:
		return true
	default:
		return false
	}
}

// sizeMax bounds what a request may carry.
func (rt *route) sizeMax() int64 {
	switch {
	case rt.method != http.MethodPost:
		return bodyMax
	case rt.path == api.PathQueue+"/jobs", rt.path == api.PathJob+"/ack":
		return pushBodyMax
	case rt.path == pathImport, rt.path == pathMigration:
		return importBodyMax
	default:
		return bodyMax
	}
}

// workState is what the calls of workers share.
type workState struct {
	backup   sync.Mutex // held while one is made
	sessions sessions
	imports  chan struct{} // has an entry for each request of an import or a migration that is at work
	migrate  sync.Mutex    // held while one of a migration looks for marks and makes them
}

// logFault logs an error of which the client cannot be told.
func (c *call) logFault(err error) {
	c.log.Error("operator request failed", slog.String("method", c.R.Method), slog.String("path", c.R.URL.Path), slog.Any("error", err))
}
