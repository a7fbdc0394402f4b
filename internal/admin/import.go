package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"time"

	"millrace/internal/job"
)

// ImportOptions say how lines are imported.
type ImportOptions struct {
	// Token names the import, so that a request that is repeated imports nothing twice. The client makes it up.
	Token string
	// Line is the number of the first line of the request within the whole, from 1 on.
	Line uint64
	// Duplicates also imports a job whose key another job has; otherwise such a line counts as existing.
	Duplicates bool
}

// ImportRefusal is a line that was not imported.
type ImportRefusal struct {
	Line    uint64 `json:"line"`
	Problem string `json:"problem"`
}

// ImportResult is what became of the lines of a request.
type ImportResult struct {
	Token string `json:"token"`
	// Line is the last line that is dealt with; the next request begins behind it.
	Line     uint64          `json:"line"`
	Imported int             `json:"imported"`
	Existed  int             `json:"existed"`
	Repeated int             `json:"repeated"` // an earlier request has dealt with them
	Marks    int             `json:"marks"`    // no jobs: cursors and the end of an export
	Refused  []ImportRefusal `json:"refused"`
}

// ImportMark is how far an import is.
type ImportMark struct {
	Line uint64    `json:"line"`
	At   time.Time `json:"at"`
}

const (
	importSpace   = "admin.import"
	importLineMax = 2000
	importBodyMax = 32 << 20
	importKeptFor = 7 * 24 * time.Hour
	importKeptMax = 1000
	importAtOnce  = 4
)

var importToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Import returns how far an import is; line 0 for one that is not known.
func (s *Service) Import(token string) (ImportMark, error) {
	if !importToken.MatchString(token) {
		return ImportMark{}, notFound("%q is no token of an import: write letters, digits, - and _, at most 64", token)
	}
	text, ok, err := s.engine.Value(importSpace, token)
	if err != nil || !ok {
		return ImportMark{}, refusal(err)
	}
	var m ImportMark
	if err := json.Unmarshal(text, &m); err != nil {
		return ImportMark{}, problemConflict.problem("how far the import is cannot be read: choose another token")
	}
	return m, nil
}

// importer is an import in progress.
type importer struct {
	s    *Service
	o    ImportOptions
	out  ImportResult
	cmds []job.Command
	at   []uint64 // their lines
}

// ImportLines imports the lines of an export. Each line is for itself; those that cannot be imported are told.
//
// A job is what it was, in whatever state, with its tries, failures, times and result, but has another id, is in no
// batch and holds no lock. What was leased is ready; what waits for other jobs is refused.
func (s *Service) ImportLines(ctx context.Context, o ImportOptions, lines []byte) (ImportResult, error) {
	if !importToken.MatchString(o.Token) {
		return ImportResult{}, invalid("token: write letters, digits, - and _, at most 64")
	}
	if o.Line < 1 {
		return ImportResult{}, invalid("line: it is the number of the first line, from 1 on")
	}
	mark, err := s.Import(o.Token)
	if err != nil {
		return ImportResult{}, err
	}
	if o.Line > mark.Line+1 {
		return ImportResult{}, problemConflict.problem("lines %d to %d are missing: go on with line %d", mark.Line+1, o.Line-1, mark.Line+1)
	}
	if o.Line == 1 {
		if err := s.forgetImports(ctx); err != nil {
			return ImportResult{}, err
		}
	}
	im := &importer{s: s, o: o, out: ImportResult{Token: o.Token, Line: o.Line - 1, Refused: []ImportRefusal{}}}
	for line := range bytes.Lines(lines) {
		im.out.Line++
		if im.out.Line-o.Line >= importLineMax {
			return ImportResult{}, invalid("at most %d lines at a time", importLineMax)
		}
		if im.out.Line <= mark.Line {
			im.out.Repeated++
			continue
		}
		im.line(line)
	}
	err = im.run(ctx)
	return im.out, err
}

