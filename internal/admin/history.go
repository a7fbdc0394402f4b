package admin

import (
	"cmp"
	"time"

	"millrace/internal/api"
	"millrace/internal/history"
	"millrace/internal/timing"
)

// Wait tells how long jobs waited, from when they were ready until they were fetched. Quantiles are as exact as
// the buckets that they are counted in: a fifth too long at most.
type Wait struct {
	Jobs uint64  `json:"jobs"` // that were fetched
	Mean float64 `json:"mean_seconds"`
	P50  float64 `json:"p50_seconds"`
	P95  float64 `json:"p95_seconds"`
}

// waitOf sums a histogram up; nil if nothing was counted.
func waitOf(h *timing.Histogram) *Wait {
	if h == nil || h.Count == 0 {
		return nil
	}
	return &Wait{Jobs: h.Count, Mean: h.Mean().Seconds(), P50: h.Quantile(0.5).Seconds(), P95: h.Quantile(0.95).Seconds()}
}

// Point is what happened in one slot of the history, and how many jobs there were at its end.
type Point struct {
	At      time.Time `json:"at"` // when the slot began
	Pushed  uint64    `json:"pushed"`
	Fetched uint64    `json:"fetched"`
	Acked   uint64    `json:"acked"`
	Failed  uint64    `json:"failed"`
	Died    uint64    `json:"died"`
	Expired uint64    `json:"expired"`
	Wait    *Wait     `json:"wait,omitempty"`
	Run     *Wait     `json:"run,omitempty"` // only of a type of jobs
	// Counts are the jobs by state, of all queues together.
	Counts map[string]uint64 `json:"counts,omitempty"`
}

// History is what happened lately, in slots of one length, the oldest first. Slots in which the
// server did not run are not there.
type History struct {
	Resolution string  `json:"resolution"`
	Seconds    float64 `json:"seconds"` // length of a slot
	Points     []Point `json:"points"`
}

// History returns a ring of the history: "10s" is the last hour, "1m" the last day, "1h" the last
// month. The slot that is not over is not in it.
func (s *Service) History(name string) (History, error) {
	r := history.Find(history.All, name)
	if r == nil {
		return History{}, api.Invalid("resolution: %q is none of 10s, 1m and 1h", name)
	}
	return s.points(r, history.Name{})
}

// QueueHistory returns what happened in a queue in the last "hour", "day" or "month", the oldest slot first. A slot
// tells of it as far as it was among the busiest then, and shows nothing otherwise.
func (s *Service) QueueHistory(namespace, queue, period string) (History, error) {
	return s.partHistory(history.Name{Namespace: namespace, Queue: queue}, period)
}

// TypeHistory returns the same for the jobs of a type.
func (s *Service) TypeHistory(typ, period string) (History, error) {
	if typ == "" {
		return History{}, api.Invalid("type: say which")
	}
	return s.partHistory(history.Name{Type: typ}, period)
}

func (s *Service) partHistory(of history.Name, period string) (History, error) {
	r, err := findPeriod(period)
	if err != nil {
		return History{}, err
	}
	return s.points(r, of)
}

// findPeriod returns the ring of a period.
func findPeriod(name string) (*history.Ring, error) {
	if r := history.Find(history.Parts, name); r != nil {
		return r, nil
	}
	return nil, api.Invalid("period: %q is none of hour, day and month", name)
}

// points returns what happened to something in each slot of a ring.
func (s *Service) points(r *history.Ring, of history.Name) (History, error) {
	out := History{Resolution: r.Name, Seconds: r.Step.Seconds(), Points: []Point{}}
	slots, err := r.Slots(s.engine, s.opts.Now())
	if err != nil {
		return out, api.Refusal(err)
	}
	for i := range slots {
		f := slots[i].Of(of)
		out.Points = append(out.Points, Point{
			At: slots[i].At, Pushed: f.Pushed, Fetched: f.Fetched, Acked: f.Acked, Failed: f.Failed, Died: f.Died, Expired: f.Expired,
			Wait: waitOf(f.Wait), Run: waitOf(f.Run), Counts: slots[i].Counts,
		})
	}
	return out, nil
}

// Parts is what happened lately, by protocol and by queue, the busiest first.
type Parts struct {
	Period    string  `json:"period"`
	Seconds   float64 `json:"seconds"` // that are told about, as far as the server ran
	Protocols []Part  `json:"protocols"`
	Queues    []Part  `json:"queues"`
}

// Part is what happened to a protocol or a queue. Through a protocol, a command that pushes several jobs at once counts
// as one.
type Part struct {
	Protocol  string `json:"protocol,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // of a queue
	Pushed    uint64 `json:"pushed"`
	Fetched   uint64 `json:"fetched"`
	Acked     uint64 `json:"acked"`
	Failed    uint64 `json:"failed"`
	Wait      *Wait  `json:"wait,omitempty"`
}

// Parts returns what happened in the last "hour", "day" or "month". The slot that is not over is not in it. A queue is
// in it as far as it was among the busiest of a slot.
func (s *Service) Parts(period string) (Parts, error) {
	sum, seconds, err := s.sum(period)
	out := Parts{Period: period, Seconds: seconds, Protocols: []Part{}, Queues: []Part{}}
	protocols, _, queues := sum.Busiest()
	shown := func(list []Part, parts []*history.Part) []Part {
		for _, p := range parts {
			list = append(list, Part{p.Protocol, p.Namespace, p.Queue, p.Pushed, p.Fetched, p.Acked, p.Failed, waitOf(p.Wait)})
		}
		return list
	}
	out.Protocols, out.Queues = shown(out.Protocols, protocols), shown(out.Queues, queues)
	return out, err
}

// sum adds up the slots of a period, and tells how many seconds they are.
func (s *Service) sum(period string) (sum history.Slot, seconds float64, err error) {
	r, err := findPeriod(period)
	if err != nil {
		return sum, 0, err
	}
	slots, err := r.Slots(s.engine, s.opts.Now())
	if err != nil {
		return sum, 0, api.Refusal(err)
	}
	return history.Sum(slots), r.Step.Seconds() * float64(len(slots)), nil
}

func (c *call) getHistory() error {
	return c.Result(c.History(cmp.Or(c.query("resolution"), history.All[0].Name)))
}

func (c *call) getParts() error {
	return c.Result(c.Parts(cmp.Or(c.query("period"), history.Parts[0].Name)))
}
