package storetest

import (
	"sync"

	"millrace/internal/store"
)

// Call names a method that Faulty counts and can make fail.
type Call int

// The calls that can fail. Those of snapshots count as Get and Scan too.
const (
	CallCommit Call = iota
	CallGet
	CallScan
	CallSnapshot
	callCount
)

// Faulty is a Store that fails when it is told to.
type Faulty struct {
	store.Store

	mu    sync.Mutex // guards what follows
	calls [callCount]int
	fails [callCount]fault
	all   error
}

type fault struct {
	at  int
	err error
}

// NewFaulty wraps a store, which works until Fail or FailAll says otherwise.
func NewFaulty(s store.Store) *Faulty { return &Faulty{Store: s} }

// Fail makes the n-th call from now on fail with err, once: 1 is the next one. The
// wrapped store does not see that call.
func (f *Faulty) Fail(c Call, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[c] = fault{at: f.calls[c] + n, err: err}
}

// FailAll makes every call from now on fail with err; nil ends that.
func (f *Faulty) FailAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = err
}

// Count returns how often the call was made, the failed ones included.
func (f *Faulty) Count(c Call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[c]
}

func (f *Faulty) count(c Call) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c]++
	if f.all != nil {
		return f.all
	}
	if f.calls[c] == f.fails[c].at {
		return f.fails[c].err
	}
	return nil
}

// Commit implements store.Store.
func (f *Faulty) Commit(b *store.Batch, done func(error)) {
	if err := f.count(CallCommit); err != nil {
		done(err)
		return
	}
	f.Store.Commit(b, done)
}

// Get implements store.Reader.
func (f *Faulty) Get(dst, key []byte) ([]byte, bool, error) {
	if err := f.count(CallGet); err != nil {
		return dst, false, err
	}
	return f.Store.Get(dst, key)
}

// Scan implements store.Reader.
func (f *Faulty) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if err := f.count(CallScan); err != nil {
		return err
	}
	return f.Store.Scan(r, visit)
}

// Snapshot implements store.Store.
func (f *Faulty) Snapshot() (store.Snapshot, error) {
	if err := f.count(CallSnapshot); err != nil {
		return nil, err
	}
	snap, err := f.Store.Snapshot()
	if err != nil {
		return nil, err
	}
	return faultySnapshot{Snapshot: snap, f: f}, nil
}

type faultySnapshot struct {
	store.Snapshot
	f *Faulty
}

func (s faultySnapshot) Get(dst, key []byte) ([]byte, bool, error) {
	if err := s.f.count(CallGet); err != nil {
		return dst, false, err
	}
	return s.Snapshot.Get(dst, key)
}

func (s faultySnapshot) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if err := s.f.count(CallScan); err != nil {
		return err
	}
	return s.Snapshot.Scan(r, visit)
}
