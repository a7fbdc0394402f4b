package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/job"
)

// The limit of hooks counts what there will be in the end.
func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	hook := func(queue, to string) job.Hook {
		return job.Hook{Namespace: namespace, Queue: queue, Job: job.Spec{Namespace: namespace, Queue: to}}
	}
	all := &job.SetHooks{}
	for i := range job.MaxHooks {
		all.Hooks = append(all.Hooks, hook(fmt.Sprint(i), "q"))
	}
	s.must(all)
	if s.do(&job.SetHooks{Hooks: []job.Hook{hook("more", "q")}}); s.res.Err == nil || s.res.Err.Kind != job.TooLarge {
		t.Errorf("one too many: %v", s.res.Err)
	}
	s.must(&job.SetHooks{Hooks: []job.Hook{hook("0", "r")}})
	s.must(&job.SetHooks{Hooks: []job.Hook{hook("more", "q"), hook("0", "")}})
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
