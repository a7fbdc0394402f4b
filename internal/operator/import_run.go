package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// importer is an import in progress.
type importer struct {
	s      *Service
	o      api.ImportOptions
	mark   api.ImportMark
	out    api.ImportResult
	items  []*importItem
	caller *engine.Caller

	view  *engine.View       // as it is before the request
	keys  map[[2]string]bool // of the jobs in items
	there map[keyed]int      // how many lines of the request were found to exist
}

// importItem is a line that is to be imported.
type importItem struct {
	line uint64
	// One of these is there.
	push     *job.Push
	queue    *api.QueueRecord
	hook     *api.HookRecord
	batch    *api.BatchRecord
	batchEnd *api.BatchEnd
	cron     *api.CronRecord
	cronEnd  *api.CronEnd
	end      bool     // of an export
	before   *job.Job // what the job of the line is here already

	record *api.Record // of a job
	partly string      // what it is imported without
}

// alike reports whether two lines may be a part of one unit: what the lines of a kind name is made by lines of others,
// or is found in the unit itself.
func (it *importItem) alike(other *importItem) bool {
	isJob := func(it *importItem) bool { return it.push != nil || it.before != nil }
	switch {
	case isJob(it):
		return isJob(other)
	case it.batch != nil:
		return other.batch != nil && it.batch.Parent == 0
	case it.batchEnd != nil:
		return other.batchEnd != nil
	}
	return false
}

// keyed tells jobs with a key apart: those with the same one were pushed at different times, as a rule.
type keyed struct {
	namespace, key string
	created        job.Time
}

// ImportLines imports the lines of an export. Each line is for itself; those that cannot be imported are told.
//
// A job is what it was, in its state, with its tries, failures, times, result and lock, in its batch and behind
// the jobs that it waits for, but has another id. What was leased is ready. A batch is open, and a cron entry is
// paused, until the lines that end them have come.
func (s *Service) ImportLines(ctx context.Context, o api.ImportOptions, lines []byte) (api.ImportResult, error) {
	if !importToken.MatchString(o.Token) {
		return api.ImportResult{}, api.Invalid("token: write letters, digits, - and _, at most 64")
	}
	if o.Line < 1 {
		return api.ImportResult{}, api.Invalid("line: it is the number of the first line, from 1 on")
	}
	mark, err := s.Import(o.Token)
	if err != nil {
		return api.ImportResult{}, err
	}
	if o.Line > mark.Line+1 {
		return api.ImportResult{}, api.ProblemConflict.New("lines %d to %d are missing: go on with line %d",
			mark.Line+1, o.Line-1, mark.Line+1)
	}
	if o.Line == 1 {
		if err := s.forgetImports(ctx); err != nil {
			return api.ImportResult{}, err
		}
	}
	im := &importer{
		s: s, o: o, mark: mark, out: api.ImportResult{Token: o.Token, Line: o.Line - 1, Refused: []api.ImportRefusal{}},
		keys: map[[2]string]bool{}, there: map[keyed]int{}, caller: s.engine.NewCallerAt(s.opts.Door),
	}
	if err := im.read(lines); err != nil {
		return api.ImportResult{}, err
	}
	err = im.run(ctx)
	slices.SortStableFunc(im.out.Refused, func(a, b api.ImportRefusal) int { return cmp.Compare(a.Line, b.Line) })
	return im.out, err
}

// read reads the lines.
func (im *importer) read(lines []byte) error {
	return im.s.view(func(v *engine.View) error {
		im.view = v
		if err := im.begin(); err != nil {
			return err
		}
		for line := range bytes.Lines(lines) {
			im.out.Line++
			if im.out.Line-im.o.Line >= importLineMax {
				return api.Invalid("at most %d lines at a time", importLineMax)
			}
			if im.out.Line <= im.mark.Line {
				im.out.Repeated++
				continue
			}
			if err := im.line(line); err != nil {
				return err
			}
		}
		return im.knownBatches()
	})
}

// begin finds out which jobs were there before the import, and what became of lines that an earlier request has dealt
// with.
func (im *importer) begin() (err error) {
	switch {
	case im.mark.Before > 0:
	case im.mark.Line > 0:
		im.mark.Before = math.MaxInt64 // it was begun by a release that did not take that down
	default:
		im.mark.Before, err = im.view.NextID()
	}
	since := func(told []api.ImportRefusal) []api.ImportRefusal {
		return slices.DeleteFunc(slices.Clone(told), func(r api.ImportRefusal) bool { return r.Line < im.o.Line })
	}
	im.out.Refused = append(im.out.Refused, since(im.mark.Refused)...)
	im.out.Partly = append(im.out.Partly, since(im.mark.Partly)...)
	return err
}

