package rest

import (
	"maps"
	"sync"

	"millrace/internal/job"
)

// namesMax bounds how many names of workers are remembered: the latest.
const namesMax = 10000

// names are what workers have told about themselves with their fetches, for people who look at what they hold.
type names struct {
	mu    sync.Mutex // guards what follows
	names map[job.Holder]string
	order []job.Holder // in which they came; a ring once it is full
	next  int
}

// note remembers the name of a holder.
func (n *names) note(h job.Holder, name string) {
	if name == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = make(map[job.Holder]string)
	}
	if _, known := n.names[h]; !known {
		if len(n.order) < namesMax {
			n.order = append(n.order, h)
		} else {
			delete(n.names, n.order[n.next])
			n.order[n.next] = h
			n.next = (n.next + 1) % namesMax
		}
	}
	n.names[h] = name
}

// add tells all names that are known.
func (n *names) add(to map[job.Holder]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.Copy(to, n.names)
}
