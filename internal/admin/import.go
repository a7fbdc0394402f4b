package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// ImportOptions say how lines are imported.
type ImportOptions struct {
	// Token names the import, so that a request that is repeated imports nothing twice. The client makes it up.
	Token string
	// Line is the number of the first line of the request within the whole, from 1 on.
	Line uint64
	// Duplicates imports every job, whatever jobs there are with its key. Otherwise one that was there before the import began counts as existing, and
	// one whose key another job had before is refused. Several jobs of the import may have one key.
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
	// Before is what the ids of all jobs were below when the import began.
	Before job.ID `json:"before,omitempty"`
	// Refused are those lines of the last request, up to Line, that were refused: its answer may not have arrived.
	Refused []ImportRefusal `json:"refused,omitempty"`
}

const (
	importSpace   = "admin.import"
	importLineMax = 2000
	importBodyMax = 32 << 20
	importKeptFor = 7 * 24 * time.Hour
	importKeptMax = 1000
	problemMax    = 500 // bytes of what is told about a line
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
	mark ImportMark
	out  ImportResult
	cmds []job.Command
	at   []uint64 // their lines

	view  *engine.View       // as it is before the request
	keys  map[[2]string]bool // of the jobs in cmds
	there map[keyed]int      // how many lines of the request were found to exist
}

// keyed tells jobs with a key apart: those with the same one were pushed at different times, as a rule.
type keyed struct {
	namespace, key string
	created        job.Time
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
	im := &importer{
		s: s, o: o, mark: mark, out: ImportResult{Token: o.Token, Line: o.Line - 1, Refused: []ImportRefusal{}},
		keys: map[[2]string]bool{}, there: map[keyed]int{},
	}
	if err := im.read(lines); err != nil {
		return ImportResult{}, err
	}
	err = im.run(ctx)
	slices.SortStableFunc(im.out.Refused, func(a, b ImportRefusal) int { return cmp.Compare(a.Line, b.Line) })
	return im.out, err
}

