package admin

import (
	"cmp"
	"slices"
	"strings"

	"millrace/internal/engine"
	"millrace/internal/timing"
)

// TypeFigures are the figures of a type of jobs since the server was started.
type TypeFigures struct {
	Type   string
	Others bool // all types together that have no figures of their own
	Wait   *Wait
	Run    *Wait // how long jobs were in a worker's hands

	wait, run timing.Histogram
}

// Types returns the figures of the types of jobs, those that were fetched most first.
func (s *Service) Types() []TypeFigures {
	all := make(map[string]*TypeFigures)
	s.engine.EachTypeTimes(func(t *engine.QueueTimes) {
		name := t.Type
		if t.OtherTypes {
			name = "\x00"
		}
		f := all[name]
		if f == nil {
			f = &TypeFigures{Type: t.Type, Others: t.OtherTypes}
			all[name] = f
		}
		f.wait.Add(&t.Wait)
		f.run.Add(&t.Run)
	})
	out := make([]TypeFigures, 0, len(all))
	for _, f := range all {
		f.Wait, f.Run = waitOf(&f.wait), waitOf(&f.run)
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b TypeFigures) int {
		return cmp.Or(cmp.Compare(b.wait.Count, a.wait.Count), strings.Compare(a.Type, b.Type))
	})
	return out
}
