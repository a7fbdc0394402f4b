package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Action is something that can be done to a job.
type Action string

// The actions.
const (
	ActionRetry  Action = "retry"  // a failed job is ready now
	ActionRun    Action = "run"    // a scheduled job is ready now
	ActionKill   Action = "kill"   // to the dead jobs
	ActionCancel Action = "cancel" // an unfinished job is gone
	ActionDelete Action = "delete" // a job is gone, whatever its state
	ActionMove   Action = "move"   // to another queue
	ActionBury   Action = "bury"   // set aside
	ActionKick   Action = "kick"   // a buried job is ready again
	// ActionRespawn makes a dead or failed job ready as if it were new.
	ActionRespawn Action = "respawn"
)

// With is what some actions need besides the jobs.
type With struct {
	To       string `json:"to,omitempty"`       // move: the queue to move to
	Attempts uint32 `json:"attempts,omitempty"` // respawn: how many attempts it has from now on; zero: as it had
}

// alive are the states of jobs that have not come to an end.
var alive = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried)

// everyState is the set that allows every state by naming it.
var everyState = alive | job.StatesOf(job.Done, job.Failed, job.Dead)

// actionStates are the states that each action applies to.
var actionStates = map[Action]job.States{
	ActionRetry:   job.StatesOf(job.Retrying, job.Failed, job.Dead),
	ActionRun:     job.StatesOf(job.Scheduled),
	ActionKill:    alive,
	ActionCancel:  alive,
	ActionDelete:  everyState,
	ActionMove:    everyState &^ job.StatesOf(job.Leased),
	ActionBury:    alive &^ job.StatesOf(job.Buried),
	ActionKick:    job.StatesOf(job.Buried),
	ActionRespawn: job.StatesOf(job.Failed, job.Dead),
}

// Actions returns the names of all actions, in order.
func Actions() []Action { return slices.Sorted(maps.Keys(actionStates)) }

// States returns the states that the action applies to: none, if there is no such action.
func (a Action) States() job.States { return actionStates[a] }

// Applies reports whether an action can be done to a job in a state.
func (a Action) Applies(state string) bool {
	s, ok := job.ParseState(state)
	return ok && a.States() != 0 && a.States().Allow(s)
}

// commands are what the actions are for the engine.
var commands = map[Action]func(ref job.Ref, in job.States, with With) job.Command{
	ActionRetry: promote,
	ActionRun:   promote,
	ActionKill: func(ref job.Ref, in job.States, _ With) job.Command {
		return &job.Kill{Ref: ref, In: in}
	},
	ActionCancel: remove,
	ActionDelete: remove,
	ActionMove: func(ref job.Ref, in job.States, with With) job.Command {
		return &job.Move{Ref: ref, In: in, Queue: with.To}
	},
	ActionBury: func(ref job.Ref, in job.States, _ With) job.Command {
		return &job.Bury{Ref: ref, In: in, Need: job.NeedAny}
	},
	ActionKick: func(ref job.Ref, _ job.States, _ With) job.Command {
		return &job.Kick{Ref: ref, One: true}
	},
	ActionRespawn: func(ref job.Ref, in job.States, with With) job.Command {
		return &job.Respawn{
			Ref: ref, One: true, In: in, Attempts: with.Attempts, OwnAttempts: with.Attempts == 0, OwnExpiry: true,
		}
	},
}

func promote(ref job.Ref, in job.States, _ With) job.Command {
	return &job.Promote{Ref: ref, In: in, Place: job.PlaceTail}
}

func remove(ref job.Ref, in job.States, _ With) job.Command {
	return &job.Delete{Ref: ref, In: in, Need: job.NeedAny}
}

// check refuses an action that is none, and one that lacks what it needs or has what another one needs.
func (a Action) check(with With) error {
	if a.States() == 0 {
		names := make([]string, 0, len(commands))
		for _, name := range Actions() {
			names = append(names, string(name))
		}
		return api.Invalid("action: %q is none of %s", a, strings.Join(names, ", "))
	}
	if (a == ActionMove) != (with.To != "") {
		return api.Invalid("to: the action move, and no other, needs the name of a queue")
	}
	if a != ActionRespawn && with.Attempts != 0 {
		return api.Invalid("attempts: only the action respawn gives jobs new attempts")
	}
	return api.CheckName("to", with.To)
}

// Target is a job that is acted on, and the state in which the operator has seen it: in
// any other nothing is done.
type Target struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue,omitempty"` // may be left out where it is not known
	ID        job.ID `json:"id"`
	State     string `json:"state,omitempty"` // without it every state will do to which the action applies
}

// command makes the command of an action.
func (a Action) command(t Target, with With) (job.Command, error) {
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
func (s *Service) Act(ctx context.Context, a Action, t Target, with With) error {
	if err := a.check(with); err != nil {
		return err
	}
	if t.Queue == "" {
		found := []Target{t}
		if err := s.locate(found); err != nil {
			return err
		}
		t = found[0]
	}
	cmd, err := a.command(t, with)
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
func (s *Service) locate(targets []Target) error {
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
func (s *Service) refused(a Action, t Target, err *job.Error) *api.Problem {
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

// Outcome is what became of one of several jobs.
type Outcome struct {
	Namespace string       `json:"namespace"`
	ID        job.ID       `json:"id"`
	Done      bool         `json:"done"`
	Problem   *api.Problem `json:"problem,omitempty"`
}

// ActAll does the same to several jobs, and tells of each what became of it. If the request
// itself is wrong, nothing is done to any of them.
func (s *Service) ActAll(ctx context.Context, a Action, targets []Target, with With) ([]Outcome, error) {
	if err := a.check(with); err != nil {
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
		cmd, err := a.command(t, with)
		if err != nil {
			if p, ok := errors.AsType[*api.Problem](err); ok {
				return nil, api.Invalid("jobs: number %d: %s", i+1, p.Detail)
			}
			return nil, err
		}
		cmds = append(cmds, cmd)
	}
	out, done := make([]Outcome, 0, len(targets)), 0
	for i, r := range s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmds...) {
		o := Outcome{Namespace: targets[i].Namespace, ID: targets[i].ID, Done: r.Err == nil}
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
