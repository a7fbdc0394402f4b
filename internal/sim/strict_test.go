package sim

import (
	"bytes"
	"fmt"

	"millrace/internal/store"
)

// strictStore holds whoever commits to the contract of store.Batch.Remove: a store
// in memory would forgive what one on disk answers, much later, with a key that
// comes back.
type strictStore struct {
	store.Store

	sets map[string]int // how often a key was set since it was last gone
}

func (s *strictStore) Commit(b *store.Batch, done func(error)) { done(s.commit(b)) }

func (s *strictStore) commit(b *store.Batch) (err error) {
	b.Each(func(op store.Op, key, value []byte) bool {
		switch op {
		case store.OpSet, store.OpInsert:
			s.sets[string(key)]++
		case store.OpDelete:
			delete(s.sets, string(key))
		case store.OpRemove:
			if n := s.sets[string(key)]; n != 1 {
				err = fmt.Errorf("key %x was set %d times before its removal", key, n)
				return false
			}
			delete(s.sets, string(key))
		case store.OpDeleteRange:
			for k := range s.sets {
				if bytes.Compare(key, []byte(k)) <= 0 && bytes.Compare([]byte(k), value) < 0 {
					delete(s.sets, k)
				}
			}
		case store.OpVoidSet, store.OpVoidDelete: // without effect
		}
		return true
	})
	if err != nil {
		return err
	}
	return store.CommitNow(s.Store, b)
}
