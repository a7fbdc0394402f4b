package admin

import (
	"log/slog"
	"net/http"
	"sync"

	"millrace/internal/api"
	"millrace/internal/auth"
)

// workRoutes are the calls of those who copy all jobs.
var workRoutes = []route{
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

// handling is what is done about a call besides calling it.
type handling struct {
	maxBody int64 // bytes of a request
	routine bool  // it belongs to the daily work: no log line for each
}

func (rt *route) handling() handling {
	h := handling{maxBody: bodyMax, routine: rt.path == pathImport || rt.path == pathMigration}
	if h.routine && rt.method == http.MethodPost {
		h.maxBody = importBodyMax
	}
	return h
}

// workState is what these calls share.
type workState struct {
	backup  sync.Mutex    // held while one is made
	imports chan struct{} // has an entry for each request of an import or a migration that is at work
	migrate sync.Mutex    // held while one of a migration looks for marks and makes them
}

// logFault logs an error of which the client cannot be told.
func (c *call) logFault(err error) {
	c.log.Error("operator request failed", slog.String("method", c.R.Method), slog.String("path", c.R.URL.Path), slog.Any("error", err))
}
