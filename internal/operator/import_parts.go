package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// assemble makes the commands of lines, and tells of which line each is. Lines that name what is not here are refused,
// and left out of items.
func (im *importer) assemble(items *[]*importItem) (ops []job.Command, of []int, err error) {
	pushes := map[job.ID]int{} // of this unit, by the ids that the export tells
	kept := (*items)[:0]
	for _, it := range *items {
		cmds, problem, err := im.commands(it, pushes)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			im.refuse(it.line, problem)
			continue
		}
		for range cmds {
			of = append(of, len(kept))
		}
		ops, kept = append(ops, cmds...), append(kept, it)
	}
	*items = kept
	return ops, of, nil
}

// commands returns the commands of a line, or why it cannot be imported.
func (im *importer) commands(it *importItem, pushes map[job.ID]int) (cmds []job.Command, problem string, err error) {
	made := &job.SetValue{Space: madeSpace + im.o.Token, Of: 1}
	switch {
	case it.before != nil:
		made.Name, made.Of, made.Value = madeJob(it.record.ID), 0, job.AppendMade(nil, it.before.QueueNum, it.before.ID)
		return []job.Command{made}, "", nil
	case it.push != nil:
		push, problem, err := im.bind(it, pushes)
		if err != nil || problem != "" {
			return nil, problem, err
		}
		pushes[it.record.ID] = len(pushes)
		cmds = []job.Command{push}
		if made.Name = madeJob(it.record.ID); it.record.Blocks {
			cmds = append(cmds, made)
		}
		return cmds, "", nil
	case it.batch != nil:
		c, err := im.newBatch(it)
		if err != nil {
			return nil, detailOf(err), nil
		}
		made.Name = madeBatch(it.batch.ID)
		return []job.Command{c, made}, "", nil
	case it.batchEnd != nil:
		b, ok, err := im.made(madeBatch(it.batchEnd.ID))
		if err != nil || !ok {
			return nil, "", err
		}
		rest := &job.BatchRest{Total: it.batchEnd.Total, Open: it.batchEnd.Open}
		return []job.Command{&job.CommitBatch{
			Namespace: it.batchEnd.Namespace, Batch: job.BatchID(b.ID),
			Rest: rest,
		}}, "", nil
	case it.cron != nil:
		def, err := im.s.schedule(it.cron)
		if err != nil {
			return nil, detailOf(err), nil
		}
		name := madeCron(it.cron.Namespace, it.cron.Name)
		return []job.Command{
			&job.SetSchedules{Entries: []job.Schedule{def}},
			&job.SetValue{Space: made.Space, Name: name, Value: []byte{}},
		}, "", nil
	case it.cronEnd != nil:
		c := it.cronEnd
		_, ok, err := im.s.engine.Value(made.Space, madeCron(c.Namespace, c.Name))
		if err != nil || !ok {
			return nil, "", api.Refusal(err)
		}
		return []job.Command{&job.PauseSchedule{
			Namespace: c.Namespace, Name: c.Name, Paused: c.Paused, Rest: true,
			Next: moment(c.Next),
		}}, "", nil
	}
	return nil, "", nil
}

// made returns what has become of a line of the import.
func (im *importer) made(name string) (b job.Blocker, ok bool, err error) {
	value, ok, err := im.s.engine.Value(madeSpace+im.o.Token, name)
	if err != nil || !ok {
		return b, false, api.Refusal(err)
	}
	b, ok = job.ParseMade(value)
	return b, ok, nil
}

// bind returns the push of a job with what it has to do with others. Pushes are those before it in the same unit.
func (im *importer) bind(it *importItem, pushes map[job.ID]int) (push *job.Push, problem string, err error) {
	r, p := it.record, *it.push
	past := *it.push.Past
	p.Past, p.Spec.BlockedBy, it.partly = &past, nil, ""
	for _, id := range r.BlockedBy {
		if i, here := pushes[id]; here {
			p.Spec.BlockedBy = append(p.Spec.BlockedBy, job.Blocker{Back: len(pushes) - i})
			continue
		}
		b, ok, err := im.made(madeJob(id))
		switch {
		case err != nil:
			return nil, "", err
		case !ok:
			return nil, fmt.Sprintf("job %d waits for job %d, which this import has not brought: "+
				"to import it all the same write ready as its state and leave out blocked_by", r.ID, id), nil
		}
		p.Spec.BlockedBy = append(p.Spec.BlockedBy, b)
	}
	switch {
	case r.Schedule != "":
		info, ok, err := im.s.engine.Schedule(r.Namespace, r.Schedule)
		if err != nil {
			return nil, "", api.Refusal(err)
		}
		if p.Spec.Batch, past.Role = info.ID, job.FlagTick; !ok {
			it.partly, past.Role = fmt.Sprintf("cron entry %q, which is not here", r.Schedule), 0
		}
	case r.Batch != 0:
		b, ok, err := im.made(madeBatch(job.BatchID(r.Batch)))
		if err != nil {
			return nil, "", err
		}
		if p.Spec.Batch = job.BatchID(b.ID); !ok {
			it.partly = fmt.Sprintf("its batch %d, which this import has not brought", r.Batch)
			past.Role, past.Tried = 0, false
		}
	}
	return &p, "", nil
}

