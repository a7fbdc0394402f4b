package engine

import (
	"sync"

	"millrace/internal/record"
	"millrace/internal/store"
)

// KeyFilter is the filter of client-given keys of a store that no engine writes to, as that of a standby. It is kept up
// to date with what is applied to the store, so that an engine has it from its first command on. It may be used from
// several goroutines.
type KeyFilter struct {
	mu       sync.Mutex
	now      []*bloom // nil: not known yet
	next     []*bloom // is being made; nil: none is
	added    int      // keys noted since it was made
	capacity int      // after how many added keys it needs a rebuild
	stop     bool
	ended    sync.WaitGroup
}

// growFor is up to how many times the keys that it was made for a filter grows. More of them come only to a node that
// leads for long: nobody asks its filter meanwhile, and it is rebuilt when another node leads.
const growFor = 8

// Note notes the keys that a batch sets. It is called for every batch, when the store has it, so
// that Make, which reads the store, misses none.
func (f *KeyFilter) Note(b *store.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil && f.next == nil {
		return
	}
	b.Each(func(op store.Op, key, _ []byte) bool {
		if (op == store.OpSet || op == store.OpInsert) && filtered(key) {
			h := filterHash(key)
			f.added++
			if f.added < growFor*f.capacity {
				f.now = grown(f.now, h)
			} else if f.now != nil {
				f.now[len(f.now)-1].add(h)
			}
			f.next = grown(f.next, h)
		}
		return true
	})
}

// grown adds a key to the last of some filters, and makes another one of twice the size when that
// is full. How many keys there will be is not known while they are read.
func grown(list []*bloom, h uint64) []*bloom {
	if list == nil {
		return nil
	}
	last := list[len(list)-1]
	if last.added >= last.capacity {
		last = newBloom(2 * last.capacity)
		list = append(list, last)
	}
	last.add(h)
	last.added++
	return list
}

// NeedsRebuild reports whether Make is to be called: there is no filter yet, or most of the keys that it knows may be
// gone.
func (f *KeyFilter) NeedsRebuild() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next == nil && (f.now == nil || f.added >= f.capacity)
}

// Make begins to make it of what is in the store, beside everything else. Until it is done the old one answers. A
// failure to read leaves things as they are.
func (f *KeyFilter) Make(s store.Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil || f.stop {
		return
	}
	f.next = []*bloom{newBloom(filterKeysMin)} // gets what is set from now on; the rest is in the store
	f.ended.Go(func() { f.make(s) })
}

// make reads the keys of the store. It takes the lock for each key, so that Note is never held up
// for long.
func (f *KeyFilter) make(s store.Reader) {
	count := 0
	lo, hi := record.KeysSpan()
	err := s.Scan(store.Range{Lo: lo, Hi: hi}, func(key, _ []byte) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		count++
		f.next = grown(f.next, filterHash(key))
		return !f.stop
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && !f.stop {
		f.now, f.added, f.capacity = f.next, 0, max(count, filterKeysMin)
	}
	f.next = nil
}

// Stop ends the making of it, before its store is closed. It is of no use afterwards.
func (f *KeyFilter) Stop() {
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	f.ended.Wait()
}

// lend returns filters that know all that this one knows now and later: they share their bits.
// Whoever has them counts for itself what it adds.
func (f *KeyFilter) lend() []*bloom {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*bloom, len(f.now))
	for i, b := range f.now {
		list[i] = &bloom{words: b.words, capacity: b.capacity, added: b.added}
	}
	return list
}
