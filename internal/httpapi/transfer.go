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
)

// backupTimeout bounds how long the answer of a backup may take.
const backupTimeout = 6 * time.Hour

func (c *call) makeBackup(in *api.BackupRequest) error {
	c.AllowTime(backupTimeout + api.ReplyTimeout)
	return c.Result(c.MakeBackup(in.Dir))
}

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
			c.W.Header().Set("Content-Type", api.MediaLines)
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
	if kind, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type")); err != nil || kind != api.MediaLines {
		return api.ProblemMedia.New("send Content-Type: %s", api.MediaLines)
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
	return c.Result(api.MigrationList{Migrations: list}, err)
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
	return c.Result(api.Forgotten{Done: done}, err)
}

// logFault logs an error of which the client cannot be told.
func (c *call) logFault(err error) {
	c.Log().Error("operator request failed", slog.String("method", c.R.Method), slog.String("path", c.R.URL.Path),
		slog.Any("error", err))
}
