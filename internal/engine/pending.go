package engine

import (
	"bytes"
	"hash/maphash"
	"slices"

	"millrace/internal/store"
)

// pending is a batch that is not committed yet, with an index to read it.
type pending struct {
	store.Batch
	slots  []slot // open addressing, a power of two long
	used   int
	ranges spans
	step   uint64 // of its last change
}

// slot says what the batch has to say about one key.
type slot struct {
	hash, offset uint32 // offset 0: nothing yet
	state        slotState
}

// slotState says how the last change of a key relates to what lies below the batch.
// Changes that cancel each other out are not written.
type slotState uint8

const (
	changed   slotState = iota // the change at offset counts
	fresh                      // so does that one, and the key is not there below
	unchanged                  // it is as it is below
	absent                     // it is as it is below: not there
)

var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint32 {
	h := maphash.Bytes(hashSeed, key)
	return uint32(h ^ h>>32) //nolint:gosec // folding is the point
}

// slot returns the slot of a key for a change that is about to be written.
func (p *pending) slot(key []byte) *slot {
	if 2*(p.used+1) > len(p.slots) {
		p.grow()
	}
	h := hashOf(key)
	s := &p.slots[p.slotOf(h, key)]
	if s.offset == 0 {
		p.used++
		s.hash, s.state = h, unchanged
	}
	return s
}

// replace notes that the change about to be written counts, and not the one before.
func (p *pending) replace(s *slot, state slotState) {
	if s.offset != 0 {
		p.Void(s.offset)
	}
	s.offset, s.state = p.Offset(), state
}

func (p *pending) set(key, value []byte) {
	s := p.slot(key)
	state := changed
	if s.state == fresh || s.state == absent {
		state = fresh
	}
	p.replace(s, state)
	p.Set(key, value)
}

// insert sets a key that is not there.
func (p *pending) insert(key, value []byte) {
	s := p.slot(key)
	switch {
	case s.offset == 0 || s.state == absent:
		p.replace(s, fresh)
	case s.state == changed && len(value) == 0 && p.opAt(s.offset) == store.OpRemove && !p.covered(key, s.offset):
		p.Void(s.offset) // removed and put back
		s.state = unchanged
		return
	default: // behind the removal, which stays: the key is set once after it
		s.offset, s.state = p.Offset(), changed
	}
	p.Set(key, value)
}

// remove removes a key that was inserted and not set since.
func (p *pending) remove(key []byte) {
	s := p.slot(key)
	switch {
	case s.offset == 0 || s.state == unchanged:
		p.replace(s, changed)
		p.Remove(key)
	case s.state == fresh:
		p.Void(s.offset)
		s.state = absent
	case s.state == changed:
		p.replace(s, changed)
		p.Delete(key)
	case s.state == absent:
	}
}

func (p *pending) delete(key []byte) {
	s := p.slot(key)
	switch {
	case s.offset == 0 || s.state == unchanged || s.state == changed:
		p.replace(s, changed)
		p.Delete(key)
	case s.state == fresh:
		p.Void(s.offset)
		s.state = absent
	case s.state == absent:
	}
}

// covered reports whether a range delete behind offset has the key.
func (p *pending) covered(key []byte, offset uint32) bool {
	return p.ranges.last(key) > offset
}

func (p *pending) opAt(offset uint32) store.Op {
	op, _, _, _ := p.At(offset)
	return op
}

func (p *pending) deleteRange(lo, hi []byte) {
	p.ranges.add(lo, hi, p.Offset())
	p.DeleteRange(lo, hi)
}

// slotOf returns the slot of a key, or the empty one where it belongs.
func (p *pending) slotOf(h uint32, key []byte) uint32 {
	mask := uint32(len(p.slots) - 1) //nolint:gosec // bounded by the size of a batch
	i := h & mask
	for ; p.slots[i].offset != 0; i = (i + 1) & mask {
		if p.slots[i].hash == h {
			if _, k, _, _ := p.At(p.slots[i].offset); bytes.Equal(k, key) {
				break
			}
		}
	}
	return i
}

func (p *pending) grow() {
	old := p.slots
	p.slots = make([]slot, max(64, 2*len(old)))
	mask := uint32(len(p.slots) - 1) //nolint:gosec // bounded by the size of a batch
	for _, s := range old {
		if s.offset == 0 {
			continue
		}
		i := s.hash & mask
		for p.slots[i].offset != 0 {
			i = (i + 1) & mask
		}
		p.slots[i] = s
	}
}

// get looks a key up. Known tells that the batch decides about it.
func (p *pending) get(key []byte) (value []byte, there, known bool) {
	if p.Len() == 0 {
		return nil, false, false
	}
	var at uint32
	if p.used > 0 {
		if s := p.slots[p.slotOf(hashOf(key), key)]; s.offset != 0 && s.state <= fresh {
			at = s.offset
		}
	}
	if p.covered(key, at) {
		return nil, false, true
	}
	if at == 0 {
		return nil, false, false
	}
	op, _, value, _ := p.At(at)
	return value, op == store.OpSet, true
}

// reset empties the batch for another use; what one huge batch took is given back.
func (p *pending) reset() {
	if len(p.slots) > 1<<16 {
		*p = pending{}
		return
	}
	p.Reset()
	clear(p.slots)
	p.ranges, p.used, p.step = spans{}, 0, 0
}

// change is one key of a pending batch within a scanned range.
type change struct {
	key, value []byte
	there      bool
}

// changesIn returns what pending batches, oldest first, say about the keys of a
// range: each key once, in order.
func changesIn(lo, hi []byte, reverse bool, batches ...*pending) []change {
	var cs []change
	for n, p := range batches {
		p.Each(func(op store.Op, key, _ []byte) bool {
			if op == store.OpDeleteRange || bytes.Compare(key, lo) < 0 || bytes.Compare(key, hi) >= 0 {
				return true
			}
			for _, later := range batches[n+1:] {
				if _, _, known := later.get(key); known {
					return true
				}
			}
			value, there, _ := p.get(key)
			cs = append(cs, change{key, value, there})
			return true
		})
	}
	slices.SortFunc(cs, func(a, b change) int {
		if reverse {
			return bytes.Compare(b.key, a.key)
		}
		return bytes.Compare(a.key, b.key)
	})
	return slices.CompactFunc(cs, func(a, b change) bool { return bytes.Equal(a.key, b.key) })
}
