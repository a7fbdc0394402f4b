package pebblestore

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/store"
)

// recent is what is durable by the journal and not in Pebble yet. Gathered batches cost Pebble much less than single ones, and what comes
// and goes meanwhile, as most jobs do, costs it nothing.
type recent struct {
	journal *journal // nil in a store that is only read

	mu     sync.Mutex // guards what follows
	room   sync.Cond  // on mu: moving is nil again, or will never be
	open   *generation
	moving *generation // is being applied; nil: none
	spare  *generation
	marker marker // what Pebble has, perhaps not on stable storage

	applying sync.Mutex    // held while Pebble applies something; guards changes and batch, and marker is written with both held
	changes  []change      // scratch of fill
	batch    *pebble.Batch // scratch of apply, unless it is given more

	// bypassed tells that Pebble has batches that are not durable, which came by themselves. A durable one that follows
	// goes the same way, because it promises them too.
	bypassed atomic.Bool

	kick  chan struct{} // capacity 1: it is time to apply what was gathered
	timer *time.Timer   // sends to kick
	stop  chan struct{}
	ended sync.WaitGroup
}

// generation is a part of what is recent.
type generation struct {
	store.Overlay
	last  uint64 // the last record of the journal that is in it
	scans int    // that point into it
}

const (
	// What was gathered is applied after so long, with so many changes, or when a file of the journal is full.
	recentTime    = time.Second
	recentChanges = 32 << 10
	// recentRoom is how many such files are gathered while Pebble is busy. Then commits wait for it.
	recentRoom = 4
	// A batch of so many changes or bytes is applied at once.
	directChanges = 512
	directBytes   = 256 << 10
)

// markerKey is the key of our own in the database, whose value is a marker. Readers do not see it. It comes behind all others, because every
// table that is flushed has it: in front of them it would make each overlap all before it.
var markerKey = []byte("\xffjournal")

// marker says how the database and the journal go together.
type marker struct {
	applied uint64 // the last record of the journal that the database has
	secret  uint64 // see journal
	// sizes is how long the files of the journal are at least, on stable storage: a shorter one was cut, whatever is left in it.
	sizes [2]int64
}

const (
	markerSize    = 32
	markerSizeOld = 16 // of version 2, without sizes
)

func (m marker) setIn(pb *pebble.Batch) error {
	value := make([]byte, 0, markerSize)
	for _, n := range []uint64{m.applied, m.secret, uint64(m.sizes[0]), uint64(m.sizes[1])} { //nolint:gosec // sizes are not negative
		value = binary.BigEndian.AppendUint64(value, n)
	}
	return pb.Set(markerKey, value, nil)
}

// markerOf reads a marker. Of an old one the sizes are zero, which every file has.
func markerOf(value []byte) (m marker, ok bool) {
	if len(value) != markerSize && len(value) != markerSizeOld {
		return m, false
	}
	m = marker{applied: binary.BigEndian.Uint64(value), secret: binary.BigEndian.Uint64(value[8:])}
	if len(value) == markerSize {
		for i := range m.sizes {
			size := binary.BigEndian.Uint64(value[markerSizeOld+8*i:])
			if size > math.MaxInt64 {
				return m, false
			}
			m.sizes[i] = int64(size)
		}
	}
	return m, true
}

