package pebblestore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/plant"
	"millrace/internal/store"
)

// gathered is what is in the log and not in Pebble yet, in one or two generations. A restart finds
// it again by reading the log behind the position.
type gathered struct {
	mu       sync.Mutex // guards what follows
	room     sync.Cond  // on mu: moving is nil again, or will never be
	open     *generation
	moving   *generation // is being applied; nil: none
	spare    *generation
	position position // what Pebble has, perhaps not on stable storage

	// What follows belongs to the one goroutine that has Pebble apply something, which others give tasks. Position is
	// written by it alone.
	batch *pebble.Batch // scratch of apply, unless it is given more

	tasks   chan task
	wake    chan struct{} // capacity 1: it is time to apply what was gathered
	timer   *time.Timer   // sends to kick
	flushed chan struct{} // capacity 1: Pebble has put more on stable storage
	stop    chan struct{}
	ended   sync.WaitGroup
}

// task is something to be done between what Pebble applies, on the goroutine that has it apply: so
// nothing moves meanwhile.
type task struct {
	do   func() error
	done chan error // capacity 1
}

// generation is a part of what was gathered: it is filled, then applied, and then used again. As
// long as a scan points into one it is not used again.
type generation struct {
	store.Overlay
	last  uint64 // the last record of the log that is in it
	state []byte // that came with it
	scans int    // that point into it
}

// The bounds of what is gathered.
const (
	// What was gathered is applied after this time, or with this many changes or bytes, whichever
	// comes first.
	gatherTime    = time.Second
	gatherChanges = 32 << 10
	gatherBytes   = 4 << 20
	// While Pebble is busy up to this many bytes are gathered. Then commits wait for it, so that
	// memory is bounded.
	gatherRoom = 4 * gatherBytes
	// flushBytes is how much the log may hold that is not in tables. Most jobs come and go without
	// filling a memtable. It is flushed all the same when the log is that long, because a start has
	// to read the log.
	flushBytes = 32 << 20
)

// init begins with nothing gathered behind a position.
func (g *gathered) init(db *pebble.DB, p position) {
	g.room.L = &g.mu
	g.open, g.spare = &generation{last: p.applied}, &generation{}
	g.position = p
	g.batch = db.NewBatch(pebble.WithMaxRetainedSizeBytes(batchKept))
	g.tasks, g.stop = make(chan task), make(chan struct{})
	g.wake, g.flushed = make(chan struct{}, 1), make(chan struct{}, 1)
}

// replay gathers a record of the log when the store is opened. No other goroutine runs yet.
func (g *gathered) replay(number uint64, content []byte) error {
	b, err := store.DecodeBatch(content)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	g.open.Add(&b)
	g.open.last = number
	return nil
}

// add gathers a batch that is in the log, so that readers see it, and has it moved after a while.
// If too much is waiting it waits for Pebble, and so does the caller's next commit.
func (s *Store) add(b *store.Batch, number uint64, state []byte) {
	g := &s.gathered
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.open.Len() == 0
	g.open.Add(b)
	g.open.last, g.open.state = number, state
	switch {
	// Enough for a move at once; the timer is for what comes slowly.
	case g.open.Len() >= gatherChanges || g.open.Size() >= gatherBytes:
		signal(g.wake)
	case first:
		g.timer.Reset(gatherTime)
	}
	for g.moving != nil && g.open.Size() >= gatherRoom && s.fuse.err() == nil {
		g.room.Wait()
	}
	s.commits.Add(1)
	s.committedBytes.Add(uint64(b.Size())) //nolint:gosec // sizes are not negative
}

// giveUp lets nobody wait for room any more, after the fuse was blown.
func (g *gathered) giveUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room.Broadcast()
}

// signal sets a flag that is a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// moveLoop has Pebble apply what was gathered whenever it is time to, and the log trimmed when
// Pebble has flushed it. It is the only goroutine that has Pebble apply changes, so that the
// position moves with them. An error blows the fuse.
func (s *Store) moveLoop() {
	for {
		var err error
		select {
		case t := <-s.gathered.tasks:
			t.done <- t.do()
		case <-s.gathered.wake:
			if err = s.move(); err == nil {
				err = s.flushIfLong()
			}
		case <-s.gathered.flushed:
			err = s.trim()
		case <-s.gathered.stop:
			return
		}
		if err != nil {
			s.fuse.blow(fmt.Errorf("apply the log: %w", err))
		}
	}
}

