package lmstfy

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// table maps names to values that are made when they are first needed and never
// taken out. A look at a known name takes no lock: read is a map that nobody changes, and
// what is not in it yet is in fresh until enough looks have missed it.
type table[V any] struct {
	// room is how many names may still come, perhaps in other tables too: a stranger
	// who makes up names must not fill the memory.
	room *atomic.Int64

	read atomic.Pointer[map[string]*V]

	mu     sync.Mutex // guards what follows
	fresh  map[string]*V
	misses int
}

func newTable[V any](room *atomic.Int64) *table[V] {
	t := &table[V]{room: room, fresh: make(map[string]*V)}
	t.read.Store(new(map[string]*V))
	return t
}

// get returns the value of a name, or nil.
func (t *table[V]) get(name string) *V {
	if v := (*t.read.Load())[name]; v != nil {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slow(name)
}

// slow looks a name up in both maps. The caller holds mu.
func (t *table[V]) slow(name string) *V {
	read := *t.read.Load()
	v := t.fresh[name]
	if v == nil {
		return read[name] // it may have moved meanwhile
	}
	// To merge costs as much as the misses before it.
	if t.misses++; t.misses >= len(read)+len(t.fresh) {
		merged := make(map[string]*V, len(read)+len(t.fresh))
		maps.Copy(merged, read)
		maps.Copy(merged, t.fresh)
		t.read.Store(&merged)
		t.fresh, t.misses = make(map[string]*V), 0
	}
	return v
}

// add returns the value of a name and makes it if it is not there; nil if there are
// too many. The name it is made with is a copy: the one given may be a part of
// something larger.
func (t *table[V]) add(name string, build func(name string) *V) *V {
	if v := (*t.read.Load())[name]; v != nil {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.slow(name); v != nil {
		return v
	}
	if t.room.Add(-1) < 0 {
		t.room.Add(1)
		return nil
	}
	name = strings.Clone(name)
	v := build(name)
	t.fresh[name] = v
	return v
}

// all returns every value.
func (t *table[V]) all() []*V {
	t.mu.Lock()
	defer t.mu.Unlock()
	read := *t.read.Load()
	list := make([]*V, 0, len(read)+len(t.fresh))
	for _, m := range []map[string]*V{read, t.fresh} {
		for _, v := range m {
			list = append(list, v)
		}
	}
	return list
}
