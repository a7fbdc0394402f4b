package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/plant"
	"millrace/internal/store"
)

// Get implements store.Reader. What was gathered decides before Pebble is asked, also that a key
// was deleted.
func (s *Store) Get(dst, key []byte) ([]byte, bool, error) {
	// A closed store answers through the reader, which refuses.
	if !s.closed.Load() {
		if value, there, known := s.gathered.get(dst, key); known {
			return value, there, nil
		}
	}
	return s.reader.Get(dst, key)
}

// Scan implements store.Reader. It merges three layers: what is gathered, what is being applied,
// and Pebble. What is being applied may be in Pebble as well, and then says the same.
func (s *Store) Scan(rg store.Range, visit func(key, value []byte) bool) error {
	if s.closed.Load() || emptyRange(rg) {
		return s.reader.Scan(rg, visit)
	}
	g := &s.gathered
	// Until the iterator is made nothing more is taken and nothing is forgotten: all of the scan sees one moment.
	g.mu.Lock()
	open, moving := g.open, g.moving
	var below *store.Overlay
	if moving != nil {
		below = &moving.Overlay
		moving.scans++
	}
	// The generation is not used again while somebody points into it.
	open.scans++
	layer := store.LayerOf(rg, below, &open.Overlay)
	if plant.OlderScanned.On() {
		layer = store.LayerOf(rg, &open.Overlay, below)
	}
	it, err := s.db.NewIter(iterOptions(rg))
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		open.scans--
		if moving != nil {
			moving.scans--
		}
	}()
	if err == nil {
		pebbles := func(visit func(key, value []byte) bool) error { return scan(it, rg, visit) }
		err = layer.Over(pebbles, rg.Reverse, visit)
	}
	if err != nil {
		return s.failed("scan", err)
	}
	return nil
}

// readOnlySnapshot is a snapshot of a store that is only read: nothing changes it, so that the
// store itself will do.
type readOnlySnapshot struct{ store.Reader }

func (readOnlySnapshot) Close() error { return nil }

type snapshot struct {
	reader
	snap   *pebble.Snapshot
	closed atomic.Bool
}

func (s *snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.snap.Close(); err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// reader reads the database as it is now or as it was at a snapshot.
type reader struct {
	source pebble.Reader
	closed *atomic.Bool
	fuse   *fuse
}

// failed returns the error of a read. Once the fuse is blown Pebble believes in tables that are not
// whole on disk: those are not damaged, and what blew the fuse is the reason.
func (r reader) failed(op string, err error) error {
	if first := r.fuse.err(); first != nil {
		return fmt.Errorf("%s: after %w", op, first)
	}
	return fmt.Errorf("%s: %w", op, withCorrupt(err))
}

// getOptions consults the filters of the last level too, which Pebble's own Get does
// not: an absent key then costs a fifth, and a present one the same.
var getOptions = &pebble.IterOptions{UseL6Filters: true}

// Get implements store.Reader.
func (r reader) Get(dst, key []byte) ([]byte, bool, error) {
	if r.closed.Load() {
		return dst, false, fmt.Errorf("get: %w", store.ErrClosed)
	}
	if isOwnKey(key) {
		return dst, false, nil
	}
	value, ok, err := r.get(dst, key)
	if err != nil {
		return dst, false, r.failed("get", err)
	}
	return value, ok, nil
}

// get reads one key by an iterator, because Pebble's own Get does not use the filters of the last
// level.
func (r reader) get(dst, key []byte) (value []byte, ok bool, err error) {
	it, err := r.source.NewIter(getOptions)
	if err != nil {
		return nil, false, err
	}
	// The whole key is its own prefix, so that this finds it or nothing.
	if ok = it.SeekPrefixGE(key); ok {
		value, err = it.ValueAndErr()
		dst = append(dst, value...)
	}
	return dst, ok, errors.Join(err, it.Close())
}

// Scan implements store.Reader.
func (r reader) Scan(rg store.Range, visit func(key, value []byte) bool) error {
	if r.closed.Load() {
		return fmt.Errorf("scan: %w", store.ErrClosed)
	}
	if emptyRange(rg) {
		return nil
	}
	it, err := r.source.NewIter(iterOptions(rg))
	if err == nil {
		err = scan(it, rg, visit)
	}
	if err != nil {
		return r.failed("scan", err)
	}
	return nil
}

// emptyRange reports whether a range has no key. Pebble does not allow bounds in the wrong order.
func emptyRange(rg store.Range) bool {
	return len(rg.Hi) > 0 && bytes.Compare(rg.Lo, rg.Hi) >= 0
}

// iterOptions returns the bounds of a range. Empty ones are none.
func iterOptions(rg store.Range) *pebble.IterOptions {
	opts := &pebble.IterOptions{}
	if len(rg.Lo) > 0 {
		opts.LowerBound = rg.Lo
	}
	if len(rg.Hi) > 0 {
		opts.UpperBound = rg.Hi
	}
	return opts
}

// scan visits what an iterator finds and closes it. It counts the deleted keys that Pebble had to
// pass, for whoever wants to leave them out next time (Range.Passed): Pebble's internal steps that
// led to no key.
func scan(it *pebble.Iterator, rg store.Range, visit func(key, value []byte) bool) (err error) {
	// Close reports what ended the iteration early, besides its own errors.
	defer func() { err = errors.Join(err, it.Close()) }()
	first, next := it.First, it.Next
	if rg.Reverse {
		first, next = it.Last, it.Prev
	}
	before := 0
	passed := func() {
		if rg.Passed != nil {
			steps := it.Stats().ForwardStepCount
			now := steps[pebble.InternalIterCall] - steps[pebble.InterfaceCall]
			*rg.Passed += now - before
			before = now
		}
	}
	defer passed()
	for valid := first(); valid; valid = next() {
		passed()
		// The position is ours, and nobody else's.
		if isOwnKey(it.Key()) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if !visit(it.Key(), value) {
			return nil
		}
	}
	return nil
}
