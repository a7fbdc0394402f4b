package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/internal/config"
	"millrace/internal/dialect/faktory"
	"millrace/internal/job"
)

// throttleSpace has a value for every queue whose limits a file has set, so that they go when the file does not name
// the queue any more.
const throttleSpace = "server.throttles"

// throttle is the place of a queue, and the value that stands for it.
type throttle struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
}

func (t throttle) name() string { return t.Namespace + "\x00" + t.Queue }

// throttleRules limits the queues that Faktory's files throttle, and lifts the limits of those that they do not
// throttle any more. What else is limited stays: rates are not theirs.
func throttleRules(s *server, c *config.Config, rules []config.Rule) ([]job.Command, error) {
	named := map[string]throttle{}
	var cmds []job.Command
	for _, r := range rules {
		queue, l, err := parseThrottle(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: throttles: %s: %w", r.From, queue, err)
		}
		t := throttle{faktory.SettingsOf(c).Namespace, queue}
		if _, twice := named[t.name()]; twice {
			return nil, fmt.Errorf("%s: throttles: %s is there twice", r.From, queue)
		}
		named[t.name()] = t
		value, err := json.Marshal(t)
		if err != nil {
			return nil, fmt.Errorf("%s: throttles: %w", r.From, err)
		}
		cmds = append(cmds, &job.SetValue{Space: throttleSpace, Name: t.name(), Value: value})
		set, err := s.throttled(t, l)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, set)
	}
	gone, err := s.noLongerThrottled(named)
	if err != nil {
		return nil, err
	}
	return append(cmds, gone...), nil
}

// noLongerThrottled lifts the limits of queues that are not named any more.
func (s *server) noLongerThrottled(named map[string]throttle) (cmds []job.Command, err error) {
	gone := map[string]throttle{}
	for after := ""; ; {
		page, err := s.engine.Values(throttleSpace, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, v := range page {
			var t throttle
			if err := json.Unmarshal(v.Value, &t); err != nil {
				return nil, fmt.Errorf("the queues that are throttled: %w", err)
			}
			if _, ok := named[v.Name]; !ok {
				gone[v.Name] = t
			}
			after = v.Name
		}
		if len(page) < 1000 {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		set, err := s.throttled(gone[name], job.Limits{})
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, set, &job.DropValue{Space: throttleSpace, Name: name})
	}
	return cmds, nil
}

// throttled sets the limits that a throttle sets and leaves the others of the queue.
func (s *server) throttled(t throttle, l job.Limits) (*job.SetLimits, error) {
	q, _, err := s.engine.Queue(t.Namespace, t.Queue)
	all := q.Limits
	all.Concurrency, all.Worker, all.SlotFor = l.Concurrency, l.Worker, l.SlotFor
	return &job.SetLimits{Namespace: t.Namespace, Queue: t.Queue, Limits: all}, err
}

// parseThrottle understands an entry of [throttles].
func parseThrottle(value []byte) (queue string, l job.Limits, err error) {
	var e struct {
		Queue  string          `json:"queue"`
		Limits json.RawMessage `json:"limits"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return "", l, err
	}
	var limits struct {
		Concurrency uint32 `json:"concurrency"`
		Worker      uint32 `json:"worker"`
		Timeout     uint32 `json:"timeout"` // seconds
	}
	d := json.NewDecoder(bytes.NewReader(e.Limits))
	d.DisallowUnknownFields()
	if err := d.Decode(&limits); err != nil {
		return e.Queue, l, plainError(err)
	}
	if e.Queue == "" || limits.Concurrency == 0 && limits.Worker == 0 {
		return e.Queue, l, errors.New("write for example { concurrency = 4, timeout = 60 } or { worker = 5 }")
	}
	l = job.Limits{
		Concurrency: limits.Concurrency, Worker: limits.Worker, SlotFor: time.Duration(limits.Timeout) * time.Second,
	}
	if l, refused := l.Tidy(); refused != nil {
		return e.Queue, l, refused
	}
	return e.Queue, l, nil
}