func (im *importer) refuse(line uint64, problem string) {
	im.out.Refused = append(im.out.Refused, api.ImportRefusal{Line: line, Problem: short(problem)})
}

// short returns as much of a problem as is told.
func short(problem string) string {
	if len(problem) > problemMax {
		problem = strings.ToValidUTF8(problem[:problemMax], "") + "..."
	}
	return problem
}

// line reads one line.
func (im *importer) line(text []byte) error {
	text = bytes.TrimSpace(text)
	var mark api.ExportMark
	switch {
	case len(text) == 0:
		im.out.Marks++
		return nil
	case bytes.HasPrefix(text, []byte(`{"mark"`)) && json.Unmarshal(text, &mark) == nil && mark.Mark != "":
		im.out.Marks++
		if mark.Mark == api.MarkEnd {
			im.items = append(im.items, &importItem{line: im.out.Line, end: true})
		}
		return nil
	}
	it, problem := im.s.importLine(text)
	if problem != "" {
		im.refuse(im.out.Line, problem)
		return nil
	}
	it.line = im.out.Line
	if it.push != nil && it.push.Spec.Key != "" && !im.o.Duplicates {
		if fits, err := im.fits(it); err != nil || !fits {
			return api.Refusal(err)
		}
	}
	im.items = append(im.items, it)
	return nil
}

// importLine reads a line that is no mark. It tells what is wrong with it, if something is.
func (s *Service) importLine(text []byte) (it *importItem, problem string) {
	it = new(importItem)
	var kind struct {
		Kind string `json:"kind"`
	}
	if bytes.HasPrefix(text, []byte(`{"kind"`)) {
		_ = json.Unmarshal(text, &kind) // else the next finds it
	}
	var into any
	switch kind.Kind {
	case "":
		it.record = new(api.Record)
		into = it.record
	case api.KindQueue:
		it.queue = new(api.QueueRecord)
		into = it.queue
	case api.KindHook:
		it.hook = new(api.HookRecord)
		into = it.hook
	case api.KindBatch:
		it.batch = new(api.BatchRecord)
		into = it.batch
	case api.KindBatchEnd:
		it.batchEnd = new(api.BatchEnd)
		into = it.batchEnd
	case api.KindCron:
		it.cron = new(api.CronRecord)
		into = it.cron
	case api.KindCronEnd:
		it.cronEnd = new(api.CronEnd)
		into = it.cronEnd
	default:
		return nil, fmt.Sprintf("it is of kind %q, which this release does not know", kind.Kind)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, "it cannot be read: " + api.Misread(err, text, into)
	}
	if it.record != nil {
		var err error
		if it.push, err = s.importPush(it.record); err != nil {
			return nil, detailOf(err)
		}
	}
	return it, ""
}

// fits decides whether a job with a key is imported. One that was pushed at the same time as one that has the key, and
// had it before the import began, is that one. A line that does not say when its job was pushed is taken for whichever
// has the key. What came during the import does not count: an export may have several jobs with one key.
func (im *importer) fits(it *importItem) (bool, error) {
	r, spec := it.record, &it.push.Spec
	jobs, err := im.view.Keyed(spec.Namespace, spec.Key)
	if err != nil {
		return false, err
	}
	id := keyed{spec.Namespace, spec.Key, moment(r.Created)}
	var same []*job.Job
	other := job.ID(0)
	for i := range jobs {
		switch {
		case jobs[i].ID >= im.mark.Before:
		case r.Created == nil || jobs[i].Created == id.created:
			same = append(same, &jobs[i])
		default:
			other = jobs[i].ID
		}
	}
	switch n := im.there[id]; {
	case len(same) > n || len(same) > 0 && r.Created == nil:
		im.there[id]++
		im.out.Existed++
		if r.Blocks { // others of the import wait for the one that is here
			im.items = append(im.items, &importItem{line: im.out.Line, record: r, before: same[min(n, len(same)-1)]})
		}
		return false, nil
	case len(same) == 0 && other != 0:
		im.refuse(im.out.Line, fmt.Sprintf("job %d: another job has its key %q here, job %d: to import it all the "+
			"same allow duplicates", r.ID, spec.Key, other))
		return false, nil
	}
	key := [2]string{spec.Namespace, spec.Key}
	spec.Unique = len(jobs) == 0 && !im.keys[key] // nobody may have pushed one meanwhile
	im.keys[key] = true
	return true, nil
}

