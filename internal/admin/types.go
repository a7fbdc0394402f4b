package admin

import (
	"cmp"
	"slices"
	"strings"

	"millrace/internal/engine"
)

// Types are the figures of types of jobs: in a period, or without one since the server was started.
type Types struct {
	Period  string        `json:"period,omitempty"`
	Seconds float64       `json:"seconds"` // that are told about, as far as the server ran
	Types   []TypeFigures `json:"types"`   // those that were fetched most first
}

// TypeFigures are the figures of a type of jobs.
type TypeFigures struct {
	Type   string `json:"type"`             // empty: jobs without one
	Others bool   `json:"others,omitempty"` // all types together that have no figures of their own
	// Fetched, Acked and Failed are what workers did. A lease that lapsed is no failure here.
	Fetched uint64 `json:"fetched"`
	Acked   uint64 `json:"acked"`
	Failed  uint64 `json:"failed"`
	Wait    *Wait  `json:"wait,omitempty"`
	Run     *Wait  `json:"run,omitempty"` // how long jobs were in a worker's hands
}

// Types returns the figures of the types of jobs: in the last "hour", "day" or "month", or with an empty name since the
// server was started. Of a period, a type is in it as far as it was among the busiest of a slot.
func (s *Service) Types(period string) (Types, error) {
	if period == "" {
		return s.typesNow(), nil
	}
	sum, seconds, err := s.sum(period)
	out := Types{Period: period, Seconds: seconds, Types: []TypeFigures{}}
	_, types, _ := sum.Busiest()
	for _, p := range types {
		out.Types = append(out.Types, TypeFigures{
			Type: p.Type, Fetched: p.Fetched, Acked: p.Acked, Failed: p.Failed, Wait: waitOf(p.Wait), Run: waitOf(p.Run),
		})
	}
	return out, err
}

// typesNow returns the figures since the server was started.
func (s *Service) typesNow() Types {
	type name struct {
		typ    string
		others bool
	}
	sums := make(map[name]*engine.Times)
	s.engine.EachQueue(func(q *engine.QueueFigures) {
		for i := range q.Types {
			t := &q.Types[i]
			of := name{t.Type, t.Others}
			if sums[of] == nil {
				sums[of] = new(engine.Times)
			}
			sums[of].Add(&t.Times)
		}
	})
	out := Types{Seconds: s.Server().UptimeSeconds, Types: []TypeFigures{}}
	for of, t := range sums {
		out.Types = append(out.Types, TypeFigures{
			Type: of.typ, Others: of.others, Fetched: t.Wait.Count, Acked: t.Run.Count - t.Failed, Failed: t.Failed,
			Wait: waitOf(&t.Wait), Run: waitOf(&t.Run),
		})
	}
	slices.SortFunc(out.Types, func(a, b TypeFigures) int {
		return cmp.Or(cmp.Compare(b.Fetched, a.Fetched), strings.Compare(a.Type, b.Type))
	})
	return out
}
