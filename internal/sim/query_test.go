package sim

import (
	"errors"
	"fmt"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// compareQuery compares what readers of committed data see, if everything is
// committed, with the model.
func (r *run) compareQuery() error {
	if r.world.core.Dirty() != 0 || len(r.world.sealed) > 0 || r.world.fault != nil {
		return nil
	}
	q := engine.NewQuery(r.world.store)
	infos, err := q.Queues("", "", 0)
	if err != nil {
		return err
	}
	for i, listed := range infos { // each alone is the same, and its oldest ready job is known only if asked for
		info, ok, err := q.Queue(listed.Namespace, listed.Name)
		if err != nil || !ok {
			return fmt.Errorf("queue %q of %q is listed, and then %v, %w", listed.Name, listed.Namespace, ok, err)
		}
		if err := q.OldestReady(&info); err != nil {
			return err
		}
		info.Bucket = info.Limits.Fill(info.Bucket, r.model.now)
		infos[i] = info
	}

	var failed error
	view := View{Queues: infos, List: func(ns, queue string, s job.State) []job.Job {
		jobs, err := pages(q, engine.ListOptions{
			Namespace: ns, Queue: queue, State: s,
			Limit: 1 + r.step%3, Bodies: true,
		})
		failed = errors.Join(failed, err)
		return jobs
	}}
	known := r.model.View()
	view.Locks, view.Outcomes = known.Locks, known.Outcomes // which nobody reads but the machine
	if err := readMore(&view, q, r.now, r.model.keys); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	text := view.Dump()
	if failed != nil {
		return fmt.Errorf("query: %w", failed)
	}
	if d := diff(text, r.model.Dump()); d != "" {
		return errors.New("query: readers see another state:\n" + d)
	}
	for _, id := range r.model.ids() {
		if err := r.compareGet(q, r.model.jobs[id]); err != nil {
			return fmt.Errorf("query: job %d: %w", id, err)
		}
	}
	return nil
}

// pages reads a list page by page, forwards, and checks that backwards it is the same.
func pages(q engine.Query, o engine.ListOptions) ([]job.Job, error) {
	var lists [2][]job.Job
	for i := range lists {
		o.Reverse, o.After = i == 1, ""
		for {
			p, err := q.List(o)
			if err != nil {
				return nil, err
			}
			lists[i] = append(lists[i], p.Jobs...)
			if o.After = p.Next; o.After == "" {
				break
			}
		}
	}
	for i := range lists[0] {
		if j := len(lists[1]) - 1 - i; j < 0 || lists[1][j].ID != lists[0][i].ID {
			return nil, fmt.Errorf("list %s of %s/%s is not the same backwards", o.State, o.Namespace, o.Queue)
		}
	}
	return lists[0], nil
}

// compareGet looks a job up in all the ways in which it can be named.
func (r *run) compareGet(q engine.Query, e *entry) error {
	refs := []job.Ref{job.ByID(e.Namespace, "", e.ID), job.ByID(e.Namespace, e.Queue, e.ID), job.ByID("none", "", e.ID)}
	refs = append(refs, e.Ref(), job.ByPlace(e.Namespace, e.QueueNum+1, e.ID), job.ByPlace("none", e.QueueNum, e.ID))
	if e.Key != "" {
		refs = append(refs, job.ByKey(e.Namespace, e.Key))
	}
	if e.Flags.Has(job.FlagSerial) {
		refs = append(refs, job.BySerial(e.Namespace, e.Queue, e.Serial))
	}
	refs = append(refs, job.ByNumber(e.Namespace, e.ID.Number()))
	for _, ref := range refs {
		got, err := q.Get(ref)
		var want *entry // unlike commands, reads look for an id alone wherever it may be
		if all := r.model.sorted(func(j *entry) bool { return matches(j, ref) }); len(all) > 0 {
			want = all[0]
		}
		var refused *job.Error
		switch {
		case want == nil && errors.As(err, &refused) && refused.Kind == job.NotFound:
		case want == nil:
			return fmt.Errorf("%s: got job %d, %w, want none", Text(ref), got.ID, err)
		case err != nil:
			return fmt.Errorf("%s: %w", Text(ref), err)
		case Describe(&got) != Describe(&want.Job):
			return fmt.Errorf("%s: got %s, want %s", Text(ref), Describe(&got), Describe(&want.Job))
		}
	}
	return nil
}