func detailOf(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Detail
	}
	return err.Error()
}

// run imports the lines, some at a time.
func (im *importer) run(ctx context.Context) error {
	for from := 0; from < len(im.items) || from == 0; {
		to := min(from+1, len(im.items))
		for to < len(im.items) && to-from < importStep && im.items[to].alike(im.items[from]) {
			to++
		}
		im.mark.Line = im.out.Line
		if to < len(im.items) {
			im.mark.Line = im.items[to].line - 1
		}
		items := im.items[from:to]
		if len(items) == 1 {
			done, err := im.byItself(ctx, items[0])
			if err != nil {
				return err
			}
			if done {
				items = nil
			}
		}
		if err := im.unit(ctx, items); err != nil {
			return err
		}
		from = max(to, from+1)
	}
	return nil
}

// byItself deals with a line that is no part of a unit: to do so twice does no harm.
func (im *importer) byItself(ctx context.Context, it *importItem) (done bool, err error) {
	switch {
	case it.end:
		return true, im.s.dropMade(ctx, im.o.Token)
	case it.queue != nil:
		err = im.s.importQueue(ctx, it.queue)
		if err == nil {
			im.out.Queues++
		}
	case it.hook != nil:
		err = im.s.importHook(ctx, it.hook)
		if err == nil {
			im.out.Hooks++
		}
	case it.cron != nil:
		if done, err = im.s.sameCron(it.cron); done {
			im.out.Existed++
		}
	default:
		return false, nil
	}
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status < 500 { // it is about the line
		im.refuse(it.line, p.Detail)
		return true, nil
	}
	return done || it.queue != nil || it.hook != nil, err
}

// unit imports some lines together with how far the import is then and which lines were refused, whole or not at all:
// whenever this is interrupted, a line was imported, or was refused and that can be told, or has its turn when the
// import goes on.
func (im *importer) unit(ctx context.Context, items []*importItem) error {
	items = slices.Clone(items)
	for {
		ops, of, err := im.assemble(&items)
		if err != nil {
			return err
		}
		text, err := im.progress(items)
		if err != nil {
			return err
		}
		ops = append(ops, &job.SetValue{Space: importSpace, Name: im.o.Token, Value: text})
		refused := im.caller.Do(ctx, &job.Atomic{Ops: ops})[0].Err
		switch {
		case refused == nil:
			im.count(items)
			return nil
		case !isOfLine(refused.Kind) || refused.Index >= len(of):
			return api.Refusal(refused)
		}
		i := of[refused.Index]
		switch it := items[i]; {
		// It was forgotten or removed meanwhile.
		case (it.batchEnd != nil || it.cronEnd != nil) && refused.Kind == job.NotFound:
		default:
			im.refuse(it.line, lineProblem(refused))
		}
		items = slices.Delete(items, i, i+1)
	}
}

// progress is how far the import is when some lines are imported.
func (im *importer) progress(items []*importItem) ([]byte, error) {
	im.mark.At, im.mark.Refused, im.mark.Partly = time.Now().UTC(), nil, slices.Clone(im.out.Partly)
	for _, r := range im.out.Refused {
		if r.Line <= im.mark.Line {
			im.mark.Refused = append(im.mark.Refused, r)
		}
	}
	for _, it := range items {
		if it.partly != "" {
			im.mark.Partly = append(im.mark.Partly, api.ImportRefusal{Line: it.line, Problem: it.partly})
		}
	}
	return json.Marshal(im.mark)
}

// count counts lines that have been imported.
func (im *importer) count(items []*importItem) {
	for _, it := range items {
		switch {
		case it.push != nil:
			im.out.Imported++
		case it.batch != nil:
			im.out.Batches++
		case it.cron != nil:
			im.out.Cron++
		}
	}
	im.out.Partly = im.mark.Partly
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

// Names of what an import has made, by the ids that the export tells.
func madeJob(id job.ID) string        { return "j" + strconv.FormatUint(uint64(id), 10) }
func madeBatch(id job.BatchID) string { return "b" + strconv.FormatUint(uint64(id), 10) }
func madeCron(ns, name string) string { return "s" + strconv.Quote(ns) + name }
