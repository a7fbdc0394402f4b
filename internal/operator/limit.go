package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"millrace/internal/api"
	"millrace/internal/job"
)

// limitUse returns the limits of a queue; nil if it has none.
func (s *Service) limitUse(q *job.QueueInfo) (*api.LimitUse, error) {
	if q.Limits.IsZero() {
		return nil, nil //nolint:nilnil // it has none
	}
	u, err := s.engine.Usage(q.Namespace, q.Name)
	if err != nil {
		return nil, api.Refusal(err)
	}
	out := &api.LimitUse{Limits: limitsOf(&q.Limits), SlotsUsed: u.Slots, Held: u.Held}
	if n := uint64(q.Limits.Concurrency); n > 0 {
		free := n - min(n, u.Slots)
		out.SlotsFree = &free
	}
	return out, nil
}

func limitsOf(l *job.Limits) api.Limits {
	return api.Limits{
		Concurrency: l.Concurrency, Worker: l.Worker, SlotSeconds: l.SlotFor.Seconds(),
		Rate: api.ShowRate(l.Rate, l.Per), Burst: l.Burst,
		GroupConcurrency: l.GroupConcurrency, GroupRate: api.ShowRate(l.GroupRate, l.GroupPer),
		GroupBurst: l.GroupBurst,
	}
}

// Limits returns the limits of a queue.
func (s *Service) Limits(namespace, name string) (api.Limits, error) {
	q, err := s.Queue(namespace, name)
	if err != nil || q.Limits == nil {
		return api.Limits{}, err
	}
	return q.Limits.Limits, nil
}

// SetLimits sets all limits of a queue at once. A queue that is not there is made.
func (s *Service) SetLimits(ctx context.Context, namespace, name string, l api.Limits) (api.Queue, error) {
	if namespace == "" || name == "" {
		return api.Queue{}, api.Invalid("name a namespace and a queue")
	}
	limits, err := LimitsEntry(&l)
	if err == nil {
		err = s.mayLimit(namespace, name, limits)
	}
	if err != nil {
		return api.Queue{}, err
	}
	if limits.IsZero() {
		if err := s.exists(namespace, name); err != nil {
			return api.Queue{}, err
		}
	}
	if _, err := s.do(ctx, &job.SetLimits{Namespace: namespace, Queue: name, Limits: limits}); err != nil {
		return api.Queue{}, err
	}
	s.Note(ctx, 0, "set limits of queue %s: %s", name, limitsText(&l))
	return s.Queue(namespace, name)
}

// LimitsEntry makes the limits that the engine keeps.
func LimitsEntry(l *api.Limits) (job.Limits, error) {
	age, err := api.Seconds("slot_seconds", l.SlotSeconds)
	if err != nil {
		return job.Limits{}, err
	}
	rate, per, err := api.ParseRate(l.Rate)
	if err != nil {
		return job.Limits{}, err
	}
	groupRate, groupPer, err := api.ParseRate(l.GroupRate)
	if err != nil {
		return job.Limits{}, err
	}
	return job.Limits{
		Concurrency: l.Concurrency, Worker: l.Worker, SlotFor: age, Rate: rate, Per: per, Burst: l.Burst,
		GroupConcurrency: l.GroupConcurrency, GroupRate: groupRate, GroupPer: groupPer, GroupBurst: l.GroupBurst,
	}, nil
}

// limitsText shows the limits.
func limitsText(l *api.Limits) string {
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(l.Concurrency > 0, "%d at a time", l.Concurrency)
	add(l.Worker > 0, "%d by one worker", l.Worker)
	add(l.SlotSeconds > 0, "slots free after %g s", l.SlotSeconds)
	add(l.Rate != "" && l.Rate != "0", "rate %s", l.Rate)
	add(l.Burst > 0, "burst %d", l.Burst)
	add(l.GroupConcurrency > 0, "%d at a time of a group", l.GroupConcurrency)
	add(l.GroupRate != "" && l.GroupRate != "0", "rate %s of a group", l.GroupRate)
	add(l.GroupBurst > 0, "burst %d of a group", l.GroupBurst)
	return cmp.Or(strings.Join(parts, ", "), "none")
}
