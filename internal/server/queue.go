package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect/faktory"
	"millrace/internal/job"
	"millrace/internal/operator"
)

// queueRule is what a file says of a queue: that which its Sets name.
type queueRule struct {
	operator.Ruled

	limits job.Limits
	fair   job.Fairness
}

// queueRules sets what files say of queues, and takes back what they do not say any more. Everything else of a queue is
// the operator's.
func queueRules(s *server, c *config.Config, rules []config.Rule) ([]job.Command, error) {
	now := map[string]queueRule{}
	for _, r := range rules {
		section, parse := config.RuleQueue, ownQueue
		if r.Original {
			section, parse = config.SectionThrottles, func(value []byte) (queueRule, error) {
				return throttle(c, value)
			}
		}
		q, err := parse(r.Value)
		if _, twice := now[q.Name()]; twice {
			err = errors.New("it is there twice")
		}
		if err != nil {
			if q.Queue != "" {
				section += ": " + q.Queue
			}
			return nil, fmt.Errorf("%s: %s: %w", r.From, section, plainError(err))
		}
		now[q.Name()] = q
	}
	before, err := s.ruled()
	if err != nil {
		return nil, err
	}
	for name, r := range before {
		if _, ok := now[name]; !ok {
			now[name] = queueRule{Ruled: operator.Ruled{Namespace: r.Namespace, Queue: r.Queue}}
		}
	}
	var cmds []job.Command
	for _, name := range slices.Sorted(maps.Keys(now)) {
		r := now[name]
		set, err := s.rule(&r, before[name])
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, set...)
	}
	return cmds, nil
}

// ruled returns what files have set, by the names of the values that tell so.
func (s *server) ruled() (map[string]operator.Ruled, error) {
	const page = 1000
	all := map[string]operator.Ruled{}
	for after := ""; ; {
		values, err := s.engine.Values(operator.RuledSpace, after, page)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			var r operator.Ruled
			if err := json.Unmarshal(v.Value, &r); err != nil {
				return nil, fmt.Errorf("what files have set of queues: %w", err)
			}
			all[v.Name], after = r, v.Name
		}
		if len(values) < page {
			return all, nil
		}
	}
}

// rule makes the commands that take over a rule. What the file had set before and does not set now is taken back. While
// that happens both are noted, so that a crash in between leaves nothing behind for ever.
func (s *server) rule(r *queueRule, before operator.Ruled) ([]job.Command, error) {
	q, _, err := s.engine.Queue(r.Namespace, r.Queue)
	if err != nil {
		return nil, err
	}
	both := operator.Ruled{Namespace: r.Namespace, Queue: r.Queue, Sets: slices.Concat(before.Sets, r.Sets)}
	slices.Sort(both.Sets)
	both.Sets = slices.Compact(both.Sets)
	note := func(v *operator.Ruled) (job.Command, error) {
		value, err := json.Marshal(v)
		return &job.SetValue{Space: operator.RuledSpace, Name: v.Name(), Value: value}, err
	}
	var cmds []job.Command
	if !slices.Equal(both.Sets, before.Sets) {
		cmd, err := note(&both)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, cmd)
	}
	if limits := both.Limits(q.Limits, r.limits); limits != q.Limits {
		cmds = append(cmds, &job.SetLimits{Namespace: r.Namespace, Queue: r.Queue, Limits: limits})
	}
	if both.Fair() && (r.fair.On != q.Fairness.On || !maps.Equal(r.fair.Weights, q.Fairness.Weights)) {
		cmds = append(cmds, &job.SetFair{Namespace: r.Namespace, Queue: r.Queue, Fairness: r.fair})
	}
	switch {
	case len(r.Sets) == 0:
		cmds = append(cmds, &job.DropValue{Space: operator.RuledSpace, Name: r.Name()})
	case !slices.Equal(both.Sets, r.Sets):
		cmd, err := note(&r.Ruled)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, cmd)
	}
	return cmds, nil
}

// strictly decodes a value that may have no other keys than those of the struct.
func strictly(value []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// ownQueue understands a [[queue]] of our own file, which has the words of the API.
func ownQueue(value []byte) (queueRule, error) {
	var e struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Fair      bool              `json:"fair"`
		Weights   map[string]uint32 `json:"weights"`
		api.Limits
	}
	e.Namespace = "default"
	var named map[string]json.RawMessage
	err := strictly(value, &e)
	if err == nil {
		err = json.Unmarshal(value, &named)
	}
	r := queueRule{Ruled: operator.Ruled{Namespace: e.Namespace, Queue: e.Name}}
	if err != nil {
		return r, err
	}
	says := func(name string) bool { return named[name] != nil }
	switch {
	case e.Name == "":
		return r, errors.New("name is missing")
	case says("weights") && !e.Fair:
		return r, errors.New("weights: they need fair = true")
	case says("slot_seconds") && e.Concurrency == 0 && e.Worker == 0:
		return r, errors.New("slot_seconds: it needs concurrency or worker")
	case says("burst") && e.Rate == "" || says("group_burst") && e.GroupRate == "":
		return r, errors.New("burst: it needs a rate")
	}
	delete(named, "name")
	delete(named, "namespace")
	delete(named, "weights") // they are part of being fair
	if r.Sets = slices.Sorted(maps.Keys(named)); len(r.Sets) == 0 {
		return r, errors.New("write what is limited, for example concurrency = 4, or fair = true")
	}
	limits, err := operator.LimitsEntry(&e.Limits)
	if err != nil {
		return r, err
	}
	return r, r.tidy(limits, job.Fairness{On: e.Fair, Weights: e.Weights})
}

// throttle understands an entry of [throttles], as Faktory's files have it.
func throttle(c *config.Config, value []byte) (queueRule, error) {
	var e struct {
		Queue  string          `json:"queue"`
		Limits json.RawMessage `json:"limits"`
	}
	var l struct {
		Concurrency uint32 `json:"concurrency"`
		Worker      uint32 `json:"worker"`
		Timeout     uint32 `json:"timeout"` // seconds
	}
	err := json.Unmarshal(value, &e)
	r := queueRule{Ruled: operator.Ruled{
		Namespace: faktory.SettingsOf(c).Namespace, Queue: e.Queue,
		Sets: []string{"concurrency", "slot_seconds", "worker"},
	}}
	if err == nil {
		err = strictly(e.Limits, &l)
	}
	if err != nil {
		return r, err
	}
	if e.Queue == "" || l.Concurrency == 0 && l.Worker == 0 {
		return r, errors.New("write for example { concurrency = 4, timeout = 60 } or { worker = 5 }")
	}
	limits := job.Limits{Concurrency: l.Concurrency, Worker: l.Worker, SlotFor: time.Duration(l.Timeout) * time.Second}
	return r, r.tidy(limits, job.Fairness{})
}

// tidy takes what the rule says, if it can be.
func (r *queueRule) tidy(limits job.Limits, fair job.Fairness) error {
	var refused *job.Error
	if r.limits, refused = limits.Tidy(); refused == nil {
		r.fair, refused = fair.Tidy()
	}
	if refused != nil {
		return refused
	}
	return nil
}
