// Package history reads the engine's meter and keeps what it tells in rings of slots: of everything together in short
// slots, and of protocols, queues and types of jobs in longer ones. All slots have one form, which is kept in the
// store.
package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/internal/timing"
)

// Name is what figures are about: a protocol, a type of jobs or a queue. The zero one is everything together.
type Name struct {
	Protocol  string `json:"d,omitempty"`
	Type      string `json:"t,omitempty"`
	Namespace string `json:"n,omitempty"` // of a queue
	Queue     string `json:"q,omitempty"`
}

// Figures are what happened in some time.
type Figures struct {
	Pushed  uint64            `json:"p,omitempty"`
	Fetched uint64            `json:"f,omitempty"`
	Acked   uint64            `json:"a,omitempty"`
	Failed  uint64            `json:"x,omitempty"`
	Died    uint64            `json:"k,omitempty"`
	Expired uint64            `json:"e,omitempty"`
	Wait    *timing.Histogram `json:"w,omitempty"` // how long jobs waited; nil: none was fetched
	Run     *timing.Histogram `json:"r,omitempty"` // how long jobs ran; only of types
}

// Work is how much was done.
func (f *Figures) Work() uint64 { return f.Pushed + f.Fetched + f.Acked + f.Failed }

func (f *Figures) empty() bool {
	return f.Work()+f.Died+f.Expired == 0 && (f.Wait == nil || f.Wait.Count == 0) && (f.Run == nil || f.Run.Count == 0)
}

// Add adds what happened in another time.
func (f *Figures) Add(o *Figures) {
	f.Pushed += o.Pushed
	f.Fetched += o.Fetched
	f.Acked += o.Acked
	f.Failed += o.Failed
	f.Died += o.Died
	f.Expired += o.Expired
	addTimes(&f.Wait, o.Wait)
	addTimes(&f.Run, o.Run)
}

// addTimes adds times to others, which are made if there are none.
func addTimes(to **timing.Histogram, more *timing.Histogram) {
	if more == nil || more.Count == 0 {
		return
	}
	if *to == nil {
		*to = new(timing.Histogram)
	}
	(*to).Add(more)
}

// Part is what happened to something in a slot.
type Part struct {
	Name
	Figures
}

// Slot is what happened in a slot of a ring.
type Slot struct {
	At     time.Time         `json:"at"` // when it began
	Parts  []*Part           `json:"parts"`
	Counts map[string]uint64 `json:"counts,omitempty"` // jobs by state when it ended

	index map[Name]*Figures // of a slot that is added to
}

// queuesOpen bounds the parts of a slot that is not over: more queues than that are left out. The engine bounds the
// rest.
const queuesOpen = 2000

// add adds what happened to something.
func (s *Slot) add(name Name, f *Figures) {
	to := s.index[name]
	if to == nil {
		if name.Queue != "" && len(s.index) >= queuesOpen {
			return
		}
		p := &Part{Name: name}
		to = &p.Figures
		if s.index == nil {
			s.index = map[Name]*Figures{}
		}
		s.index[name] = to
		s.Parts = append(s.Parts, p)
	}
	to.Add(f)
}

// Of returns what happened to something.
func (s *Slot) Of(name Name) (f Figures) {
	for _, p := range s.Parts {
		if p.Name == name {
			f.Add(&p.Figures)
		}
	}
	return f
}

// Sum adds slots up.
func Sum(slots []Slot) (sum Slot) {
	for i := range slots {
		for _, p := range slots[i].Parts {
			sum.add(p.Name, &p.Figures)
		}
	}
	return sum
}

// kept is how many queues of a slot are kept, and as many types.
const kept = 20

// Busiest returns the protocols, and the types and queues with the most work, the busiest first.
func (s *Slot) Busiest() (protocols, types, queues []*Part) {
	for _, p := range s.Parts {
		switch {
		case p.Protocol != "":
			protocols = append(protocols, p)
		case p.Type != "":
			types = append(types, p)
		case p.Queue != "":
			queues = append(queues, p)
		}
	}
	for _, list := range [][]*Part{protocols, types, queues} {
		slices.SortFunc(list, func(a, b *Part) int {
			return cmp.Or(cmp.Compare(b.Work(), a.Work()), strings.Compare(a.Protocol, b.Protocol),
				strings.Compare(a.Type, b.Type),
				strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Queue, b.Queue))
		})
	}
	return protocols, types[:min(len(types), kept)], queues[:min(len(queues), kept)]
}
