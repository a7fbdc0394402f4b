package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/operator"
)

const pathBackups = api.PathAPI + "/backups"

// backupTimeout bounds how long the answer of a backup may take.
const backupTimeout = 6 * time.Hour

func (c *call) makeBackup() error {
	var in struct {
		Dir string `json:"dir"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	c.AllowTime(backupTimeout + api.ReplyTimeout)
	return c.Result(c.MakeBackup(in.Dir))
}

// mediaLines is the type of JSON lines.
const mediaLines = "application/x-ndjson"

// exportParams are the parameters of an export.
var exportParams = []string{"namespace", "queue", "state", "type", "error", "body", "batch", "after", "before", "time", "cursor"}

// exportJobs streams. Once it has begun an error can only end it early: the end mark is missing then.
func (c *call) exportJobs() error {
	f, err := api.FilterOf(c.R.URL.Query())
	if err != nil {
		return err
	}
	begun := false
	err = c.Export(c.R.Context(), f, c.query("cursor"), func(lines []byte) error {
		if !begun {
			begun = true
			c.W.Header().Set("Content-Type", mediaLines)
			c.W.WriteHeader(http.StatusOK)
		}
		c.AllowTime(api.LargeTimeout + api.ReplyTimeout)
		if _, err := c.W.Write(lines); err != nil {
			return fmt.Errorf("%w: %w", errClientGone, err)
		}
		_ = http.NewResponseController(c.W).Flush() // the next write finds it
		return nil
	})
	if err == nil || !begun {
		return err
	}
	if !isClientGone(err) {
		c.logFault(err)
	}
	panic(http.ErrAbortHandler) // the client must not take what it has for a whole answer
}

func (c *call) getImport() error { return c.Result(c.Import(c.Name("import"))) }

// lines reads the lines of a request, and has use make something of them.
func (c *call) lines(use func(lines []byte) error) error {
	done, err := c.BeginImport()
	if err != nil {
		return err
	}
	defer done()
	c.AllowTime(api.LargeTimeout + api.ReplyTimeout)
	body, err := io.ReadAll(c.R.Body)
	if err != nil {
		return api.CutShort(err)
	}
	if kind, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type")); err != nil || kind != mediaLines {
		return api.ProblemMedia.New("send Content-Type: %s", mediaLines)
	}
	return use(body)
}

func (c *call) importJobs() (err error) {
	o := api.ImportOptions{Token: c.Name("import"), Line: 1}
	if text := c.query("line"); text != "" {
		if o.Line, err = strconv.ParseUint(text, 10, 64); err != nil {
			return api.Invalid("line: %q is no number", text)
		}
	}
	if o.Duplicates, err = c.flag("duplicates"); err != nil {
		return err
	}
	return c.lines(func(lines []byte) error { return c.Result(c.ImportLines(c.R.Context(), o, lines)) })
}

// errClientGone tells that nobody reads an answer any more.
var errClientGone = errors.New("the client has gone")

func isClientGone(err error) bool { return errors.Is(err, errClientGone) }

func (c *call) listMigrations() error {
	list, err := c.Migrations()
	return c.Result(struct {
		Migrations []api.Migration `json:"migrations"`
	}{list}, err)
}

func (c *call) migrateJobs() (err error) {
	o := api.MigrationOptions{Source: c.Name("source"), Protocol: c.query("protocol"), Namespace: c.query("namespace")}
	if o.DryRun, err = c.flag("dry_run"); err != nil {
		return err
	}
	return c.lines(func(lines []byte) error { return c.Result(c.Migrate(c.R.Context(), o, lines)) })
}

func (c *call) forgetMigration() error {
	done, err := c.ForgetMigration(c.R.Context(), c.Name("source"))
	return c.Result(struct {
		Done bool `json:"done"`
	}{done}, err)
}

// workRoutes are the calls of those who copy all jobs.
var workRoutes = []Route{
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

func (rt *Route) handling() handling {
	h := handling{maxBody: bodyMax, routine: rt.Path == pathImport || rt.Path == pathMigration}
	if h.routine && rt.Method == http.MethodPost {
		h.maxBody = operator.ImportBodyMax
	}
	return h
}

// logFault logs an error of which the client cannot be told.
func (c *call) logFault(err error) {
	c.Log().Error("operator request failed", slog.String("method", c.R.Method), slog.String("path", c.R.URL.Path),
		slog.Any("error", err))
}
