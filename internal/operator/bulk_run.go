package operator

import (
	"context"
	"log/slog"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// run makes steps until ctx ends. What is not done then goes on with the next start.
func (r *bulkRunner) run(ctx context.Context) {
	for {
		b := r.next()
		if b == nil {
			select {
			case <-r.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		if !r.advance(ctx, b) {
			<-ctx.Done() // the engine takes nothing more: the server stops
			return
		}
		if !sleep(ctx, restAfter(time.Since(began))) {
			return
		}
	}
}

// sleep lets others work. It reports false if ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// next returns the oldest bulk action that has not ended; nil without one.
func (r *bulkRunner) next() *bulkRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *bulkRecord
	for _, b := range r.all {
		if !bulkEnded(&b.Bulk) && (oldest == nil || compareIDs(b.ID, oldest.ID) < 0) {
			oldest = b
		}
	}
	if oldest != nil {
		oldest.State = api.BulkRunning
	}
	return oldest
}

// advance makes one step. It reports false if the engine has stopped.
func (r *bulkRunner) advance(ctx context.Context, b *bulkRecord) bool {
	r.step.Lock()
	defer r.step.Unlock()
	r.mu.Lock()
	work := *b // only this goroutine moves it on; others may end it, which needs step
	r.mu.Unlock()
	if bulkEnded(&work.Bulk) {
		return true
	}
	if r.todo.of != work.ID {
		err := r.find(&work)
		if p, _ := api.AsProblem(err); err != nil && p.Type == api.ProblemDraining.New("").Type {
			return false
		}
		if err != nil {
			r.s.log.Error("a bulk action cannot go on", slog.String("id", work.ID), slog.Any("error", err))
			work.end(api.BulkFailed, "jobs cannot be read; the log says why")
			r.todo = bulkTodo{}
		}
	}
	if !r.act(ctx, &work) {
		return false
	}
	r.mu.Lock()
	*b = work
	r.mu.Unlock()
	if bulkEnded(&work.Bulk) {
		r.s.log.Info("bulk action ended", slog.String("id", work.ID), slog.String("action", string(work.Action)),
			slog.String("filter", work.Filter.String()), slog.String("state", string(work.State)),
			slog.Uint64("done", work.Done),
			slog.Uint64("refused", work.Refused))
		r.keepAndForget(ctx, &work)
	}
	return true
}

// find looks for the next jobs to act on.
func (r *bulkRunner) find(b *bulkRecord) error {
	m, err := bulkMatcher(b.Action, b.Filter)
	if err != nil {
		return err
	}
	todo := bulkTodo{of: b.ID, fresh: true}
	most := bulkFind * max(r.pace.jobs(), paceBusy)
	err = r.s.view(func(v *engine.View) error {
		sc := &scan{
			view: v, match: m, at: b.At, skip: b.To, find: r.s.opts.FindID, sums: r.s.engine.Sums, bodies: m.whole(),
			limits: scanLimits{hits: most, examine: bulkExamine * most, load: most},
		}
		sc.found = func(j *job.Job) {
			// A job that entered its state later was not there when the action began, or has been acted on.
			if j.Since <= b.Begun {
				todo.jobs = append(todo.jobs,
					api.Target{Namespace: j.Namespace, Queue: j.Queue, ID: j.ID, State: j.State.Name()})
			}
		}
		err := sc.run()
		todo.behind, todo.complete = sc.at, sc.complete
		r.s.tell(&sc.reads)
		return err
	})
	r.todo = todo
	return err
}

// act does it to a few of the jobs found, and moves on once it is done to all. It reports false if the engine
// has stopped. The first few also keep how far the action was before: after a crash it goes on from
// there, and passes over what it has done, because that is in another state or place.
func (r *bulkRunner) act(ctx context.Context, b *bulkRecord) bool {
	few := r.todo.jobs[:min(len(r.todo.jobs), r.pace.jobs())]
	r.todo.jobs = r.todo.jobs[len(few):]
	var cmds []job.Command
	if r.todo.fresh && len(few) > 0 {
		cmds, r.todo.fresh = append(cmds, r.value(b)), false
	}
	kept := len(cmds)
	for _, t := range few {
		cmd, err := actionCommand(b.Action, t, b.With)
		if err != nil {
			// the matcher allows no other state
			panic("operator: a job that was found cannot be acted on: " + err.Error())
		}
		cmds = append(cmds, cmd)
	}
	if len(few) > 0 {
		began := time.Now()
		results := r.s.engine.NewCallerAt(r.s.opts.Door).Do(context.WithoutCancel(ctx), cmds...)
		r.pace.done(time.Since(began), len(cmds), r.s.engine.Stats().Commands)
		for _, res := range results[kept:] {
			switch {
			case res.Err == nil:
				b.Done++
			case res.Err.Kind == job.Draining || res.Err.Kind == job.Internal:
				return false
			default:
				b.Refused++
			}
		}
	}
	b.Examined = max(b.Examined, b.Done+b.Refused)
	if len(r.todo.jobs) == 0 && !bulkEnded(&b.Bulk) {
		b.move(&r.todo)
		r.todo = bulkTodo{}
	}
	return true
}

// move moves the action behind the jobs that it has found.
func (b *bulkRecord) move(todo *bulkTodo) {
	b.At = todo.behind
	b.Examined = max(b.Examined, b.At.Examined)
	b.Total = max(b.At.Total, b.Examined)
	if todo.complete {
		// Jobs that went by themselves, and those of a step before a crash, were never counted.
		b.Examined = b.Total
		b.end(api.BulkDone, "")
	}
}

// keepAndForget keeps a bulk action that has ended, and forgets old ones.
func (r *bulkRunner) keepAndForget(ctx context.Context, b *bulkRecord) {
	cmds := []job.Command{r.value(b)}
	kept := 0
	for _, other := range r.sorted() {
		if !bulkEnded(&other) {
			continue
		}
		kept++
		if kept > bulkKeptMax || time.Since(*other.Ended) > bulkKeptFor {
			cmds = append(cmds, &job.DropValue{Space: bulkSpace, Name: other.ID})
			r.mu.Lock()
			delete(r.all, other.ID)
			r.mu.Unlock()
		}
	}
	for _, res := range r.s.engine.NewCallerAt(r.s.opts.Door).Do(context.WithoutCancel(ctx), cmds...) {
		if res.Err != nil {
			r.s.log.Warn("a bulk action cannot be kept", slog.String("id", b.ID), slog.Any("error", res.Err))
			return
		}
	}
}
