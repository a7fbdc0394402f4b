package engine

import (
	"hash/maphash"
	"sync/atomic"

	"millrace/internal/record"
	"millrace/internal/store"
)

// Nearly every push with a client-given key asks the store for a key that is not there,
// which costs more than the rest of the push. A filter in memory knows most of those
// keys to be absent. It takes about three bytes for each key in use, forgets nothing that is
// deleted, and is therefore made anew, from a snapshot and beside the engine, when as many
// keys have come as it was made for.

// bloom is a filter in blocks of 512 bits: a key has one bit in each word of one block.
// It may be added to from two goroutines at once.
type bloom struct {
	words []atomic.Uint64
	room  int // how many keys it is made for
	added int // since it was made; owned by whoever holds the engine's lock
}

const (
	blockWords  = 8
	bitsPerKey  = 12
	filterLeast = 1 << 18 // keys
)

func newBloom(room int) *bloom {
	blocks := room*bitsPerKey/(64*blockWords) + 1
	return &bloom{words: make([]atomic.Uint64, blocks*blockWords), room: room}
}

var filterSeed = maphash.MakeSeed()

// block returns the words of a key's block, and the hash whose bits say which bit of
// each word is the key's.
func (b *bloom) block(key []byte) (words []atomic.Uint64, h uint64) {
	h = maphash.Bytes(filterSeed, key)
	blocks := uint64(len(b.words) / blockWords)
	at := ((h >> 32) * blocks) >> 32 * blockWords
	return b.words[at : at+blockWords], h * 0x9e3779b97f4a7c15
}

func (b *bloom) add(key []byte) {
	words, h := b.block(key)
	for i := range words {
		if bit := uint64(1) << (h >> (6 * i) & 63); words[i].Load()&bit == 0 {
			words[i].Or(bit)
		}
	}
}

// has reports false for a key that was not added for certain.
func (b *bloom) has(key []byte) bool {
	words, h := b.block(key)
	for i := range words {
		if words[i].Load()&(1<<(h>>(6*i)&63)) == 0 {
			return false
		}
	}
	return true
}

// filter knows which client-given keys are not in use. The engine's lock guards it.
type filter struct {
	now   *bloom // answers; nil: not known yet
	next  *bloom // is being made; nil: none is
	asked bool   // it would have been of use
}

// filtered reports whether the filter is about a key of the store.
func filtered(key []byte) bool { return record.IsKeyKey(key) }

// absent reports whether a key is not there for certain.
func (f *filter) absent(key []byte) bool {
	if !filtered(key) {
		return false
	}
	f.asked = true
	return f.now != nil && !f.now.has(key)
}

// note notes that a key is set.
func (f *filter) note(key []byte) {
	if (f.now == nil && f.next == nil) || !filtered(key) {
		return
	}
	if f.now != nil {
		f.now.add(key)
		f.now.added++
	}
	if f.next != nil {
		f.next.add(key)
		f.next.added++
	}
}

// worn reports whether the filter should be made anew.
func (f *filter) worn() bool {
	return f.asked && f.next == nil && (f.now == nil || f.now.added >= f.now.room)
}

// makeFilter makes a filter of what is in the store, and lets it answer. A failure to
// read leaves things as they are: the store answers, and tells whoever asks it.
func (e *Engine) makeFilter() {
	defer e.syncs.Done()
	count := 0
	if e.eachKey(func([]byte) { count++ }) == nil {
		next := newBloom(max(filterLeast, 2*count))
		e.mu.Lock()
		e.core.filter.next = next // gets what is set from now on; the rest is in the view
		e.mu.Unlock()
		if e.eachKey(next.add) != nil {
			next = nil
		}
		e.mu.Lock()
		e.core.filter.next = nil
		if next != nil {
			e.core.filter.now = next
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	e.making = false
	e.mu.Unlock()
}

// eachKey visits the client-given keys of everything that was applied before.
func (e *Engine) eachKey(visit func(key []byte)) (err error) {
	v, err := e.View()
	if err != nil {
		return err
	}
	defer func() {
		if cerr := v.Close(); err == nil {
			err = cerr
		}
	}()
	lo, hi := record.KeysSpan()
	return v.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, _ []byte) bool {
		visit(key)
		return true
	})
}

// renewFilter has the filter made anew, beside the engine. It is called under the lock.
func (e *Engine) renewFilter() {
	if e.making || e.stopping.Load() {
		return
	}
	e.making = true
	e.syncs.Add(1)
	go e.makeFilter()
}
