package store

import (
	"bytes"
	"hash/maphash"
	"slices"

	"millrace/internal/plant"
)

// Overlay is a batch with an index to read it: what it says about a key hides what lies
// below. Changes that cancel each other out are not in the batch. It has one owner at a
// time, as the batch.
type Overlay struct {
	Batch
	slots  []slot // open addressing, a power of two long
	used   int
	ranges spans
	spaces [256]*space // by the first byte of a key
}

// slot says what the batch has to say about one key.
type slot struct {
	hash, offset uint32 // offset 0: nothing yet
	state        slotState
}

// slotState says how the last change of a key relates to what lies below.
type slotState uint8

const (
	changed   slotState = iota // the change at offset counts
	fresh                      // so does that one, and the key is not there below
	unchanged                  // it is as it is below
	absent                     // it is as it is below: not there
)

// space lists the keys that begin with one byte, each by the offset of its first change. They get their slots when a
// key with that byte is first looked up or changed otherwise than by an insertion, and are put in order when they are
// first scanned: most of what is pushed leaves the overlay before either.
type space struct {
	sorted  []uint32
	added   []uint32 // since then
	indexed bool     // they have slots; otherwise all of them were inserted
}

var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint32 {
	h := maphash.Bytes(hashSeed, key)
	return uint32(h ^ h>>32) //nolint:gosec // folding is the point
}

// slot returns the slot of a key for a change that is about to be written.
func (o *Overlay) slot(key []byte) *slot {
	sp := o.space(key)
	if !plant.RemovalMisses.On() {
		o.index(sp)
	}
	s := o.take(key)
	if s.offset == 0 {
		sp.added = append(sp.added, o.Offset())
	}
	return s
}

// take returns the slot of a key. Whoever finds it empty fills it.
func (o *Overlay) take(key []byte) *slot {
	if 2*(o.used+1) > len(o.slots) {
		o.grow()
	}
	h := hashOf(key)
	s := &o.slots[o.slotOf(h, key)]
	if s.offset == 0 {
		o.used++
		s.hash, s.state = h, unchanged
	}
	return s
}

// space returns the space of a key.
func (o *Overlay) space(key []byte) *space {
	sp := o.spaces[FirstByte(key)]
	if sp == nil {
		sp = &space{}
		o.spaces[FirstByte(key)] = sp
	}
	return sp
}

// index gives the keys of a space their slots.
func (o *Overlay) index(sp *space) {
	if sp.indexed {
		return
	}
	sp.indexed = true
	once := sp.added[:0]
	for _, at := range sp.added {
		s := o.take(o.KeyAt(at))
		if s.offset != 0 { // inserted again behind a range delete
			s.offset, s.state = at, changed
			continue
		}
		s.offset, s.state = at, fresh
		once = append(once, at)
	}
	sp.added = once
}

// FirstByte returns the first byte of a key, by which keys are parted before they are sorted; an empty one comes with
// those that begin with zero.
func FirstByte(key []byte) byte {
	if len(key) == 0 {
		return 0
	}
	return key[0]
}

// replace notes that the change about to be written counts, and not the one before.
func (o *Overlay) replace(s *slot, state slotState) {
	if s.offset != 0 {
		o.Void(s.offset)
	}
	s.offset, s.state = o.Offset(), state
}

// Set gives key a value.
func (o *Overlay) Set(key, value []byte) {
	s := o.slot(key)
	if s.state == fresh || s.state == absent {
		o.replace(s, fresh)
		o.Batch.Insert(key, value)
		return
	}
	o.replace(s, changed)
	o.Batch.Set(key, value)
}

// noted notes the insertion of a key that is about to be written, if the keys of its space have no slots yet. It
// reports whether that was all there is to do about it.
func (o *Overlay) noted(key []byte) bool {
	sp := o.space(key)
	if sp.indexed {
		return false
	}
	sp.added = append(sp.added, o.Offset())
	return true
}

// Insert gives a value to a key that is not there.
func (o *Overlay) Insert(key, value []byte) {
	if o.noted(key) {
		o.Batch.Insert(key, value)
		return
	}
	s := o.slot(key)
	switch {
	case s.offset == 0 || s.state == absent:
		o.replace(s, fresh)
	case s.state == changed && len(value) == 0 && o.opAt(s.offset) == OpRemove && !o.covered(key, s.offset):
		o.Void(s.offset) // removed and put back
		s.state = unchanged
		return
	default: // behind the removal, which stays: the key is set once after it
		s.offset, s.state = o.Offset(), changed
	}
	o.Batch.Insert(key, value)
}