// readMarkerKey returns the marker of the database. A journaled directory must have one; another gets one when it is opened for
// writing.
func (s *Store) readMarkerKey(journaled bool) (m marker, err error) {
	value, there, err := s.get(nil, markerKey)
	if err != nil {
		return m, withCorrupt(err)
	}
	m, ok := markerOf(value)
	switch {
	case there && ok:
		return m, nil
	case there || journaled:
		return m, fmt.Errorf("%w: the database does not say what it has of the journal", store.ErrCorrupt)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return marker{secret: binary.BigEndian.Uint64(b[:])}, nil
}

func isJournal(path string) bool {
	names := journalNames()
	return slices.Contains(names[:], filepath.Base(path))
}

// start reads the journal, which a journaled directory must have, and begins to move what is in it. A store that is
// only read keeps it in memory.
func (s *Store) start(o Options, journaled bool) error {
	r := &s.recent
	r.room.L = &r.mu
	r.open, r.spare = &generation{}, &generation{}
	r.batch = s.db.NewBatch(pebble.WithMaxRetainedSizeBytes(batchKept))
	r.kick, r.stop = make(chan struct{}, 1), make(chan struct{})
	m, err := s.readMarkerKey(journaled)
	if err != nil {
		return err
	}
	found, err := readJournal(s.fs, s.dir, m, journaled)
	if err != nil {
		return err
	}
	r.marker = m
	for i := range found.batches {
		r.open.Add(&found.batches[i])
	}
	r.open.last = found.next - 1
	if o.ReadOnly {
		return nil
	}
	if r.journal, err = openJournal(&fuseFS{FS: directFS{s.fs}, fuse: s.fuse, dir: s.dir, files: s.files}, s.dir, found, o.JournalBytes); err != nil {
		return err
	}
	r.timer = time.AfterFunc(recentTime, s.due)
	r.ended.Go(func() { s.moveLoop(o.MemTableBytes) })
	// The last record may be with the operating system alone. It was not acknowledged, but who reads now is shown what it says. With
	// all of them in Pebble the journal begins anew. A new directory gets its marker.
	return s.commitDirect(&store.Batch{}, true)
}

// due has what was gathered applied.
func (s *Store) due() {
	select {
	case s.recent.kick <- struct{}{}:
	default:
	}
}

// moveLoop has Pebble apply what was gathered whenever it is time to, and once, early on, makes its memtables whole.
func (s *Store) moveLoop(memTableBytes int64) {
	widen := time.After(widenDelay)
	for {
		var err error
		select {
		case <-s.recent.kick:
			if err = s.move(pebble.Sync); err != nil {
				err = fmt.Errorf("apply the journal: %w", err)
			}
		case <-widen:
			if err = s.widen(memTableBytes); err != nil {
				err = fmt.Errorf("widen the memtables: %w", err)
			}
		case <-s.recent.stop:
			return
		}
		if err != nil {
			s.fuse.blow(err)
			return
		}
	}
}

// takes reports whether a durable batch goes to the journal first. A large one gains nothing by that, since it
// is written twice then; and a durable batch promises all before it, of which Pebble may have some that are not.
func (r *recent) takes(b *store.Batch) bool {
	return r.journal != nil && !r.bypassed.Load() && b.Len() < directChanges && b.Size() < directBytes
}

// commitRecent makes a batch durable by the journal.
func (s *Store) commitRecent(b *store.Batch) error {
	r := &s.recent
	if b.Len() == 0 {
		return nil // all before it is durable
	}
	if err := r.journal.append(b); err != nil {
		return err
	}
	if s.fuse.blown() {
		return nil // which Commit reports
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.open.Len() == 0
	r.open.Add(b)
	r.open.last = r.journal.written()
	switch {
	case r.journal.end >= r.journal.limit || r.open.Len() >= recentChanges:
		s.due()
	case first:
		r.timer.Reset(recentTime)
	}
	for r.moving != nil && int64(r.open.Size()) >= recentRoom*r.journal.limit && !s.fuse.blown() {
		r.room.Wait()
	}
	return nil
}

// commitDirect has Pebble apply a batch behind all that is recent. A durable one takes a number of the journal, which then tells if it is missed.
func (s *Store) commitDirect(b *store.Batch, durable bool) error {
	if err := s.move(pebble.NoSync); err != nil {
		return err
	}
	r := &s.recent
	r.applying.Lock()
	defer r.applying.Unlock()
	opts := pebble.NoSync
	if durable {
		opts = pebble.Sync
	}
	r.bypassed.Store(!durable)
	m := r.marker
	if durable && r.journal != nil {
		m.applied, m.sizes = r.journal.next, r.journal.sizes()
	}
	if err := s.apply(b, opts, m); err != nil {
		return err
	}
	if m != r.marker && !s.fuse.blown() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.marker = m
		r.journal.skip()
	}
	return nil
}

// move has Pebble apply what was gathered until now.
func (s *Store) move(opts *pebble.WriteOptions) error {
	r := &s.recent
	r.applying.Lock()
	defer r.applying.Unlock()
	g := r.take()
	if g == nil {
		return s.fuse.err() // after which something may have been left
	}
	m := marker{applied: g.last, secret: r.marker.secret, sizes: r.sizes()}
	err := s.apply(&g.Batch, opts, m)
	if err == nil {
		err = s.fuse.err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room.Broadcast()
	if err != nil {
		return err // it stays, for those who read
	}
	r.moving, r.marker = nil, m
	if g.scans == 0 {
		g.Reset()
		r.spare = g
	}
	if opts.Sync {
		r.journal.released.Store(m.applied)
	}
	return nil
}

// take returns what was gathered and lets a new generation take what follows; nil if there is nothing.
func (r *recent) take() *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open.Len() == 0 || r.moving != nil {
		return nil
	}
	r.moving, r.open, r.spare = r.open, r.spare, nil
	if r.open == nil {
		r.open = &generation{}
	}
	return r.moving
}

// sizes returns how long the files of the journal are.
func (r *recent) sizes() [2]int64 {
	if r.journal == nil {
		return r.marker.sizes // that of a store which is only read does not change
	}
	return r.journal.sizes()
}

// bytes returns how much memory it takes.
func (r *recent) bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.open.Size()
	if r.moving != nil {
		n += r.moving.Size()
	}
	return n
}

