package admin

import (
	"cmp"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/timing"
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
	i := slices.IndexFunc(periods[:], func(p resolution) bool { return p.name == period })
	if i < 0 {
		return Types{}, api.Invalid("period: %q is none of hour, day and month", period)
	}
	out := Types{Period: period, Types: []TypeFigures{}}
	var sum partsSlot
	err := s.eachSlot(&periods[i], func(slot *partsSlot) {
		out.Seconds += periods[i].step.Seconds()
		sum.merge(slot)
	})
	_, types, _ := sum.busiest(partsKept)
	for _, p := range types {
		out.Types = append(out.Types, TypeFigures{
			Type: p.Type, Fetched: p.Fetched, Acked: p.Acked, Failed: p.Failed, Wait: waitOf(p.wait), Run: waitOf(p.run),
		})
	}
	return out, err
}

// TypeHistory returns what happened to the jobs of a type in the last "hour", "day" or "month", the oldest slot first.
// A slot tells of it as far as it was among the busiest then, and shows nothing otherwise.
func (s *Service) TypeHistory(typ, period string) (History, error) {
	if typ == "" {
		return History{}, api.Invalid("type: say which")
	}
	return s.partHistory(partName{typ: typ}, period)
}

// typesNow returns the figures since the server was started.
func (s *Service) typesNow() Types {
	out := Types{Seconds: s.Server().UptimeSeconds, Types: []TypeFigures{}}
	for name, t := range typeTimes(s.engine) {
		f := TypeFigures{Type: name.typ, Others: name.others, Fetched: t.Wait.Count, Failed: t.Failed, Wait: waitOf(&t.Wait), Run: waitOf(&t.Run)}
		f.Acked = t.Run.Count - t.Failed
		out.Types = append(out.Types, f)
	}
	slices.SortFunc(out.Types, func(a, b TypeFigures) int {
		return cmp.Or(cmp.Compare(b.Fetched, a.Fetched), strings.Compare(a.Type, b.Type))
	})
	return out
}

// typeName names a type, or all that have no figures of their own.
type typeName struct {
	typ    string
	others bool
}

// typeTimes adds up the figures of each type over queues and protocols.
func typeTimes(e *engine.Engine) map[typeName]*engine.Times {
	all := make(map[typeName]*engine.Times)
	e.EachQueue(func(q *engine.QueueFigures) {
		for i := range q.Types {
			t := &q.Types[i]
			name := typeName{t.Type, t.Others}
			if all[name] == nil {
				all[name] = new(engine.Times)
			}
			all[name].Add(&t.Times)
		}
	})
	return all
}

// typeMeter tells what was added to the figures of types since it was last asked. It is owned by the sampler's
// goroutine.
type typeMeter struct {
	engine *engine.Engine
	before map[typeName]*engine.Times
}

// last returns what adds to slots that end. The engine is asked when the first of them is visited: there are many
// figures, and slots are long.
func (m *typeMeter) last() func(*partsSlot) {
	var added map[typeName]*engine.Times
	return func(slot *partsSlot) {
		if added == nil {
			added = m.read()
		}
		for name, t := range added {
			if p := slot.of(partName{typ: name.typ}); p != nil {
				p.add(&tally{tallyFetched: t.Wait.Count, tallyAcked: t.Run.Count - t.Failed, tallyFailed: t.Failed}, &t.Wait)
				addTimes(&p.run, &t.Run)
			}
		}
	}
}

// read returns what was added to each type that has a name. Figures that went with a queue count for nothing.
func (m *typeMeter) read() map[typeName]*engine.Times {
	now := typeTimes(m.engine)
	added := make(map[typeName]*engine.Times)
	for name, t := range now {
		if name.typ == "" || name.others {
			continue
		}
		more := *t
		if before := m.before[name]; before != nil {
			if !covers(&more.Wait, &before.Wait) || !covers(&more.Run, &before.Run) || more.Failed < before.Failed {
				continue
			}
			more.Sub(before)
		}
		if more.Wait.Count > 0 || more.Run.Count > 0 {
			added[name] = &more
		}
	}
	m.before = now
	return added
}

// covers reports whether a histogram has everything that was in another.
func covers(h, before *timing.Histogram) bool {
	for i, n := range before.Buckets {
		if h.Buckets[i] < n {
			return false
		}
	}
	return h.Sum >= before.Sum
}
