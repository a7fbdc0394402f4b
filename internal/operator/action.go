package operator

import (
	"context"
	"errors"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// commands are what the actions are for the engine.
var commands = map[api.Action]func(ref job.Ref, in job.States, with api.With) job.Command{
	api.ActionRetry: promote,
	api.ActionRun:   promote,
	api.ActionKill: func(ref job.Ref, in job.States, _ api.With) job.Command {
		return &job.Kill{Ref: ref, In: in}
	},
	api.ActionCancel: remove,
	api.ActionDelete: remove,
	api.ActionMove: func(ref job.Ref, in job.States, with api.With) job.Command {
		return &job.Move{Ref: ref, In: in, Queue: with.To}
	},
	api.ActionBury: func(ref job.Ref, in job.States, _ api.With) job.Command {
		return &job.Bury{Ref: ref, In: in, Need: job.NeedAny}
	},
	api.ActionKick: func(ref job.Ref, _ job.States, _ api.With) job.Command {
		return &job.Kick{Ref: ref, One: true}
	},
	api.ActionRespawn: func(ref job.Ref, in job.States, with api.With) job.Command {
		return &job.Respawn{
			Ref: ref, One: true, In: in, Attempts: with.Attempts, OwnAttempts: with.Attempts == 0, OwnExpiry: true,
		}
	},
}

func promote(ref job.Ref, in job.States, _ api.With) job.Command {
	return &job.Promote{Ref: ref, In: in, Place: job.PlaceTail}
}

func remove(ref job.Ref, in job.States, _ api.With) job.Command {
	return &job.Delete{Ref: ref, In: in, Need: job.NeedAny}
}

// checkAction refuses an action that is none, and one that lacks what it needs or has what another one needs.
func checkAction(a api.Action, with api.With) error {
	if a.States() == 0 {
		names := make([]string, 0, len(commands))
		for _, name := range api.Actions() {
			names = append(names, string(name))
		}
		return api.Invalid("action: %q is none of %s", a, strings.Join(names, ", "))
	}
	if (a == api.ActionMove) != (with.To != "") {
		return api.Invalid("to: the action move, and no other, needs the name of a queue")
	}
	if a != api.ActionRespawn && with.Attempts != 0 {
		return api.Invalid("attempts: only the action respawn gives jobs new attempts")
	}
	return api.CheckName("to", with.To)
}

// actionCommand makes the command of an action.
func actionCommand(a api.Action, t api.Target, with api.With) (job.Command, error) {
	in := a.States()
	if t.State != "" {
		s, ok := job.ParseState(t.State)
		if !ok {
			return nil, api.Invalid("state: %q is none of %s", t.State, stateNames())
		}
		if !in.Allow(s) {
			return nil, api.Invalid("state: %s does not apply to a job that is %s", a, s)
		}
		in = job.StatesOf(s)
	}
	if t.ID == 0 {
		return nil, api.Invalid("id: it is missing")
	}
	return commands[a](job.ByID(t.Namespace, t.Queue, t.ID), in, with), nil
}

// Act does something to one job.
func (s *Service) Act(ctx context.Context, a api.Action, t api.Target, with api.With) error {
	if err := checkAction(a, with); err != nil {
		return err
	}
	if t.Queue == "" {
		found := []api.Target{t}
		if err := s.locate(found); err != nil {
			return err
		}
		t = found[0]
	}
	cmd, err := actionCommand(a, t, with)
	if err != nil {
		return err
	}
	results := s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmd)
	if err := results[0].Err; err != nil {
		return s.refused(a, t, err)
	}
	s.Note(ctx, 1, "%s job %d of queue %s", a, t.ID, t.Queue)
	return nil
}

// locate finds the queues of the jobs that came without: a command must name it. It asks one queue after the other, a
// bounded number for all jobs together.
func (s *Service) locate(targets []api.Target) error {
	left := queueMax
	return s.view(func(v *engine.View) error {
		for i := range targets {
			t := &targets[i]
			if t.Queue != "" {
				continue
			}
			var err error
			serr := v.EachQueue(t.Namespace, "", func(q *job.QueueInfo) bool {
				if left--; left < 0 {
					err = api.Invalid("queue: name that of job %d: there are too many queues to look for it", t.ID)
					return false
				}
				if _, err = v.Get(job.ByID(t.Namespace, q.Name, t.ID)); err == nil {
					t.Queue = q.Name
					return false
				}
				return api.IsNotFound(err)
			})
			if serr != nil {
				return serr
			}
			if err != nil && !api.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// refused explains why nothing was done to a job.
func (s *Service) refused(a api.Action, t api.Target, err *job.Error) *api.Problem {
	switch kind := api.ProblemOf(err.Kind); kind {
	case api.ProblemNotFound:
		return api.NotFound("job %d is not there: it may have been acked, deleted, moved or have expired", t.ID)
	case api.ProblemStale:
		p := kind.New("%s: nothing was done", err.Text)
		if now, err := s.engine.Get(job.ByID(t.Namespace, t.Queue, t.ID)); err == nil {
			p.State = now.State.Name()
			p.Detail = "the job is " + p.State + " now, and not a job to " + string(a) + ": nothing was done"
			if t.State != "" {
				p.Detail = "the job is " + p.State + " now, not " + t.State + ": nothing was done"
			}
		}
		return p
	default:
		return kind.New("%s", err.Text)
	}
}

// targetMax bounds the jobs of one request. For more there are bulk actions.
const targetMax = 1000

// ActAll does the same to several jobs, and tells of each what became of it. If the request
// itself is wrong, nothing is done to any of them.
func (s *Service) ActAll(
	ctx context.Context, a api.Action, targets []api.Target, with api.With,
) ([]api.Outcome, error) {
	if err := checkAction(a, with); err != nil {
		return nil, err
	}
	if len(targets) == 0 || len(targets) > targetMax {
		return nil, api.Invalid("jobs: name 1 to %d, not %d", targetMax, len(targets))
	}
	targets = slices.Clone(targets)
	if err := s.locate(targets); err != nil {
		return nil, err
	}
	cmds := make([]job.Command, 0, len(targets))
	for i, t := range targets {
		cmd, err := actionCommand(a, t, with)
		if err != nil {
			if p, ok := errors.AsType[*api.Problem](err); ok {
				return nil, api.Invalid("jobs: number %d: %s", i+1, p.Detail)
			}
			return nil, err
		}
		cmds = append(cmds, cmd)
	}
	out, done := make([]api.Outcome, 0, len(targets)), 0
	for i, r := range s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmds...) {
		o := api.Outcome{Namespace: targets[i].Namespace, ID: targets[i].ID, Done: r.Err == nil}
		if r.Err != nil {
			o.Problem = s.refused(a, targets[i], r.Err)
		}
		out = append(out, o)
		if o.Done {
			done++
		}
	}
	if done == 1 && len(targets) == 1 {
		s.Note(ctx, 1, "%s job %d of queue %s", a, targets[0].ID, targets[0].Queue)
	} else if done > 0 {
		s.Note(ctx, done, "%s chosen jobs", a)
	}
	return out, nil
}