// get looks a key up in what is recent. Known tells that it decides about it.
func (r *recent) get(dst, key []byte) (value []byte, there, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range []*generation{r.open, r.moving} {
		if g == nil {
			continue
		}
		if v, there, known := g.Lookup(key); known {
			return append(dst, v...), there, true
		}
	}
	return dst, false, false
}

// Get implements store.Reader.
func (s *Store) Get(dst, key []byte) ([]byte, bool, error) {
	if !s.closed.Load() {
		if value, there, known := s.recent.get(dst, key); known {
			return value, there, nil
		}
	}
	return s.reader.Get(dst, key)
}

// Scan implements store.Reader.
func (s *Store) Scan(rg store.Range, visit func(key, value []byte) bool) error {
	if s.closed.Load() || emptyRange(rg) {
		return s.reader.Scan(rg, visit)
	}
	r := &s.recent
	// Until the iterator is made nothing more is taken and nothing is forgotten: all of the scan sees one moment.
	r.mu.Lock()
	open, moving := r.open, r.moving
	var below *store.Overlay
	if moving != nil {
		below = &moving.Overlay
		moving.scans++
	}
	open.scans++
	layer := store.LayerOf(rg, below, &open.Overlay)
	it, err := s.db.NewIter(iterOptions(rg))
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		open.scans--
		if moving != nil {
			moving.scans--
		}
	}()
	if err == nil {
		err = layer.Over(func(visit func(key, value []byte) bool) error { return scan(it, rg.Reverse, visit) }, rg.Reverse, visit)
	}
	if err != nil {
		return s.failed("scan", err)
	}
	return nil
}

// finish moves what is left and ends the journal.
func (s *Store) finish() error {
	r := &s.recent
	if r.journal == nil {
		return nil
	}
	close(r.stop)
	r.timer.Stop()
	r.ended.Wait()
	var err error
	if !s.fuse.blown() {
		err = s.move(pebble.Sync)
	}
	if closeErr := r.journal.close(); err == nil {
		err = closeErr
	}
	return err
}
