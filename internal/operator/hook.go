package operator

import (
	"context"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/hook"
	"millrace/internal/job"
)

// hookType is the type of the jobs that hooks push.
const hookType = "millrace.died"

// HookEntry makes the hook that the engine keeps. Without any secret no URL can be called.
func HookEntry(n *api.NewHook, namespace, queue string, door job.Door, signed bool) (job.Hook, error) {
	h := job.Hook{Namespace: namespace, Queue: queue}
	if err := api.CheckQueue(namespace, queue); err != nil {
		return h, err
	}
	switch {
	case n.Push != "" && n.URL != "" || n.Push == "" && n.URL == "":
		return h, api.Invalid("push and url: name one of them")
	case n.Push != "":
		if err := api.CheckQueue(namespace, n.Push); err != nil {
			return h, err
		}
		policy, err := new(api.NewJob).Policy()
		if err != nil {
			return h, err
		}
		h.Job = job.Spec{Namespace: namespace, Queue: n.Push, Type: hookType, Origin: door, Policy: policy}
		return h, nil
	case !signed:
		return h, api.Invalid("url: calls are signed, and the server has no secret for that: set hooks.secret")
	}
	if err := hook.CheckURL(n.URL); err != nil {
		return h, api.Invalid("url: %s", err)
	}
	h.Job = hook.Call(n.URL, door)
	return h, nil
}

func hookOf(h *job.Hook) *api.Hook {
	out := &api.Hook{Namespace: h.Namespace, Queue: h.Queue, Origin: api.NameOf(sourceNames, h.Source)}
	if to, ok := hook.URL(&h.Job); ok {
		out.URL = to
	} else {
		out.Push = h.Job.Queue
	}
	return out
}

// Hooks lists the hooks of a namespace, or of all if it is empty, in order of their queues.
func (s *Service) Hooks(namespace string) (api.Hooks, error) {
	out := api.Hooks{Hooks: []api.Hook{}}
	hooks, err := s.engine.Hooks(namespace)
	for i := range hooks {
		out.Hooks = append(out.Hooks, *hookOf(&hooks[i]))
	}
	return out, api.Refusal(err)
}

// Hook returns the hook of a queue.
func (s *Service) Hook(namespace, queue string) (out api.Hook, err error) {
	err = s.view(func(v *engine.View) error {
		h, ok, err := v.Hook(namespace, queue)
		if err == nil && !ok {
			err = api.NotFound("queue %q in namespace %q has no hook", queue, namespace)
		}
		if err == nil {
			out = *hookOf(&h)
		}
		return err
	})
	return out, err
}

// SetHook sets the hook of a queue, which need not be there.
func (s *Service) SetHook(ctx context.Context, namespace, queue string, n api.NewHook) (api.Hook, error) {
	h, err := HookEntry(&n, namespace, queue, s.opts.Door, s.opts.CallsURLs)
	if err != nil {
		return api.Hook{}, err
	}
	if _, err := s.do(ctx, &job.SetHooks{Hooks: []job.Hook{h}}); err != nil {
		return api.Hook{}, err
	}
	s.Note(ctx, 0, "set hook of queue %s", queue)
	return s.Hook(namespace, queue)
}

// DropHook removes the hook of a queue. What it has pushed stays.
func (s *Service) DropHook(ctx context.Context, namespace, queue string) error {
	if _, err := s.Hook(namespace, queue); err != nil {
		return err
	}
	_, err := s.do(ctx, &job.SetHooks{Hooks: []job.Hook{{Namespace: namespace, Queue: queue}}})
	if err == nil {
		s.Note(ctx, 0, "remove hook of queue %s", queue)
	}
	return err
}
