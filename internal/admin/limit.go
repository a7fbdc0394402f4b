package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// Limits say how many jobs of a queue may run at a time, and how fast they are given out. Zero, or an empty rate, is no
// limit.
type Limits struct {
	Concurrency uint32 `json:"concurrency"` // at a time
	Worker      uint32 `json:"worker"`      // at a time by one worker
	// SlotSeconds frees the slot of a job that long after it was given out, although it may still run.
	SlotSeconds float64 `json:"slot_seconds"`
	Rate        string  `json:"rate"`  // such as 100/s
	Burst       uint32  `json:"burst"` // of that rate, at once after a quiet time
	// The same for the jobs of each group. Without GroupConcurrency it is one at a time, and any number in a fair
	// queue.
	GroupConcurrency uint32 `json:"group_concurrency,omitempty"`
	GroupRate        string `json:"group_rate,omitempty"`
	GroupBurst       uint32 `json:"group_burst,omitempty"`
}

// LimitUse is the limits of a queue and how far they are used.
type LimitUse struct {
	Limits
	SlotsUsed uint64  `json:"slots_used"`
	SlotsFree *uint64 `json:"slots_free,omitempty"` // if Concurrency is limited
	Held      uint64  `json:"held"`                 // ready jobs that wait because of a limit
}

// limitUse returns the limits of a queue; nil if it has none.
func (s *Service) limitUse(q *job.QueueInfo) (*LimitUse, error) {
	if q.Limits.IsZero() {
		return nil, nil //nolint:nilnil // it has none
	}
	u, err := s.engine.Usage(q.Namespace, q.Name)
	if err != nil {
		return nil, api.Refusal(err)
	}
	out := &LimitUse{Limits: limitsOf(&q.Limits), SlotsUsed: u.Slots, Held: u.Held}
	if n := uint64(q.Limits.Concurrency); n > 0 {
		free := n - min(n, u.Slots)
		out.SlotsFree = &free
	}
	return out, nil
}

func limitsOf(l *job.Limits) Limits {
	return Limits{
		Concurrency: l.Concurrency, Worker: l.Worker, SlotSeconds: l.SlotFor.Seconds(), Rate: showRate(l.Rate, l.Per), Burst: l.Burst,
		GroupConcurrency: l.GroupConcurrency, GroupRate: showRate(l.GroupRate, l.GroupPer), GroupBurst: l.GroupBurst,
	}
}

// Limits returns the limits of a queue.
func (s *Service) Limits(namespace, name string) (Limits, error) {
	q, err := s.Queue(namespace, name)
	if err != nil || q.Limits == nil {
		return Limits{}, err
	}
	return q.Limits.Limits, nil
}

// SetLimits sets all limits of a queue at once. A queue that is not there is made.
func (s *Service) SetLimits(ctx context.Context, namespace, name string, l Limits) (Queue, error) {
	if namespace == "" || name == "" {
		return Queue{}, api.Invalid("name a namespace and a queue")
	}
	limits, err := l.Entry()
	if err == nil {
		err = s.mayLimit(namespace, name, limits)
	}
	if err != nil {
		return Queue{}, err
	}
	if limits.IsZero() {
		if err := s.exists(namespace, name); err != nil {
			return Queue{}, err
		}
	}
	if _, err := s.do(ctx, &job.SetLimits{Namespace: namespace, Queue: name, Limits: limits}); err != nil {
		return Queue{}, err
	}
	s.Note(ctx, 0, "set limits of queue %s: %s", name, l.text())
	return s.Queue(namespace, name)
}

// Entry makes the limits that the engine keeps.
func (l *Limits) Entry() (job.Limits, error) {
	age, err := api.Seconds("slot_seconds", l.SlotSeconds)
	if err != nil {
		return job.Limits{}, err
	}
	rate, per, err := ParseRate(l.Rate)
	if err != nil {
		return job.Limits{}, err
	}
	groupRate, groupPer, err := ParseRate(l.GroupRate)
	if err != nil {
		return job.Limits{}, err
	}
	return job.Limits{
		Concurrency: l.Concurrency, Worker: l.Worker, SlotFor: age, Rate: rate, Per: per, Burst: l.Burst,
		GroupConcurrency: l.GroupConcurrency, GroupRate: groupRate, GroupPer: groupPer, GroupBurst: l.GroupBurst,
	}, nil
}

// text shows the limits.
func (l *Limits) text() string {
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
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// rateUnits are the units of time that a rate is given in, the shortest first.
var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}

// ParseRate understands a rate such as 100/s, 5/m or 1/90s. An empty one, and 0, is none.
func ParseRate(text string) (n uint32, per time.Duration, err error) {
	if text == "" || text == "0" {
		return 0, 0, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	jobs, nerr := strconv.ParseUint(count, 10, 32)
	for _, u := range rateUnits {
		if u.name == unit {
			per = u.per
		}
	}
	if per == 0 {
		if per, err = time.ParseDuration(unit); err != nil {
			nerr = err
		}
	}
	if nerr != nil || per <= 0 || jobs > math.MaxUint32 {
		return 0, 0, api.Invalid("rate: %q is no rate: choose for example 100/s, 5/m, 1000/h or 1/90s", text)
	}
	return uint32(jobs), per, nil
}

func showRate(n uint32, per time.Duration) string {
	if n == 0 {
		return ""
	}
	unit := per.String()
	for _, u := range rateUnits {
		if u.per == per {
			unit = u.name
		}
	}
	return strconv.FormatUint(uint64(n), 10) + "/" + unit
}

func (c *call) getLimits() error { return c.Result(c.Limits(c.queueName())) }

func (c *call) setLimits() error {
	var in Limits
	if err := c.Decode(&in); err != nil {
		return err
	}
	namespace, name := c.queueName()
	return c.Result(c.SetLimits(c.R.Context(), namespace, name, in))
}
