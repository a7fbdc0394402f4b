package engine

import "millrace/internal/engine/machine"

// kindOther is the kind of all types that have none of their own.
const kindOther machine.TypeID = 1

// pairsPerType bounds the times of types: so many for each type, on average. Clients choose the names of types and
// of queues, and every pair of the two takes memory.
const pairsPerType = 10

// kinds are the types of jobs that have times of their own: those that were fetched first.
type kinds struct {
	max   int
	pairs int // times of types there are
	ids   map[string]machine.TypeID
	names []string // by kind; the first two are no types
	last  machine.TypeID
}

func newKinds(most int) kinds {
	return kinds{max: min(max(most, 0), typesMax), ids: map[string]machine.TypeID{}, names: make([]string, kindOther+1)}
}

// typesMax is the most types there can be kinds for.
const typesMax = 1 << 15

// of returns the kind of a type: zero for none, or if types are not looked at.
func (k *kinds) of(typ string) machine.TypeID {
	if typ == "" || k.max == 0 {
		return 0
	}
	if k.last > kindOther && k.names[k.last] == typ { // often it is the one before
		return k.last
	}
	id, ok := k.ids[typ]
	switch {
	case ok:
	case len(k.ids) < k.max:
		id = machine.TypeID(len(k.names)) //nolint:gosec // bounded
		k.ids[typ], k.names = id, append(k.names, typ)
	default:
		return kindOther
	}
	k.last = id
	return id
}

// times returns where the times of a kind are counted.
func (k *kinds) times(c *queueCell, kind machine.TypeID) *Times {
	if int(kind) < len(c.times) && c.times[kind] != nil {
		return c.times[kind]
	}
	if kind > kindOther {
		if k.pairs >= pairsPerType*k.max {
			return k.times(c, kindOther)
		}
		k.pairs++
	}
	for int(kind) >= len(c.times) {
		c.times = append(c.times, nil)
	}
	c.times[kind] = new(Times)
	return c.times[kind]
}

// release makes room for the times of others.
func (k *kinds) release(c *queueCell) {
	for kind, t := range c.times {
		if t != nil && machine.TypeID(kind) > kindOther {
			k.pairs--
		}
	}
}