// forgetImports forgets those that nobody goes on with any more.
func (s *Service) forgetImports(ctx context.Context) error {
	values, err := s.engine.Values(importSpace, "", 0)
	if err != nil {
		return refusal(err)
	}
	if len(values) > importKeptMax {
		return problemTooMany.problem("%d imports are remembered, each for a week", len(values))
	}
	for _, v := range values {
		var m ImportMark
		if err := json.Unmarshal(v.Value, &m); err != nil || time.Since(m.At) > importKeptFor {
			if _, err := s.do(ctx, &job.DropValue{Space: importSpace, Name: v.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (im *importer) refuse(line uint64, problem string) {
	im.out.Refused = append(im.out.Refused, ImportRefusal{Line: line, Problem: problem})
}

// line reads one line and makes the push of its job.
func (im *importer) line(text []byte) {
	text = bytes.TrimSpace(text)
	var mark ExportMark
	switch {
	case len(text) == 0, bytes.HasPrefix(text, []byte(`{"mark"`)) && json.Unmarshal(text, &mark) == nil && mark.Mark != "":
		im.out.Marks++
		return
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		im.refuse(im.out.Line, "it cannot be read: "+err.Error())
		return
	}
	push, err := im.s.importPush(&r)
	if err != nil {
		im.refuse(im.out.Line, detailOf(err))
		return
	}
	push.Spec.Unique = push.Spec.Key != "" && !im.o.Duplicates
	im.cmds = append(im.cmds, push)
	im.at = append(im.at, im.out.Line)
}

func detailOf(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Detail
	}
	return err.Error()
}

// run pushes the jobs, together with how far the import is then.
func (im *importer) run(ctx context.Context) error {
	caller := im.s.engine.NewCallerAt(im.s.opts.Door)
	for from := 0; from < len(im.cmds) || from == 0; from += pushStep {
		to := min(from+pushStep, len(im.cmds))
		line := im.out.Line
		if to < len(im.cmds) {
			line = im.at[to-1]
		}
		text, err := json.Marshal(ImportMark{Line: line, At: time.Now().UTC()})
		if err != nil {
			return err
		}
		unit := append(slices.Clone(im.cmds[from:to]), &job.SetValue{Space: importSpace, Name: im.o.Token, Value: text})
		results := caller.Do(ctx, unit...)
		if err := results[len(unit)-1].Err; err != nil { // so have been all others
			return refusal(err)
		}
		for i := range to - from {
			im.pushed(im.at[from+i], results[i].Err)
		}
	}
	return nil
}

// pushed notes what became of the push of a line.
func (im *importer) pushed(line uint64, err *job.Error) {
	switch {
	case err == nil:
		im.out.Imported++
	case err.Kind == job.Duplicate:
		im.out.Existed++
	default:
		im.refuse(line, err.Text)
	}
}

func (c *call) getImport() error { return c.result(c.Import(c.name("import"))) }

func (c *call) importJobs() error {
	select {
	case c.work.imports <- struct{}{}:
		defer func() { <-c.work.imports }()
	default:
		return problemTooMany.problem("%d requests of imports are at work: try again in a second", importAtOnce)
	}
	c.allowTime(workTimeout)
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return c.cutShort(err)
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != mediaLines {
		return problemMedia.problem("send Content-Type: %s", mediaLines)
	}
	o := ImportOptions{Token: c.name("import"), Line: 1}
	if text := c.query("line"); text != "" {
		if o.Line, err = strconv.ParseUint(text, 10, 64); err != nil {
			return invalid("line: %q is no number", text)
		}
	}
	if o.Duplicates, err = c.flag("duplicates"); err != nil {
		return err
	}
	return c.result(c.ImportLines(c.r.Context(), o, body))
}

// errClientGone tells that nobody reads an answer any more.
var errClientGone = errors.New("the client has gone")

func isClientGone(err error) bool { return errors.Is(err, errClientGone) }
