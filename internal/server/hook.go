package server

import (
	"context"
	"fmt"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/hook"
	"millrace/internal/job"
	"millrace/internal/operator"
)

// buildHooks makes what calls URLs, if calls can be signed. In a cluster only the leader builds it.
func (s *server) buildHooks() {
	if c := &s.cfg.Hooks; len(c.Secrets) > 0 {
		s.hooks = hook.New(hook.Options{
			Engine: s.engine, Secrets: c.Secrets, Allow: c.Prefixes(), Door: dialect.DoorAdmin, Version: s.opts.Version,
			Logger: s.log,
		})
	}
}

// calling adds the calls to what runs until ctx ends.
func (s *server) calling(ctx context.Context, runs []func() error) []func() error {
	if s.hooks == nil {
		return runs
	}
	return append(runs, func() error {
		s.hooks.Run(ctx)
		return nil
	})
}

// hookEntry is a [[hook]] of our own file.
type hookEntry struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	api.NewHook
}

// hookRules makes the hooks of the file: those that are not there any more go.
func hookRules(_ *server, c *config.Config, rules []config.Rule) ([]job.Command, error) {
	cmd := &job.SetHooks{Source: job.SourceFile, Replace: true}
	for _, r := range rules {
		e := hookEntry{Namespace: "default"}
		err := strictly(r.Value, &e)
		var h job.Hook
		if err == nil {
			h, err = operator.HookEntry(&e.NewHook, e.Namespace, e.Queue, dialect.DoorAdmin, len(c.Hooks.Secrets) > 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: hook: %w", r.From, plainError(err))
		}
		cmd.Hooks = append(cmd.Hooks, h)
	}
	return []job.Command{cmd}, nil
}