// read reads the lines and makes the pushes of their jobs.
func (im *importer) read(lines []byte) error {
	return im.s.view(func(v *engine.View) error {
		im.view = v
		if err := im.begin(); err != nil {
			return err
		}
		for line := range bytes.Lines(lines) {
			im.out.Line++
			if im.out.Line-im.o.Line >= importLineMax {
				return invalid("at most %d lines at a time", importLineMax)
			}
			if im.out.Line <= im.mark.Line {
				im.out.Repeated++
				continue
			}
			if err := im.line(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// begin finds out which jobs were there before the import, and what became of lines that an earlier request has dealt with.
func (im *importer) begin() (err error) {
	switch {
	case im.mark.Before > 0:
	case im.mark.Line > 0:
		im.mark.Before = math.MaxInt64 // it was begun by a release that did not take that down
	default:
		im.mark.Before, err = im.view.NextID()
	}
	for _, r := range im.mark.Refused {
		if r.Line >= im.o.Line {
			im.out.Refused = append(im.out.Refused, r)
		}
	}
	return err
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
	im.out.Refused = append(im.out.Refused, ImportRefusal{Line: line, Problem: short(problem)})
}

// short returns as much of a problem as is told.
func short(problem string) string {
	if len(problem) > problemMax {
		problem = strings.ToValidUTF8(problem[:problemMax], "") + "..."
	}
	return problem
}

// line reads one line and makes the push of its job.
func (im *importer) line(text []byte) error {
	text = bytes.TrimSpace(text)
	var mark ExportMark
	switch {
	case len(text) == 0, bytes.HasPrefix(text, []byte(`{"mark"`)) && json.Unmarshal(text, &mark) == nil && mark.Mark != "":
		im.out.Marks++
		return nil
	}
	r, push, problem := im.s.importLine(text)
	if problem != "" {
		im.refuse(im.out.Line, problem)
		return nil
	}
	if push.Spec.Key != "" && !im.o.Duplicates {
		if fits, err := im.fits(r, &push.Spec); err != nil || !fits {
			return refusal(err)
		}
	}
	im.cmds = append(im.cmds, push)
	im.at = append(im.at, im.out.Line)
	return nil
}

// importLine reads the line of a job. It tells what is wrong with it, if something is.
func (s *Service) importLine(text []byte) (r *Record, push *job.Push, problem string) {
	r = new(Record)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, nil, "it cannot be read: " + err.Error()
	}
	push, err := s.importPush(r)
	if err != nil {
		return nil, nil, detailOf(err)
	}
	return r, push, ""
}

// fits decides whether a job with a key is imported. One that was pushed at the same time as one that has the key, and had it before the import
// began, is that one. A line that does not say when its job was pushed is taken for whichever has the key. What came during the import does
// not count: an export may have several jobs with one key.
func (im *importer) fits(r *Record, spec *job.Spec) (bool, error) {
	jobs, err := im.view.Keyed(spec.Namespace, spec.Key)
	if err != nil {
		return false, err
	}
	id := keyed{spec.Namespace, spec.Key, moment(r.Created)}
	same, other := 0, job.ID(0)
	for i := range jobs {
		switch {
		case jobs[i].ID >= im.mark.Before:
		case r.Created == nil || jobs[i].Created == id.created:
			same++
		default:
			other = jobs[i].ID
		}
	}
	switch {
	case same > im.there[id] || same > 0 && r.Created == nil:
		im.there[id]++
		im.out.Existed++
		return false, nil
	case same == 0 && other != 0:
		im.refuse(im.out.Line, fmt.Sprintf("job %d: another job has its key %q here, job %d: to import it all the same allow duplicates", r.ID, spec.Key, other))
		return false, nil
	}
	key := [2]string{spec.Namespace, spec.Key}
	spec.Unique = len(jobs) == 0 && !im.keys[key] // nobody may have pushed one meanwhile
	im.keys[key] = true
	return true, nil
}

func detailOf(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Detail
	}
	return err.Error()
}

// run pushes the jobs, some at a time.
func (im *importer) run(ctx context.Context) error {
	caller := im.s.engine.NewCallerAt(im.s.opts.Door)
	for from := 0; from < len(im.cmds) || from == 0; from += pushStep {
		to := min(from+pushStep, len(im.cmds))
		im.mark.Line = im.out.Line
		if to < len(im.cmds) {
			im.mark.Line = im.at[to-1]
		}
		if err := im.unit(ctx, caller, im.cmds[from:to], im.at[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// unit pushes some jobs together with how far the import is then and which lines were refused, whole or not at all: whenever this is interrupted, a line was
// imported, or was refused and that can be told, or has its turn when the import goes on.
func (im *importer) unit(ctx context.Context, caller *engine.Caller, cmds []job.Command, at []uint64) error {
	cmds, at = slices.Clone(cmds), slices.Clone(at)
	for {
		im.mark.At, im.mark.Refused = time.Now().UTC(), nil
		for _, r := range im.out.Refused {
			if r.Line <= im.mark.Line {
				im.mark.Refused = append(im.mark.Refused, r)
			}
		}
		text, err := json.Marshal(im.mark)
		if err != nil {
			return err
		}
		ops := append(slices.Clone(cmds), &job.SetValue{Space: importSpace, Name: im.o.Token, Value: text})
		refused := caller.Do(ctx, &job.Atomic{Ops: ops})[0].Err
		switch {
		case refused == nil:
			im.out.Imported += len(cmds)
			return nil
		case !isOfLine(refused.Kind) || refused.Index >= len(cmds):
			return refusal(refused)
		}
		i := refused.Index
		im.refuse(at[i], lineProblem(refused))
		cmds, at = slices.Delete(cmds, i, i+1), slices.Delete(at, i, i+1)
	}
}

// isOfLine reports whether a refusal is about one job. Others are about the server: the import can go on later.
func isOfLine(k job.Kind) bool {
	switch k { //nolint:exhaustive // these are about the server
	case job.NoSpace, job.Draining, job.Internal, job.Canceled, job.Timeout, job.Overloaded:
		return false
	default:
		return true
	}
}

func lineProblem(refused *job.Error) string {
	if refused.Kind == job.Duplicate {
		return "somebody has just pushed another job with its key: to import it all the same allow duplicates"
	}
	return refused.Text
}

func (c *call) getImport() error { return c.result(c.Import(c.name("import"))) }

// lines reads the lines of a request, and has use make something of them.
func (c *call) lines(use func(lines []byte) error) error {
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
	return use(body)
}

func (c *call) importJobs() (err error) {
	o := ImportOptions{Token: c.name("import"), Line: 1}
	if text := c.query("line"); text != "" {
		if o.Line, err = strconv.ParseUint(text, 10, 64); err != nil {
			return invalid("line: %q is no number", text)
		}
	}
	if o.Duplicates, err = c.flag("duplicates"); err != nil {
		return err
	}
	return c.lines(func(lines []byte) error { return c.result(c.ImportLines(c.r.Context(), o, lines)) })
}

// errClientGone tells that nobody reads an answer any more.
var errClientGone = errors.New("the client has gone")

func isClientGone(err error) bool { return errors.Is(err, errClientGone) }
