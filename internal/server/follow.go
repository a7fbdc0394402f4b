package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
	"millrace/internal/job"
	"millrace/internal/operator"
	"millrace/internal/schedule"
)

// What files of the configuration rule besides settings is kept with the data, so that it has a history. It is taken
// over when the server starts to serve, in a cluster by the node that leads, and whenever the configuration is read
// again. All rules are read before any is taken over: a wrong one changes nothing.

// ruleKind turns the rules of one kind into the commands that take them over. An error that is of one rule names its
// file and line.
type ruleKind struct {
	name     string
	indexed  bool // a refusal of its command has the index of a rule
	commands func(s *server, c *config.Config, rules []config.Rule) ([]job.Command, error)
}

// ruleKinds are all kinds. Another one adds itself here.
var ruleKinds = []ruleKind{
	{config.RuleCron, true, cronRules}, {config.RuleQueue, false, queueRules}, {config.RuleHook, true, hookRules},
}

// follow takes over the rules of a configuration, or says why not.
func (s *server) follow(c *config.Config) error {
	type part struct {
		rules []config.Rule
		cmds  []job.Command
	}
	var parts []part
	for _, k := range ruleKinds {
		var of []config.Rule
		for _, r := range c.Rules {
			if r.Kind == k.name {
				of = append(of, r)
			}
		}
		cmds, err := k.commands(s, c, of)
		if err != nil {
			return err
		}
		if !k.indexed {
			of = nil
		}
		parts = append(parts, part{of, cmds})
	}
	caller := s.engine.NewCallerAt(dialect.DoorAdmin)
	for _, p := range parts {
		for _, cmd := range p.cmds {
			res := caller.Do(context.Background(), cmd)[0]
			switch {
			case res.Err == nil && res.Count > 0:
				s.log.Info("rules of the configuration taken over", slog.Int("changed", res.Count))
			case res.Err != nil && res.Err.Index < len(p.rules):
				return fmt.Errorf("%s: %w", p.rules[res.Err.Index].From, res.Err)
			case res.Err != nil:
				return res.Err
			}
		}
	}
	return nil
}

// followFirst takes over the rules when the server starts to serve. A rule that is wrong is an error. If nothing can be
// stored now, the server serves with the rules that it has.
func (s *server) followFirst() error {
	s.settings.onReload(func(next *config.Config) (apply func(), err error) {
		return func() {}, s.follow(next) // the last to be asked: everything else is right
	})
	err := s.follow(s.settings.current.Load())
	if errors.Is(err, job.ErrFormat) {
		s.log.Warn("rules of the configuration wait until all nodes of the cluster can be reached and run this release")
		return nil
	}
	if refused, ok := errors.AsType[*job.Error](err); ok && refused.Kind != job.Invalid &&
		refused.Kind != job.TooLarge {
		s.log.Error("rules of the configuration not taken over: reload it later", slog.Any("error", err))
		return nil
	}
	return err
}

// cronEntry is a [[cron]] of our own file.
type cronEntry struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Enabled   *bool  `json:"enabled"`
	api.NewCron
}

// cronRules makes the schedules of the files: those that are not there any more go.
func cronRules(_ *server, c *config.Config, rules []config.Rule) ([]job.Command, error) {
	cmd := &job.SetSchedules{Source: job.SourceFile, Replace: true}
	types := map[string]int{}
	for _, r := range rules {
		var entry job.Schedule
		var err error
		if r.Original {
			entry, err = faktoryCron(c, r.Value, types)
		} else {
			entry, err = ownCron(r.Value)
		}
		if err == nil {
			_, err = schedule.Parse(entry.When, entry.Zone)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: cron: %w", r.From, plainError(err))
		}
		cmd.Entries = append(cmd.Entries, entry)
	}
	return []job.Command{cmd}, nil
}

// plainError leaves out of an error what is not for who reads a log.
func plainError(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return errors.New(p.Detail)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func ownCron(value []byte) (job.Schedule, error) {
	var e cronEntry
	if err := strictly(value, &e); err != nil {
		return job.Schedule{}, err
	}
	if e.Name == "" {
		return job.Schedule{}, errors.New("name is missing")
	}
	if e.Namespace == "" {
		e.Namespace = "default"
	}
	e.Paused = e.Paused || e.Enabled != nil && !*e.Enabled
	return operator.CronEntry(&e.NewCron, e.Namespace, e.Name, dialect.DoorAdmin)
}

// faktoryCron reads a [[cron]] as Faktory's files have it. Such an entry has no name: it is called after the type of
// its job, and if there are several of that type they are numbered.
func faktoryCron(c *config.Config, value []byte, types map[string]int) (job.Schedule, error) {
	var e struct {
		Schedule string                     `json:"schedule"`
		Job      map[string]json.RawMessage `json:"job"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return job.Schedule{}, err
	}
	settings := faktory.SettingsOf(c)
	spec, err := faktory.Scheduled(settings.Namespace, settings.DeadMax, e.Job)
	name := spec.Type
	if types[name]++; types[name] > 1 {
		name = fmt.Sprintf("%s-%d", name, types[name])
	}
	return job.Schedule{Namespace: settings.Namespace, Name: name, When: e.Schedule, Job: spec}, err
}