// newBatch makes the command of a batch.
func (im *importer) newBatch(it *importItem) (*job.NewBatch, error) {
	r := it.batch
	it.partly = ""
	past := &job.BatchPast{
		Created: moment(r.Created), Committed: moment(r.Committed),
		Succeeded: moment(r.Succeeded), Acked: r.Acked,
	}
	c := &job.NewBatch{Namespace: r.Namespace, Text: r.Text, Past: past}
	for _, part := range []struct {
		what, text string
		to         *job.Callback
	}{{"complete", r.Complete, &past.Complete}, {"success", r.Success, &past.Success}} {
		i := slices.Index(stages, part.text)
		if i < 0 {
			return nil, api.Invalid("%s: %q is none of %s", part.what, part.text, strings.Join(stages, ", "))
		}
		*part.to = job.Callback(i) //nolint:gosec // an index of a short table
	}
	for _, part := range []struct {
		what, text string
		to         *time.Duration
	}{{"open_for", r.OpenFor, &c.OpenFor}, {"keep_for", r.KeepFor, &c.KeepFor}, {
		"keep_done",
		r.KeepDone, &c.KeepDone,
	}} {
		d, err := time.ParseDuration(part.text)
		if err != nil {
			return nil, api.Invalid("%s: %q is no duration", part.what, part.text)
		}
		*part.to = d
	}
	var err error
	if c.Complete, err = im.s.futureSpec(r.OnComplete); err != nil {
		return nil, err
	}
	if c.Success, err = im.s.futureSpec(r.OnSuccess); err != nil {
		return nil, err
	}
	if r.Parent != 0 {
		b, ok, err := im.made(madeBatch(r.Parent))
		if err != nil {
			return nil, err
		}
		if c.Parent = job.BatchID(b.ID); !ok {
			it.partly = fmt.Sprintf("its parent %d, which this import has not brought", r.Parent)
		}
	}
	return c, nil
}

// futureSpec reads a job that is still to be pushed; nil if there is none.
func (s *Service) futureSpec(r *api.Record) (*job.Spec, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	if len(r.BlockedBy) > 0 {
		return nil, api.Invalid("its job waits for others, which cannot be imported")
	}
	spec, err := s.importSpec(r)
	spec.Delay, spec.Unique = duration(r.Delay), r.Unique
	spec.TTL, spec.TTLFromRun, spec.LockFor = duration(r.TTL), r.TTLFromRun, duration(r.LockFor)
	if r.Head {
		spec.At = job.PlaceHead
	}
	return &spec, err
}

// schedule reads a cron entry back.
func (s *Service) schedule(r *api.CronRecord) (job.Schedule, error) {
	def := job.Schedule{
		Namespace: r.Namespace, Name: r.Name, When: r.Schedule, Zone: r.TimeZone,
		MissedMax: r.MissedLimit,
	}
	missed, overlap := slices.Index(missedNames, r.Missed), slices.Index(overlapNames, r.Overlap)
	if missed < 0 || overlap < 0 {
		return def, api.Invalid("missed is one of %v, and overlap of %v", missedNames, overlapNames)
	}
	def.Missed, def.Overlap = job.Missed(missed), job.Overlap(overlap) //nolint:gosec // indexes of short tables
	spec, err := s.futureSpec(&r.Job)
	if err != nil {
		return def, err
	}
	def.Job = *spec
	def.Past = &job.SchedulePast{
		Created: moment(r.Created), LastTick: moment(r.LastTick), LastAt: moment(r.LastRun), Pushed: r.Fired,
		Missed: r.MissedCount, Skipped: r.Skipped,
	}
	for i := range slices.Backward(r.Runs) {
		run, err := importedRun(&r.Runs[i])
		if err != nil {
			return def, err
		}
		def.Past.Runs = append(def.Past.Runs, run)
	}
	return def, nil
}

// importedRun reads a run back, without its job.
func importedRun(r *api.CronRun) (job.ScheduleRun, error) {
	out := job.ScheduleRun{Tick: moment(r.Tick), At: moment(r.At), Count: r.Count, Ended: moment(r.Ended)}
	kind, result := slices.Index(runNames, r.Kind), slices.Index(resultNames, r.Result)
	if kind < 0 || result < 0 && r.Result != "" {
		return out, api.Invalid("runs: one of kind %q with result %q is not known", r.Kind, r.Result)
	}
	out.Kind, out.Outcome = job.RunKind(kind), job.Outcome(max(result, 0)) //nolint:gosec // indexes of short tables
	for k := job.Invalid; r.Refused != "" && out.Refused == 0; k++ {
		if k > job.Lapsing {
			return out, api.Invalid("runs: %q is no reason", r.Refused)
		}
		if api.ProblemOf(k).Name() == r.Refused {
			out.Refused = k
		}
	}
	return out, nil
}

