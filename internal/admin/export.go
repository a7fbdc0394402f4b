package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// ExportMark is a line of an export that is no job: after every few hundred jobs it tells where an export that
// was cut off there goes on, and the last line of all tells that nothing is missing.
type ExportMark struct {
	// Mark is cursor, or end.
	Mark     string `json:"mark"`
	Cursor   string `json:"cursor,omitempty"`
	Examined uint64 `json:"examined"` // jobs looked at so far
	Total    uint64 `json:"total"`    // jobs to look at, as of the beginning
	Jobs     uint64 `json:"jobs"`     // that this answer has told so far
}

// The marks.
const (
	MarkCursor = "cursor"
	MarkEnd    = "end"
)

const (
	exportChunk = 500
	// exportFor bounds how long one answer goes on: so long it keeps the space of what is deleted meanwhile.
	exportFor = 2 * time.Minute
)

// Export writes the jobs that fit a filter as JSON lines, as they all were at one moment, until ctx ends or
// the server stops. An answer that would take too long ends with a cursor instead: what follows is as of a later moment.
func (s *Service) Export(ctx context.Context, f Filter, cursor string, write func(lines []byte) error) error {
	m, err := f.matcher()
	if err != nil {
		return err
	}
	if m.Ref != "" {
		return invalid("ref: an export has no such filter")
	}
	at, err := parseCursor(cursor, "export", fingerprint(f))
	if err != nil {
		return err
	}
	began := time.Now()
	return s.view(func(v *engine.View) error {
		e := export{s: s, match: m, at: at, view: v, write: write}
		for {
			done, err := e.chunk()
			if err != nil || done {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-s.drained:
				return nil
			default:
			}
			if time.Since(began) > exportFor {
				return nil
			}
		}
	})
}

// export is an export in progress.
type export struct {
	s     *Service
	view  *engine.View
	match *matcher
	at    position
	write func(lines []byte) error
	jobs  uint64
	lines bytes.Buffer
}

// chunk writes the next jobs and a mark. It reports whether that was the last.
func (e *export) chunk() (done bool, err error) {
	e.lines.Reset()
	enc := json.NewEncoder(&e.lines)
	enc.SetEscapeHTML(false)
	sc := &scan{
		view: e.view, match: e.match, at: e.at, limits: scanLimits{exportChunk, examineMax, loadMax}, bodies: true,
		sums: e.s.engine.Sums,
	}
	sc.found = func(j *job.Job) {
		if err := enc.Encode(e.s.record(j)); err != nil {
			sc.failed = fmt.Errorf("write job %d: %w", j.ID, err)
			return
		}
		e.jobs++
	}
	if err := sc.run(); err != nil {
		return false, err
	}
	e.at = sc.at
	mark := ExportMark{Mark: MarkEnd, Examined: sc.at.Examined, Total: sc.at.Total, Jobs: e.jobs}
	if !sc.complete {
		mark.Mark, mark.Cursor = MarkCursor, sc.at.cursor()
	}
	if err := enc.Encode(mark); err != nil {
		return false, fmt.Errorf("write a mark: %w", err)
	}
	return sc.complete, e.write(e.lines.Bytes())
}

// mediaLines is the type of JSON lines.
const mediaLines = "application/x-ndjson"

// exportParams are the parameters of an export.
var exportParams = []string{"namespace", "queue", "state", "type", "error", "body", "batch", "after", "before", "time", "cursor"}

// exportJobs streams. Once it has begun an error can only end it early: the end mark is missing then.
func (c *call) exportJobs() error {
	f, err := FilterOf(c.r.URL.Query())
	if err != nil {
		return err
	}
	begun := false
	err = c.Export(c.r.Context(), f, c.query("cursor"), func(lines []byte) error {
		if !begun {
			begun = true
			c.w.Header().Set("Content-Type", mediaLines)
			c.w.WriteHeader(http.StatusOK)
		}
		c.allowTime(workTimeout)
		if _, err := c.w.Write(lines); err != nil {
			return fmt.Errorf("%w: %w", errClientGone, err)
		}
		_ = http.NewResponseController(c.w).Flush() // the next write finds it
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