// betweenMoves has something done between what Pebble applies, and waits for it. It does not wait
// for a Pebble that has met an error and may never get to it.
func (s *Store) betweenMoves(do func() error) error {
	t := task{do, make(chan error, 1)}
	select {
	case s.gathered.tasks <- t:
	case <-s.gathered.stop:
		return store.ErrClosed
	case <-s.fuse.ended:
		return s.fuse.err()
	}
	select {
	case err := <-t.done:
		return err
	case <-s.fuse.ended:
		return s.fuse.err()
	}
}

// flushIfLong has Pebble flush its memtables when the log has become long, because a start has to
// read the log. It does not wait for it: FlushEnd has the log trimmed.
func (s *Store) flushIfLong() error {
	if s.log.Stats().Untrimmed < flushBytes {
		return nil
	}
	_, err := s.db.AsyncFlush()
	return err
}

// trim gives back what the log has and Pebble has as well, on stable storage: the position is read
// with what is flushed only. What Pebble has in memory would be lost in a crash, and is still
// needed in the log.
func (s *Store) trim() error {
	p, there, err := readPosition(s.db, !plant.TrimmedByMemory.On())
	if err != nil || !there {
		return err
	}
	return s.log.Trim(p.applied)
}

// move has Pebble apply what was gathered until now, and the position with it, as one batch: each
// record is applied exactly once. It runs on the goroutine of moveLoop only.
func (s *Store) move() error {
	g := &s.gathered
	gen := g.take()
	if gen == nil {
		return s.fuse.err() // after which something may have been left
	}
	p := position{applied: gen.last, safe: min(gen.last, s.log.Safe()), log: g.position.log, state: gen.state}
	p.applied = plant.Or(p.applied, plant.PositionHigh, p.applied+1)
	err := s.apply(plant.Or(&gen.Batch, plant.GatheredForgotten, new(store.Batch)), p)
	if err == nil {
		err = s.fuse.err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room.Broadcast()
	if err != nil {
		return err // it stays, for those who read
	}
	g.moving, g.position = nil, p
	// A scan that points into it keeps it alive; then it is left to the garbage collector.
	if gen.scans == 0 {
		gen.Reset()
		g.spare = gen
	}
	return nil
}

// take returns what was gathered and lets a new generation take what follows; nil if there is
// nothing. Moving is never two generations: an error leaves the first there for readers, and
// nothing moves any more.
func (g *gathered) take() *generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Nothing was gathered, or the last generation could not be applied.
	if g.open.last <= g.position.applied || g.moving != nil {
		return nil
	}
	g.moving, g.open, g.spare = g.open, g.spare, nil
	// The spare one is still in use by a scan.
	if g.open == nil {
		g.open = &generation{}
	}
	return g.moving
}

// bytes returns how much memory it takes.
func (g *gathered) bytes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.open.Size()
	if g.moving != nil {
		n += g.moving.Size()
	}
	return n
}

// get looks a key up in what was gathered. Known tells that it decides about it.
func (g *gathered) get(dst, key []byte) (value []byte, there, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gens := [...]*generation{g.open, g.moving}
	if plant.OlderFirst.On() {
		slices.Reverse(gens[:])
	}
	for _, gen := range gens {
		if gen == nil || gen == g.moving && plant.MovingUnread.On() {
			continue
		}
		if v, there, known := gen.Lookup(key); known {
			return append(dst, v...), there, true
		}
	}
	return dst, false, false
}

// begin starts to move what is gathered. The first move comes without a commit: what was read from
// the log is waiting.
func (s *Store) begin() {
	s.gathered.timer = time.AfterFunc(gatherTime, func() { signal(s.gathered.wake) })
	s.gathered.ended.Go(s.moveLoop)
}

// finish ends the moving. What is left is in the log, and the next start finds it: closing takes no
// longer with more to move.
func (s *Store) finish() error {
	if s.log == nil {
		return nil
	}
	close(s.gathered.stop)
	s.gathered.timer.Stop()
	s.gathered.ended.Wait()
	return s.log.Close()
}
