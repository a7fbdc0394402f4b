package engine

import "millrace/internal/engine/machine"

// typeOther is the number of all types that have none of their own.
const typeOther machine.TypeID = 1

// pairsPerType bounds the times of types: this many for each type, on average. Clients choose the names of types and
// of queues, and every pair of the two takes memory.
const pairsPerType = 10

// typeTable are the types of jobs that have times of their own: those that were fetched first.
type typeTable struct {
	max   int
	pairs int // times of types there are
	ids   map[string]machine.TypeID
	names []string // by number; the first two are not types
	last  machine.TypeID
}

func newTypeTable(most int) typeTable {
	return typeTable{
		max: min(max(most, 0), typesMax),
		ids: map[string]machine.TypeID{}, names: make([]string, typeOther+1),
	}
}

// typesMax is the most types that can have a number.
const typesMax = 1 << 15

// idOf returns the number of a type: zero for none, or if types are not looked at.
func (t *typeTable) idOf(typ string) machine.TypeID {
	if typ == "" || t.max == 0 {
		return 0
	}
	if t.last > typeOther && t.names[t.last] == typ { // often it is the one before
		return t.last
	}
	id, ok := t.ids[typ]
	switch {
	case ok:
	case len(t.ids) < t.max:
		id = machine.TypeID(len(t.names)) //nolint:gosec // bounded
		t.ids[typ], t.names = id, append(t.names, typ)
	default:
		return typeOther
	}
	t.last = id
	return id
}

// times returns where the times of a type are counted.
func (t *typeTable) times(c *queueCell, id machine.TypeID) *Times {
	if int(id) < len(c.times) && c.times[id] != nil {
		return c.times[id]
	}
	if id > typeOther {
		if t.pairs >= pairsPerType*t.max {
			return t.times(c, typeOther)
		}
		t.pairs++
	}
	for int(id) >= len(c.times) {
		c.times = append(c.times, nil)
	}
	c.times[id] = new(Times)
	return c.times[id]
}

// release makes room for the times of others.
func (t *typeTable) release(c *queueCell) {
	for id, times := range c.times {
		if times != nil && machine.TypeID(id) > typeOther {
			t.pairs--
		}
	}
}
