package engine

import "millrace/internal/engine/machine"

// kindOther is the kind of all types that have none of their own.
const kindOther machine.Kind = 1

// pairsPerType bounds the times of types: so many for each type, on average. Clients choose the names of types and
// of queues, and every pair of the two takes memory.
const pairsPerType = 10

// kinds are the types of jobs that have times of their own: those that were fetched first.
type kinds struct {
	max   int
	pairs int // times of types there are
	ids   map[string]machine.Kind
	names []string // by kind; the first two are no types
	last  machine.Kind
}

func newKinds(most int) kinds {
	return kinds{max: min(max(most, 0), typesMax), ids: map[string]machine.Kind{}, names: make([]string, kindOther+1)}
}

// typesMax is the most types there can be kinds for.
const typesMax = 1 << 15

// of returns the kind of a type: zero for none, or if types are not looked at.
func (k *kinds) of(typ string) machine.Kind {
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
		id = machine.Kind(len(k.names)) //nolint:gosec // bounded
		k.ids[typ], k.names = id, append(k.names, typ)
	default:
		return kindOther
	}
	k.last = id
	return id
}

// times returns where the times of a kind at a door are counted; nil for jobs without a type.
func (k *kinds) times(d *doorWatch, kind machine.Kind) *Times {
	if kind == 0 {
		return nil
	}
	if int(kind) < len(d.kinds) && d.kinds[kind] != nil {
		return d.kinds[kind]
	}
	if kind != kindOther {
		if k.pairs >= pairsPerType*k.max {
			return k.times(d, kindOther)
		}
		k.pairs++
	}
	for int(kind) >= len(d.kinds) {
		d.kinds = append(d.kinds, nil)
	}
	d.kinds[kind] = new(Times)
	return d.kinds[kind]
}

// release makes room for the times of others.
func (k *kinds) release(d *doorWatch) {
	for kind, t := range d.kinds {
		if t != nil && machine.Kind(kind) != kindOther {
			k.pairs--
		}
	}
}
