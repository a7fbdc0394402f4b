package engine

import (
	"hash/maphash"
	"math"
	"sync/atomic"

	"millrace/internal/record"
	"millrace/internal/store"
)

// Nearly every push with a client-given key asks the store for a key that is not there,
// which costs more than the rest of the push. A filter in memory knows most of those
// keys to be absent. It takes about three bytes for each key in use and forgets nothing that is
// deleted. When as many keys have come as it was made for, it grows by as much again if most of them are in use,
// and else is rebuilt, from a snapshot and beside the engine.

// bloom is a Bloom filter in blocks of 512 bits: a key has one bit in each word of one block, so
// that a look costs one cache line. It may be added to from two goroutines at once: bits are only
// ever set.
type bloom struct {
	words    []atomic.Uint64
	capacity int // how many keys it is made for
	added    int // since it was made; owned by whoever holds the engine's lock
}

const (
	blockWords    = 8
	bitsPerKey    = 12
	filterKeysMin = 1 << 18 // keys
)

// newBloom returns an empty filter for a number of keys. With more of them it recognizes fewer
// absent ones, and is never wrong about others.
func newBloom(room int) *bloom {
	blocks := room*bitsPerKey/(64*blockWords) + 1
	return &bloom{words: make([]atomic.Uint64, blocks*blockWords), capacity: room}
}

var filterSeed = maphash.MakeSeed()

// filterHash hashes a key of the store. The seed is drawn at the start, so that clients cannot
// choose keys that collide.
func filterHash(key []byte) uint64 { return maphash.Bytes(filterSeed, key) }

// block returns the words of a key's block, and the hash whose bits say which bit of each word is
// the key's. The high half of the hash chooses the block, by a multiplication instead of a
// division.
func (b *bloom) block(h uint64) (words []atomic.Uint64, bits uint64) {
	blocks := uint64(len(b.words) / blockWords)
	at := ((h >> 32) * blocks) >> 32 * blockWords
	return b.words[at : at+blockWords], h * 0x9e3779b97f4a7c15
}

// add sets the bits of a key. It looks before it writes, because a write takes the cache line from
// other processors.
func (b *bloom) add(h uint64) {
	words, bits := b.block(h)
	for i := range words {
		if bit := uint64(1) << (bits >> (6 * i) & 63); words[i].Load()&bit == 0 {
			words[i].Or(bit)
		}
	}
}

// has reports false for a key that was not added for certain.
func (b *bloom) has(h uint64) bool {
	words, bits := b.block(h)
	for i := range words {
		if words[i].Load()&(1<<(bits>>(6*i)&63)) == 0 {
			return false
		}
	}
	return true
}

// filter knows which client-given keys are not in use. The engine's lock guards it. Filters are
// never taken away from now, only replaced all at once, so that a key that was added is always
// found.
type filter struct {
	now   []*bloom // answer together, and the last of them is added to; none: not known yet
	next  *bloom   // is being made; nil: none is
	asked bool     // it would have been of use
}

// filtered reports whether the filter is about a key of the store.
func filtered(key []byte) bool { return record.IsKeyKey(key) }

// absent reports whether a key is not there for certain. That it was asked is noted: a server
// without client-given keys never makes a filter.
func (f *filter) absent(key []byte) bool {
	if !filtered(key) {
		return false
	}
	f.asked = true
	h := filterHash(key)
	for _, b := range f.now {
		if b.has(h) {
			return false
		}
	}
	return len(f.now) > 0
}

// note notes that a key is set. One that is being made gets it as well: the snapshot that it is
// made from does not have it.
func (f *filter) note(key []byte) {
	if (len(f.now) == 0 && f.next == nil) || !filtered(key) {
		return
	}
	h := filterHash(key)
	if last := f.last(); last != nil {
		last.add(h)
		last.added++
	}
	if f.next != nil {
		f.next.add(h)
		f.next.added++
	}
}

// last returns the one that is added to, or nil.
func (f *filter) last() *bloom {
	if len(f.now) == 0 {
		return nil
	}
	return f.now[len(f.now)-1]
}

// needsRebuild reports whether the filter has to grow or be rebuilt: as many keys have been added
// as it is made for. Beyond that it would recognize fewer and fewer absent keys.
func (f *filter) needsRebuild() bool {
	last := f.last()
	return f.asked && f.next == nil && (last == nil || last.added >= last.capacity)
}

// capacity returns how many keys the filter is made for.
func (f *filter) capacity() (room int) {
	for _, b := range f.now {
		room += b.capacity
	}
	return room
}

// rebuildFilter has the filter grow, or makes one of what is in the store and lets it answer. It grows
// if more than half of the keys that it is made for are in use, because then a new one would not be
// smaller. A failure to read leaves things as they are: the store answers, and tells whoever asks
// it.
func (e *Engine) rebuildFilter() {
	defer e.background.Done()
	e.mu.Lock()
	room, enough := e.core.filter.capacity(), math.MaxInt
	if room > 0 {
		enough = room/2 + 1
	}
	e.mu.Unlock()
	count := 0
	err := e.eachKey(func([]byte) bool { count++; return count < enough })
	switch {
	case err != nil:
	case count == enough:
		e.mu.Lock()
		e.core.filter.now = append(e.core.filter.now, newBloom(room))
		e.mu.Unlock()
	default:
		e.buildFilter(max(filterKeysMin, 2*count))
	}
	e.mu.Lock()
	e.buildingFilter = false
	e.mu.Unlock()
}

// buildFilter makes a filter for a number of keys. It is installed before the snapshot is taken: a
// key that is set between would otherwise be in neither, and a push could take a key that is in
// use.
func (e *Engine) buildFilter(room int) {
	next := newBloom(room)
	e.mu.Lock()
	e.core.filter.next = next // gets what is set from now on; the rest is in the view
	e.mu.Unlock()
	err := e.eachKey(func(key []byte) bool { next.add(filterHash(key)); return true })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.filter.next = nil
	if err == nil {
		e.core.filter.now = []*bloom{next}
	}
}

// eachKey visits the client-given keys of everything that was applied before, until visit returns false.
func (e *Engine) eachKey(visit func(key []byte) bool) error {
	lo, hi := record.KeysSpan()
	return e.Read(func(v *View) error {
		return v.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, _ []byte) bool { return visit(key) })
	})
}

// startFilterRebuild has the filter grown or rebuilt, beside the engine. It is called under the lock.
func (e *Engine) startFilterRebuild() {
	if e.buildingFilter || e.stopping.Load() {
		return
	}
	e.buildingFilter = true
	e.background.Add(1)
	go e.rebuildFilter()
}