// sameCron reports whether an entry is here as a line tells. One that is here and is another is a problem.
func (s *Service) sameCron(r *api.CronRecord) (bool, error) {
	info, ok, err := s.engine.Schedule(r.Namespace, r.Name)
	if err != nil || !ok {
		return false, api.Refusal(err)
	}
	set := func(c api.CronRecord) string {
		c.Job.PushedBy = ""
		text, err := json.Marshal([]any{c.Schedule, c.TimeZone, c.Missed, c.MissedLimit, c.Overlap, c.Job})
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if set(*s.cronRecord(&info)) != set(*r) {
		return false, api.ProblemConflict.New("there is another cron entry %q here: remove one of them", r.Name)
	}
	return true, nil
}

// importQueue sets what a queue had. What the queue has here already is left alone if it is the same, else refused.
func (s *Service) importQueue(ctx context.Context, r *api.QueueRecord) error {
	if err := api.CheckQueue(r.Namespace, r.Queue); err != nil {
		return err
	}
	q, there, err := s.engine.Queue(r.Namespace, r.Queue)
	if err != nil {
		return api.Refusal(err)
	}
	here := api.QueueRecord{}
	if h := queueRecord(&q); there && h != nil {
		here = *h
	}
	if here.Configured && r.Configured && (here.Capacity != r.Capacity || here.Serials != r.Serials ||
		string(here.Attrs) != string(r.Attrs)) {
		return api.ProblemConflict.New("queue %q has other settings here", r.Queue)
	}
	if here.Limits != nil && r.Limits != nil && *here.Limits != *r.Limits {
		return api.ProblemConflict.New("queue %q has other limits here", r.Queue)
	}
	if here.Fairness != nil && r.Fairness != nil &&
		(here.Fairness.On != r.Fairness.On || !maps.Equal(here.Fairness.Weights, r.Fairness.Weights)) {
		return api.ProblemConflict.New("the groups of queue %q take other turns here", r.Queue)
	}
	if r.Configured && !here.Configured {
		settings := job.Settings{Capacity: r.Capacity, Serials: r.Serials, Attrs: r.Attrs, OnePerGroup: r.OnePerGroup}
		if _, err := s.do(ctx, &job.Configure{Namespace: r.Namespace, Queue: r.Queue, Settings: settings}); err != nil {
			return err
		}
	}
	if r.Limits != nil && here.Limits == nil {
		if _, err := s.SetLimits(ctx, r.Namespace, r.Queue, *r.Limits); err != nil {
			return err
		}
	}
	if r.Fairness != nil && here.Fairness == nil {
		fair := job.Fairness{On: r.Fairness.On, Weights: r.Fairness.Weights}
		if _, err := s.do(ctx, &job.SetFair{Namespace: r.Namespace, Queue: r.Queue, Fairness: fair}); err != nil {
			return err
		}
	}
	pause := &job.Pause{Namespace: r.Namespace, Queue: r.Queue, Make: true}
	if r.PausedUntil != nil {
		pause.For = time.Until(*r.PausedUntil)
	}
	if !r.Paused || here.Paused || pause.For < 0 {
		return nil
	}
	_, err = s.do(ctx, pause)
	return err
}

// importHook sets the hook of a queue. One that is here already is left alone if it is the same, else refused.
func (s *Service) importHook(ctx context.Context, r *api.HookRecord) error {
	all, err := s.Hooks(r.Namespace)
	if err != nil {
		return err
	}
	for _, here := range all.Hooks {
		switch {
		case here.Queue != r.Queue:
		case here.NewHook == r.NewHook:
			return nil
		default:
			return api.ProblemConflict.New("queue %q has another hook here", r.Queue)
		}
	}
	_, err = s.SetHook(ctx, r.Namespace, r.Queue, r.NewHook)
	return err
}

// knownBatches takes out the batches of the request that were here before the import began: those that were made at the
// same time, with the same text.
func (im *importer) knownBatches() error {
	type same struct {
		namespace, text string
		created         job.Time
	}
	lines := map[same]bool{}
	for _, it := range im.items {
		if it.batch != nil {
			lines[same{it.batch.Namespace, it.batch.Text, moment(it.batch.Created)}] = false
		}
	}
	for after, more := job.BatchID(0), len(lines) > 0; more; {
		var all []engine.PastBatch
		var err error
		if all, after, err = im.view.PastBatches(after, importLineMax); err != nil {
			return err
		}
		for i := range all {
			id := same{all[i].Make.Namespace, all[i].Make.Text, all[i].Make.Past.Created}
			if _, asked := lines[id]; asked && all[i].ID < job.BatchID(im.mark.Before) {
				lines[id] = true
			}
		}
		more = after != 0
	}
	im.items = slices.DeleteFunc(im.items, func(it *importItem) bool {
		known := it.batch != nil && lines[same{it.batch.Namespace, it.batch.Text, moment(it.batch.Created)}]
		if known {
			im.out.Existed++
		}
		return known
	})
	return nil
}
