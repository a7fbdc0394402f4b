package lmstfy

import (
	"strings"
	"sync"
	"sync/atomic"
)

// table maps names to values that are made when they are first needed and never
// taken out. A look at a known name takes no lock.
type table[V any] struct {
	// room is how many names may still come, perhaps in other tables too: a stranger
	// who makes up names must not fill the memory.
	room   *atomic.Int64
	values sync.Map // of *V by name
}

// get returns the value of a name, or nil.
func (t *table[V]) get(name string) *V {
	v, _ := t.values.Load(name)
	found, _ := v.(*V)
	return found
}

// add returns the value of a name and makes it if it is not there; nil if there are
// too many. The name it is made with is a copy: the one given may be a part of
// something larger.
func (t *table[V]) add(name string, build func(name string) *V) *V {
	if v := t.get(name); v != nil {
		return v
	}
	if t.room.Add(-1) < 0 {
		t.room.Add(1)
		return t.get(name) // somebody may have made it meanwhile
	}
	name = strings.Clone(name)
	if _, there := t.values.LoadOrStore(name, build(name)); there {
		t.room.Add(1)
	}
	return t.get(name)
}

// all returns every value.
func (t *table[V]) all() (list []*V) {
	t.values.Range(func(_, v any) bool {
		list = append(list, v.(*V)) //nolint:forcetypeassert // there are no others
		return true
	})
	return list
}
