package admin

import (
	"maps"
	"sync"

	"millrace/internal/job"
)

// sessionMax bounds how many names of workers are remembered: the latest.
const sessionMax = 10000

// sessions are the names that workers have told with their fetches, for people who look at what they hold.
type sessions struct {
	mu    sync.Mutex // guards what follows
	names map[job.Holder]string
	order []job.Holder // in which they came; a ring once it is full
	next  int
}

// note remembers the name of a holder.
func (s *sessions) note(h job.Holder, name string) {
	if name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = make(map[job.Holder]string)
	}
	if _, known := s.names[h]; !known {
		if len(s.order) < sessionMax {
			s.order = append(s.order, h)
		} else {
			delete(s.names, s.order[s.next])
			s.order[s.next] = h
			s.next = (s.next + 1) % sessionMax
		}
	}
	s.names[h] = name
}

// add tells all names that are known.
func (s *sessions) add(names map[job.Holder]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(names, s.names)
}