// Remove removes a key that was inserted and not set since.
func (o *Overlay) Remove(key []byte) {
	s := o.slot(key)
	switch {
	case s.offset == 0 || s.state == unchanged:
		o.replace(s, changed)
		o.Batch.Remove(key)
	case s.state == fresh:
		o.Void(s.offset)
		s.state = absent
	case s.state == changed:
		o.replace(s, changed)
		o.Batch.Delete(key)
	case s.state == absent:
	}
}

// Delete removes key.
func (o *Overlay) Delete(key []byte) {
	s := o.slot(key)
	switch {
	case s.offset == 0 || s.state == unchanged || s.state == changed:
		o.replace(s, changed)
		o.Batch.Delete(key)
	case s.state == fresh:
		o.Void(s.offset)
		s.state = absent
	case s.state == absent:
	}
}

// DeleteRange removes the keys from lo up to but excluding hi.
func (o *Overlay) DeleteRange(lo, hi []byte) {
	o.ranges.add(lo, hi, o.Offset())
	o.Batch.DeleteRange(lo, hi)
}

// Add adds the changes of a batch.
func (o *Overlay) Add(b *Batch) {
	for at := b.First(); at < b.Offset(); {
		op, key, value, next := b.At(at)
		switch op {
		case OpSet:
			o.Set(key, value)
		case OpInsert:
			if o.noted(key) {
				o.appendEntry(b, at, next)
			} else {
				o.Insert(key, value)
			}
		case OpDelete:
			o.Delete(key)
		case OpRemove:
			o.Remove(key)
		case OpDeleteRange:
			o.DeleteRange(key, value)
		case OpVoidSet, OpVoidDelete: // have no effect
		}
		at = next
	}
}

// covered reports whether a range delete behind offset has the key.
func (o *Overlay) covered(key []byte, offset uint32) bool {
	return o.ranges.last(key) > offset
}

func (o *Overlay) opAt(offset uint32) Op {
	op, _, _, _ := o.At(offset)
	return op
}

// slotOf returns the slot of a key, or the empty one where it belongs.
func (o *Overlay) slotOf(h uint32, key []byte) uint32 {
	mask := uint32(len(o.slots) - 1) //nolint:gosec // bounded by the size of a batch
	i := h & mask
	for ; o.slots[i].offset != 0; i = (i + 1) & mask {
		if o.slots[i].hash == h {
			if _, k, _, _ := o.At(o.slots[i].offset); bytes.Equal(k, key) {
				break
			}
		}
	}
	return i
}

func (o *Overlay) grow() {
	old := o.slots
	o.slots = make([]slot, max(64, 2*len(old)))
	mask := uint32(len(o.slots) - 1) //nolint:gosec // bounded by the size of a batch
	for _, s := range old {
		if s.offset == 0 {
			continue
		}
		i := s.hash & mask
		for o.slots[i].offset != 0 {
			i = (i + 1) & mask
		}
		o.slots[i] = s
	}
}

// Lookup looks a key up. Known tells that the overlay decides about it. The value points into the batch.
func (o *Overlay) Lookup(key []byte) (value []byte, there, known bool) {
	if o.Len() == 0 {
		return nil, false, false
	}
	var at uint32
	if sp := o.spaces[FirstByte(key)]; sp != nil && len(sp.sorted)+len(sp.added) > 0 {
		o.index(sp)
		if s := o.slots[o.slotOf(hashOf(key), key)]; s.offset != 0 && s.state <= fresh {
			at = s.offset
		}
	}
	if o.covered(key, at) {
		return nil, false, true
	}
	if at == 0 {
		return nil, false, false
	}
	op, _, value, _ := o.At(at)
	return value, op.Sets(), true
}

// slotsKept and bytesKept are the largest index and batch that Reset keeps.
const (
	slotsKept = 1 << 16
	bytesKept = 16 << 20
)

// Reset empties the overlay for another use; what a huge one took is given back.
func (o *Overlay) Reset() {
	if len(o.slots) > slotsKept || cap(o.buf) > bytesKept {
		*o = Overlay{}
		return
	}
	o.Batch.Reset()
	clear(o.slots)
	for _, sp := range o.spaces {
		if sp != nil {
			sp.sorted, sp.added, sp.indexed = sp.sorted[:0], sp.added[:0], false
		}
	}
	o.ranges, o.used = spans{}, 0
}

