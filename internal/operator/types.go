package operator

import (
	"cmp"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/engine"
)

// Types returns the figures of the types of jobs: in the last "hour", "day" or "month", or with an empty name since the
// server was started. Of a period, a type is in it as far as it was among the busiest of a slot.
func (s *Service) Types(period string) (api.Types, error) {
	if period == "" {
		return s.typesNow(), nil
	}
	sum, seconds, err := s.sum(period)
	out := api.Types{Period: period, Seconds: seconds, Types: []api.TypeFigures{}}
	_, types, _ := sum.Busiest()
	for _, p := range types {
		out.Types = append(out.Types, api.TypeFigures{
			Type: p.Type, Fetched: p.Fetched, Acked: p.Acked, Failed: p.Failed, Wait: waitOf(p.Wait),
			Run: waitOf(p.Run),
		})
	}
	return out, err
}

// typesNow returns the figures since the server was started.
func (s *Service) typesNow() api.Types {
	type name struct {
		typ    string
		others bool
	}
	sums := make(map[name]*engine.Times)
	s.engine.EachQueueFigures(func(q *engine.QueueFigures) {
		for i := range q.Types {
			t := &q.Types[i]
			of := name{t.Type, t.Others}
			if sums[of] == nil {
				sums[of] = new(engine.Times)
			}
			sums[of].Add(&t.Times)
		}
	})
	out := api.Types{Seconds: s.Server().UptimeSeconds, Types: []api.TypeFigures{}}
	for of, t := range sums {
		out.Types = append(out.Types, api.TypeFigures{
			Type: of.typ, Others: of.others, Fetched: t.Wait.Count, Acked: t.Run.Count - t.Failed, Failed: t.Failed,
			Wait: waitOf(&t.Wait), Run: waitOf(&t.Run),
		})
	}
	slices.SortFunc(out.Types, func(a, b api.TypeFigures) int {
		return cmp.Or(cmp.Compare(b.Fetched, a.Fetched), strings.Compare(a.Type, b.Type))
	})
	return out
}
