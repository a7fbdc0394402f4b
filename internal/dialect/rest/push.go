package rest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/job"
)

const (
	pushMax  = 1000 // jobs of one request
	pushStep = 100  // of those, in one unit: it holds up everybody else
)

// Push pushes jobs to a queue, each for itself: some may be refused and others not. If the request
// itself is wrong, or none could be pushed, that is its error.
func (d *Dialect) Push(ctx context.Context, namespace, queue string, jobs []*api.NewJob) (api.PushResult, error) {
	if len(jobs) == 0 || len(jobs) > pushMax {
		return api.PushResult{}, api.Invalid("jobs: push 1 to %d, not %d", pushMax, len(jobs))
	}
	if err := api.CheckQueue(namespace, queue); err != nil {
		return api.PushResult{}, err
	}
	cmds := make([]job.Command, 0, len(jobs))
	for i, n := range jobs {
		spec, err := n.Spec()
		if err != nil {
			if p, ok := errors.AsType[*api.Problem](err); ok && len(jobs) > 1 {
				return api.PushResult{}, api.Invalid("jobs: number %d: %s", i+1, p.Detail)
			}
			return api.PushResult{}, err
		}
		spec.Namespace, spec.Queue, spec.Origin = namespace, queue, dialect.DoorAdmin
		cmds = append(cmds, &job.Push{Spec: spec})
	}
	return d.pushAll(ctx, cmds)
}

// pushAll submits pushes in units of a bounded size.
func (d *Dialect) pushAll(ctx context.Context, cmds []job.Command) (api.PushResult, error) {
	out := api.PushResult{Jobs: make([]api.Pushed, 0, len(cmds))}
	caller := d.opts.Engine.NewCallerAt(dialect.DoorAdmin)
	var first *api.Problem
	for unit := range slices.Chunk(cmds, pushStep) {
		for i, r := range caller.Do(ctx, unit...) {
			p, err := d.pushed(unit[i], &r)
			if err != nil {
				return out, err
			}
			switch {
			case p.Problem != nil:
				out.Refused++
				if first == nil {
					first = p.Problem
				}
			case p.Exists:
				out.Existed++
			default:
				out.Pushed++
			}
			out.Jobs = append(out.Jobs, p)
		}
	}
	if out.Refused == len(cmds) {
		return api.PushResult{}, first
	}
	return out, nil
}

// pushed tells what became of one push.
func (d *Dialect) pushed(cmd job.Command, r *job.Result) (api.Pushed, error) {
	if r.Err == nil {
		return api.Pushed{ID: r.ID, State: r.State.Name()}, nil
	}
	push, isPush := cmd.(*job.Push)
	if r.Err.Kind != job.Duplicate || !isPush {
		return api.Pushed{Problem: api.ProblemOf(r.Err.Kind).New("%s", r.Err.Text)}, nil
	}
	j, err := d.opts.Engine.Get(job.ByKey(push.Spec.Namespace, push.Spec.Key))
	if api.IsNotFound(err) { // it has just gone
		return api.Pushed{Exists: true}, nil
	}
	return api.Pushed{Exists: true, ID: j.ID, State: j.State.Name()}, api.Refusal(err)
}

func (d *Dialect) pushJobs(c *api.Call) error {
	var in api.PushRequest
	c.AllowTime(d.opts.ReadTimeout + d.opts.WriteTimeout)
	if err := c.Decode(&in); err != nil {
		return err
	}
	if trace := job.ParseTrace(c.R.Header.Get("Traceparent")); trace != "" {
		for _, n := range in.Jobs {
			if n != nil && n.Trace == "" && !bytes.Contains(n.Custom, []byte(`"traceparent"`)) {
				n.Trace = trace
			}
		}
	}
	return c.Result(d.Push(c.R.Context(), c.Name("namespace"), c.Name("queue"), in.Jobs))
}
