package pebblestore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/plant"
	"millrace/internal/store"
)

// change is one entry of a batch.
type change struct {
	rank   uint64 // orders it among those that begin with the same byte, as far as it goes
	offset uint32 // in the batch
}

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
	cs := s.sorted(b)
	removed, ranges := 0, false
	for i := range cs {
		op, key, value, _ := b.At(cs[i].offset)
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
		case store.OpVoidSet, store.OpVoidDelete: // sorted leaves them out
		}
		if err != nil {
			return err
		}
	}
	// Space may come back for it, after a while.
	if removed > 0 || ranges {
		s.reclaimer.removed(removed, ranges)
	}
	if cap(s.gathered.changes) > changesKept {
		s.gathered.changes = nil
	}
	return nil
}

// kind is the changes of a batch whose keys begin with the same byte.
type kind struct {
	end    int    // where they end among all
	common []byte // what their keys begin with
}

// sorted returns the changes of b that have an effect: by key, or as they are if one of them
// deletes a range, because the order between a range and the keys in it matters. Keys that begin
// with the same byte mostly come in order already, so that it pays to part them by that first. The
// bytes behind what all of a kind have in common nearly always tell two of them apart.
func (s *Store) sorted(b *store.Batch) []change {
	var kinds [256]kind
	n, ordered := 0, false
	for at := b.First(); at < b.Offset(); {
		op, key, _, next := b.At(at)
		if at = next; op.Void() {
			continue
		}
		n++
		k := &kinds[store.FirstByte(key)]
		if k.end++; k.end == 1 {
			k.common = key
		} else {
			k.common = k.common[:commonPrefix(k.common, key)]
		}
		ordered = ordered || op == store.OpDeleteRange
	}
	// A counting sort by the first byte: end becomes where the changes of each kind begin, and
	// moves on as they are put in.
	begin := 0
	for i := range kinds {
		begin, kinds[i].end = begin+kinds[i].end, begin
	}
	cs := slices.Grow(s.gathered.changes[:0], n)[:n]
	s.gathered.changes = cs
	i := 0
	for at := b.First(); at < b.Offset(); {
		op, key, _, next := b.At(at)
		switch {
		case op.Void():
		case ordered:
			cs[i] = change{offset: at}
			i++
		default:
			k := &kinds[store.FirstByte(key)]
			cs[k.end] = change{rank(key[len(k.common):]), at}
			k.end++
		}
		at = next
	}
	// A range delete is in it: all changes stay in the order in which they were made.
	if ordered {
		return cs
	}
	begin = 0
	for i := range kinds {
		if end := kinds[i].end; end > begin {
			slices.SortFunc(cs[begin:end], func(x, y change) int {
				if c := cmp.Compare(x.rank, y.rank); c != 0 {
					return c
				}
				return cmp.Or(bytes.Compare(b.KeyAt(x.offset), b.KeyAt(y.offset)), cmp.Compare(x.offset, y.offset))
			})
			begin = end
		}
	}
	return cs
}

// rank returns the first bytes of a key as a number.
func rank(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// commonPrefix returns how many bytes two keys have in common.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// changesKept and batchKept are the longest scratch list and the largest batch of Pebble's, in bytes, that are kept
// between commits.
const (
	changesKept = 64 << 10
	batchKept   = 4 << 20
)
