package pebblestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Pebble's first memtable has 256 KiB, and each has twice the size of the one before until they have the one that was asked for. A new process
// so flushes seven small tables, most of whose jobs would have come and gone in one memtable. There is no option for it, but a memtable is always
// large enough for the batch that does not fit into the one before. So the store soon applies a batch that needs more
// than half of a whole one and changes nothing, and has it flushed, which leaves a single entry of it.
const (
	// widenDelay is how long after the start it does so: it takes some 20 ms, for which nobody should wait then.
	widenDelay = 200 * time.Millisecond
	// memTableMin is the smallest size of memtables for which it pays.
	memTableMin = 1 << 20
	// Pebble does not put a batch into a memtable that needs half of it. With so much more than was asked for, half of what was asked for is less.
	memTableSlack = 128 << 10
	// padSize is what Pebble reckons for an entry without a value whose key has one byte.
	padSize = 196
)

// padKey is a key that nothing else has.
var padKey = []byte{0xff}

// memTableSize returns the size of memtables for Pebble.
func memTableSize(asked int64) uint64 {
	if asked >= memTableMin {
		asked += memTableSlack
	}
	return uint64(asked) //nolint:gosec // Open has replaced what is not positive
}

// widen has the memtables that follow be whole ones.
func (s *Store) widen(asked int64) error {
	if asked < memTableMin {
		return nil
	}
	s.recent.applying.Lock()
	defer s.recent.applying.Unlock()
	pads := int((asked + memTableSlack/2) / 2 / padSize)
	pb := s.db.NewBatchWithSize(pads * (2 + len(padKey)))
	defer func() { _ = pb.Close() }()
	for range pads {
		if err := pb.Delete(padKey, nil); err != nil {
			return err
		}
	}
	if err := s.db.Apply(pb, pebble.NoSync); err != nil {
		return err
	}
	_, err := s.db.AsyncFlush()
	return err
}
