package pebblestore

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/plant"
	"millrace/internal/store"
)

// apply has Pebble apply the changes of a batch, and the position with them. Nothing is synced:
// Pebble has no log, and the position says after a crash what its tables have.
func (s *Store) apply(b *store.Batch, p position) error {
	pb := s.gathered.batch
	// The entries have nearly the same form in Pebble, after a longer header.
	// A large batch gets memory of its own, which is given back.
	if size := b.Size() + 128; size > batchKept {
		pb = s.db.NewBatchWithSize(size)
		defer func() { _ = pb.Close() }()
	} else {
		defer pb.Reset()
	}
	if plant.PositionBefore.On() {
		p = s.gathered.position
	}
	err := s.fill(pb, b)
	if err == nil {
		err = p.setIn(pb)
	}
	if err == nil {
		err = s.db.Apply(pb, pebble.NoSync)
	}
	return err
}

// fill copies the changes of b. They go in by key where their order allows it: Pebble finds the
// place of a key much quicker next to the one before it. An insertion is a Set and a removal a
// SingleDelete, which is why each key may only be inserted and removed in pairs.
func (s *Store) fill(pb *pebble.Batch, b *store.Batch) (err error) {
	removed, ranges := 0, false
	for _, at := range inOrder(b) {
		op, key, value, _ := b.At(at)
		switch op {
		case store.OpSet, store.OpInsert:
			err = pb.Set(key, value, nil)
		case store.OpDelete:
			err = pb.Delete(key, nil)
			removed++
		case store.OpRemove:
			err = pb.SingleDelete(key, nil)
			removed++
		case store.OpDeleteRange:
			if bytes.Compare(key, value) < 0 {
				err = pb.DeleteRange(key, value, nil)
				ranges = true
			}
		case store.OpVoidSet, store.OpVoidDelete: // inOrder leaves them out
		}
		if err != nil {
			return err
		}
	}
	// Space may come back for it, after a while.
	if removed > 0 || ranges {
		s.reclaimer.removed(removed, ranges)
	}
	return nil
}

// inOrder returns the offsets of the changes of b that have an effect: by key, or as they were made if one of them
// deletes a range, because the order between a range and the keys in it matters. Keys that begin with the same byte
// mostly come in order already, so that it pays to part them by that first.
func inOrder(b *store.Batch) []uint32 {
	var kinds [256][]uint32
	made, ranges := make([]uint32, 0, b.Len()), false
	for at := b.First(); at < b.Offset(); {
		op, key, _, next := b.At(at)
		if !op.Void() {
			made = append(made, at)
			kind := &kinds[store.FirstByte(key)]
			*kind = append(*kind, at)
			ranges = ranges || op == store.OpDeleteRange
		}
		at = next
	}
	if ranges {
		return made
	}
	made = made[:0]
	for _, kind := range kinds {
		slices.SortFunc(kind, func(x, y uint32) int {
			return cmp.Or(bytes.Compare(b.KeyAt(x), b.KeyAt(y)), cmp.Compare(x, y))
		})
		made = append(made, kind...)
	}
	return made
}

// batchKept is the largest batch of Pebble's, in bytes, that is kept between commits.
const batchKept = 4 << 20
