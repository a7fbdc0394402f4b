// Package memstore is a store.Store in memory, the default in tests. Nothing
// survives the process unless it is written by Checkpoint and read back by Load.
//
// Each commit publishes a new version of a copy-on-write tree, so that readers
// need no lock and a snapshot is one pointer.
package memstore

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"millrace/internal/store"
)

// checkpointFile is the one file of a checkpoint: a batch that sets every key.
const checkpointFile = "memstore.batch"

type item struct{ key, value []byte }

type tree = btree.BTreeG[item]

func less(a, b item) bool { return bytes.Compare(a.key, b.key) < 0 }

// Store is an ordered map in memory. New makes one.
type Store struct {
	current atomic.Pointer[tree] // published versions are never changed; nil once closed

	mu       sync.Mutex // serialises writers and guards what follows
	commits  uint64
	bytes    uint64
	keyBytes uint64 // keys and values now stored
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.current.Store(btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}))
	return s
}

// Load returns a store with the contents of a checkpoint.
func Load(dir string) (*Store, error) {
	path := filepath.Join(dir, checkpointFile)
	p, err := os.ReadFile(path) //nolint:gosec // the caller names the directory
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	b, err := store.DecodeBatch(p)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w: %w", path, store.ErrCorrupt, err)
	}
	s := New()
	if err := s.commit(&b); err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", path, err)
	}
	return s, nil
}

// Fork returns a store that begins with the same contents. It costs next to nothing.
func (s *Store) Fork() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Store{keyBytes: s.keyBytes}
	if t := s.current.Load(); t != nil {
		f.current.Store(t.Copy())
	}
	return f
}

// Commit applies the batch and calls done. Memory is as stable as this store gets.
func (s *Store) Commit(b *store.Batch, done func(error)) { done(s.commit(b)) }

// Depth implements store.Store.
func (s *Store) Depth() int { return 1 }

func (s *Store) commit(b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load()
	if old == nil {
		return fmt.Errorf("commit: %w", store.ErrClosed)
	}
	next := old.Copy()
	b.Each(func(op store.Op, key, value []byte) bool {
		switch op {
		case store.OpSet, store.OpInsert:
			s.set(next, key, value)
		case store.OpDelete, store.OpRemove:
			s.remove(next, key)
		case store.OpDeleteRange:
			s.removeRange(next, key, value)
		case store.OpVoidSet, store.OpVoidDelete: // Each passes over them.
		}
		return true
	})
	s.commits++
	s.bytes += uint64(b.Size()) //nolint:gosec // sizes are not negative
	s.current.Store(next)
	return nil
}

func (s *Store) set(t *tree, key, value []byte) {
	// One allocation holds both, because most values are smaller than their key.
	buf := make([]byte, 0, len(key)+len(value))
	buf = append(append(buf, key...), value...)
	it := item{key: buf[:len(key):len(key)], value: buf[len(key):]}
	s.keyBytes += it.size()
	if old, replaced := t.Set(it); replaced {
		s.keyBytes -= old.size()
	}
}

func (s *Store) remove(t *tree, key []byte) {
	if old, deleted := t.Delete(item{key: key}); deleted {
		s.keyBytes -= old.size()
	}
}

func (s *Store) removeRange(t *tree, lo, hi []byte) {
	var doomed [][]byte
	t.Ascend(item{key: lo}, func(it item) bool {
		if bytes.Compare(it.key, hi) >= 0 {
			return false
		}
		doomed = append(doomed, it.key)
		return true
	})
	for _, key := range doomed {
		s.remove(t, key)
	}
}

func (it item) size() uint64 { return uint64(len(it.key)) + uint64(len(it.value)) }

// Get implements store.Reader.
func (s *Store) Get(dst, key []byte) ([]byte, bool, error) {
	return view{s.current.Load()}.Get(dst, key)
}

// Scan implements store.Reader.
func (s *Store) Scan(r store.Range, visit func(key, value []byte) bool) error {
	return view{s.current.Load()}.Scan(r, visit)
}

// Snapshot implements store.Store.
func (s *Store) Snapshot() (store.Snapshot, error) {
	t := s.current.Load()
	if t == nil {
		return nil, fmt.Errorf("snapshot: %w", store.ErrClosed)
	}
	snap := &snapshot{}
	snap.tree.Store(t)
	return snap, nil
}

// Checkpoint writes all keys to one file in dir, for Load.
func (s *Store) Checkpoint(dir string) error {
	var b store.Batch
	err := s.Scan(store.Range{}, func(key, value []byte) bool {
		b.Set(key, value)
		return true
	})
	if err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, checkpointFile), b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Reclaim implements store.Store: nothing is kept of what was deleted.
func (s *Store) Reclaim() error { return nil }

// Stats implements store.Store.
func (s *Store) Stats() store.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Stats{MemTableBytes: s.keyBytes, Commits: s.commits, CommittedBytes: s.bytes}
}

// FreeBytes pretends that memory never ends.
func (s *Store) FreeBytes() (uint64, error) { return math.MaxInt64, nil }

// Close drops everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Swap(nil) == nil {
		return fmt.Errorf("close: %w", store.ErrClosed)
	}
	return nil
}

type snapshot struct{ tree atomic.Pointer[tree] }

func (s *snapshot) Get(dst, key []byte) ([]byte, bool, error) {
	return view{s.tree.Load()}.Get(dst, key)
}

func (s *snapshot) Scan(r store.Range, visit func(key, value []byte) bool) error {
	return view{s.tree.Load()}.Scan(r, visit)
}

func (s *snapshot) Close() error {
	s.tree.Store(nil)
	return nil
}

// view reads one published version; nil stands for a closed one.
type view struct{ t *tree }

func (v view) Get(dst, key []byte) ([]byte, bool, error) {
	if v.t == nil {
		return dst, false, fmt.Errorf("get: %w", store.ErrClosed)
	}
	it, ok := v.t.Get(item{key: key})
	return append(dst, it.value...), ok, nil
}

func (v view) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if v.t == nil {
		return fmt.Errorf("scan: %w", store.ErrClosed)
	}
	if !r.Reverse {
		// Nothing that was deleted is kept. It tells of much before each key all the same, so that whoever remembers
		// that is tried by every test.
		passed := func() {
			if r.Passed != nil {
				*r.Passed += 1000
			}
		}
		v.t.Ascend(item{key: r.Lo}, func(it item) bool {
			passed()
			return (len(r.Hi) == 0 || bytes.Compare(it.key, r.Hi) < 0) && visit(it.key, it.value)
		})
		passed()
		return nil
	}
	down := func(it item) bool {
		if len(r.Hi) > 0 && bytes.Compare(it.key, r.Hi) >= 0 {
			return true // Descend begins at Hi itself, which the range excludes.
		}
		return bytes.Compare(it.key, r.Lo) >= 0 && visit(it.key, it.value)
	}
	if len(r.Hi) == 0 {
		v.t.Reverse(down)
	} else {
		v.t.Descend(item{key: r.Hi}, down)
	}
	return nil
}