// inOrder returns the keys of a space in order.
func (o *Overlay) inOrder(sp *space) []uint32 {
	if len(sp.added) == 0 {
		return sp.sorted
	}
	compare := func(a, b uint32) int { return bytes.Compare(o.KeyAt(a), o.KeyAt(b)) }
	if !slices.IsSortedFunc(sp.added, compare) {
		slices.SortFunc(sp.added, compare)
	}
	n := len(sp.sorted)
	sp.sorted = append(sp.sorted, sp.added...)
	// From the end, so that keys that come behind all others move nothing.
	for i, at := n-1, len(sp.sorted)-1; len(sp.added) > 0 && i >= 0; at-- {
		if last := sp.added[len(sp.added)-1]; compare(sp.sorted[i], last) > 0 {
			sp.sorted[at] = sp.sorted[i]
			i--
		} else {
			sp.sorted[at] = last
			sp.added = sp.added[:len(sp.added)-1]
		}
	}
	copy(sp.sorted, sp.added) // those before all others
	sp.added = sp.added[:0]
	return sp.sorted
}

// changesIn returns what the overlay says about the keys of a range: each key once, in order.
func (o *Overlay) changesIn(rg Range) []change {
	var cs []change
	first, last := FirstByte(rg.Lo), byte(255)
	if len(rg.Hi) > 0 {
		last = rg.Hi[0]
	}
	for i := int(first); i <= int(last); i++ {
		if o.spaces[i] == nil {
			continue
		}
		o.index(o.spaces[i])
		keys := o.inOrder(o.spaces[i])
		lo, _ := slices.BinarySearchFunc(keys, rg.Lo, func(at uint32, key []byte) int {
			return bytes.Compare(o.KeyAt(at), key)
		})
		for _, at := range keys[lo:] {
			key := o.KeyAt(at)
			if len(rg.Hi) > 0 && bytes.Compare(key, rg.Hi) >= 0 {
				break
			}
			if value, there, known := o.Lookup(key); known {
				cs = append(cs, change{key, value, there})
			}
		}
	}
	return cs
}

// change is one key of an overlay within a range.
type change struct {
	key, value []byte
	there      bool
}

// Layer is what overlays say about a range of keys at one moment. It points into their batches.
type Layer struct {
	changes []change // each key once, in order
	ranges  []spans
}

// LayerOf returns what the overlays, the lowest first, say about a range.
func LayerOf(rg Range, overlays ...*Overlay) Layer {
	var l Layer
	for _, o := range overlays {
		if o == nil || o.Len() == 0 {
			continue
		}
		// What lies in a range that this one deletes is hidden by it.
		l.changes = slices.DeleteFunc(l.changes, func(c change) bool { return o.covered(c.key, 0) })
		l.changes = mergeChanges(l.changes, o.changesIn(rg))
		if len(o.ranges.runs) > 0 {
			l.ranges = append(l.ranges, spans{slices.Clone(o.ranges.runs)})
		}
	}
	if rg.Reverse {
		slices.Reverse(l.changes)
	}
	return l
}

// mergeChanges merges two lists; of a key that both have the newer counts.
func mergeChanges(older, newer []change) []change {
	if len(older) == 0 {
		return newer
	}
	if len(newer) == 0 {
		return older
	}
	out := make([]change, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch c := bytes.Compare(older[0].key, newer[0].key); {
		case c < 0:
			out, older = append(out, older[0]), older[1:]
		case c == 0:
			older = older[1:]
		default:
			out, newer = append(out, newer[0]), newer[1:]
		}
	}
	return append(append(out, older...), newer...)
}

// covers reports whether a range that was deleted has a key that lies below.
func (l *Layer) covers(key []byte) bool {
	for i := range l.ranges {
		if l.ranges[i].last(key) > 0 {
			return true
		}
	}
	return false
}

// Over visits what is there when the layer lies over what scan finds, which has the keys of the range in
// its order.
func (l Layer) Over(
	scan func(visit func(key, value []byte) bool) error, reverse bool, visit func(key, value []byte) bool,
) error {
	changes, stopped := l.changes, false
	before := func(a, b []byte) bool {
		if reverse {
			a, b = b, a
		}
		return bytes.Compare(a, b) < 0
	}
	next := func() bool {
		c := changes[0]
		changes = changes[1:]
		stopped = c.there && !visit(c.key, c.value)
		return !stopped
	}
	err := scan(func(key, value []byte) bool {
		for len(changes) > 0 && before(changes[0].key, key) {
			if !next() {
				return false
			}
		}
		if len(changes) > 0 && bytes.Equal(changes[0].key, key) {
			return next()
		}
		if !l.covers(key) {
			stopped = !visit(key, value)
		}
		return !stopped
	})
	for err == nil && !stopped && len(changes) > 0 {
		next()
	}
	return err
}
