package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"millrace/internal/auth"
)

// workRoutes are the calls of those who push and fetch jobs, and of those who copy all of them.
var workRoutes = []route{
	{http.MethodPost, pathQueue + "/jobs", auth.RoleOperator, nil, (*call).pushJobs},
	{http.MethodPost, pathAPI + "/namespaces/{namespace}/fetch", auth.RoleOperator, nil, (*call).fetchJobs},
	{http.MethodPost, pathJob + "/ack", auth.RoleOperator, nil, (*call).ackJob},
	{http.MethodPost, pathJob + "/fail", auth.RoleOperator, nil, (*call).failJob},
	{http.MethodPost, pathJob + "/extend", auth.RoleOperator, nil, (*call).extendJob},
	{http.MethodPost, pathJob + "/release", auth.RoleOperator, nil, (*call).releaseJob},
	{http.MethodPost, pathBackups, auth.RoleOperator, nil, (*call).makeBackup},
	{http.MethodGet, pathAPI + "/export", auth.RoleRead, exportParams, (*call).exportJobs},
	{http.MethodGet, pathImport, auth.RoleRead, nil, (*call).getImport},
	{http.MethodPost, pathImport, auth.RoleOperator, []string{"line", "duplicates"}, (*call).importJobs},
	{http.MethodGet, pathAPI + "/migrations", auth.RoleRead, nil, (*call).listMigrations},
	{http.MethodPost, pathMigration, auth.RoleOperator, []string{"protocol", "namespace", "dry_run"}, (*call).migrateJobs},
	{http.MethodDelete, pathMigration, auth.RoleOperator, nil, (*call).forgetMigration},
}

const (
	pathImport    = pathAPI + "/imports/{import}"
	pathMigration = pathAPI + "/migrations/{source}"
)

// routine tells that a call belongs to the daily work: no log line for each.
func (rt *route) routine() bool {
	switch rt.path {
	case pathQueue + "/jobs", pathAPI + "/namespaces/{namespace}/fetch", pathJob + "/ack", pathJob + "/fail", pathJob + "/extend",
		pathJob + "/release", pathImport, pathMigration:
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
	case rt.path == pathQueue+"/jobs", rt.path == pathJob+"/ack":
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

// cutShort explains why a request could not be read.
func (c *call) cutShort(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problemTooLarge.problem("at most %d bytes are read", tooLarge.Limit)
	}
	return invalid("the request was cut short")
}

// logFault logs an error of which the client cannot be told.
func (c *call) logFault(err error) {
	c.log.Error("operator request failed", slog.String("method", c.r.Method), slog.String("path", c.r.URL.Path), slog.Any("error", err))
}
