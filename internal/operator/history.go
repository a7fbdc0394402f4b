package operator

import (
	"millrace/internal/api"
	"millrace/internal/history"
	"millrace/internal/timing"
)

// waitOf sums a histogram up; nil if nothing was counted.
func waitOf(h *timing.Histogram) *api.Wait {
	if h == nil || h.Count == 0 {
		return nil
	}
	return &api.Wait{
		Jobs: h.Count, Mean: h.Mean().Seconds(), P50: h.Quantile(0.5).Seconds(),
		P95: h.Quantile(0.95).Seconds(),
	}
}

// History returns a ring of the history: "10s" is the last hour, "1m" the last day, "1h" the last
// month. The slot that is not over is not in it.
func (s *Service) History(name string) (api.History, error) {
	r := history.Find(history.All, name)
	if r == nil {
		return api.History{}, api.Invalid("resolution: %q is none of 10s, 1m and 1h", name)
	}
	return s.points(r, history.Name{})
}

// QueueHistory returns what happened in a queue in the last "hour", "day" or "month", the oldest slot first. A slot
// tells of it as far as it was among the busiest then, and shows nothing otherwise.
func (s *Service) QueueHistory(namespace, queue, period string) (api.History, error) {
	return s.partHistory(history.Name{Namespace: namespace, Queue: queue}, period)
}

// TypeHistory returns the same for the jobs of a type.
func (s *Service) TypeHistory(typ, period string) (api.History, error) {
	if typ == "" {
		return api.History{}, api.Invalid("type: say which")
	}
	return s.partHistory(history.Name{Type: typ}, period)
}

func (s *Service) partHistory(of history.Name, period string) (api.History, error) {
	r, err := findPeriod(period)
	if err != nil {
		return api.History{}, err
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
func (s *Service) points(r *history.Ring, of history.Name) (api.History, error) {
	out := api.History{Resolution: r.Name, Seconds: r.Step.Seconds(), Points: []api.Point{}}
	slots, err := r.Slots(s.engine, s.opts.Now())
	if err != nil {
		return out, api.Refusal(err)
	}
	for i := range slots {
		f := slots[i].Of(of)
		out.Points = append(out.Points, api.Point{
			At: slots[i].At, Pushed: f.Pushed, Fetched: f.Fetched, Acked: f.Acked, Failed: f.Failed, Died: f.Died,
			Expired: f.Expired,
			Wait:    waitOf(f.Wait), Run: waitOf(f.Run), Counts: slots[i].Counts,
		})
	}
	return out, nil
}

// Parts returns what happened in the last "hour", "day" or "month". The slot that is not over is not in it. A queue is
// in it as far as it was among the busiest of a slot.
func (s *Service) Parts(period string) (api.Parts, error) {
	sum, seconds, err := s.sum(period)
	out := api.Parts{Period: period, Seconds: seconds, Protocols: []api.Part{}, Queues: []api.Part{}}
	protocols, _, queues := sum.Busiest()
	shown := func(list []api.Part, parts []*history.Part) []api.Part {
		for _, p := range parts {
			list = append(list, api.Part{
				Protocol: p.Protocol, Namespace: p.Namespace, Name: p.Queue, Pushed: p.Pushed,
				Fetched: p.Fetched, Acked: p.Acked, Failed: p.Failed, Wait: waitOf(p.Wait),
			})
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
