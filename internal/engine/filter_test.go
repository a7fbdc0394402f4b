package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// What was added is found, and of what was not nearly nothing.
func TestBloom(t *testing.T) {
	t.Parallel()
	const keys = 20000
	b := newBloom(keys)
	for i := range keys {
		b.add(filterHash(fmt.Appendf(nil, "key %d", i)))
	}
	wrong := 0
	for i := range keys {
		if !b.has(filterHash(fmt.Appendf(nil, "key %d", i))) {
			t.Fatalf("key %d was added and is not found", i)
		}
		if b.has(filterHash(fmt.Appendf(nil, "other %d", i))) {
			wrong++
		}
	}
	if wrong > keys/50 {
		t.Errorf("%d of %d keys that were not added are found", wrong, keys)
	}
}

// The filter is made while keys come and go, several times over: a key in use is always
// refused, and one that is not is always taken.
func TestFilterUnderChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		inUse := map[string]bool{}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3 { // after the first the store has keys to begin with
			e, err := Open(Options{Store: s, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			c := e.NewCaller()
			var made, grown int
			var before []*bloom
			for i := range 6000 {
				if i%100 == 0 {
					synctest.Wait() // the filter is made beside the commands: now and then it is done
				}
				key := fmt.Sprint(rng.IntN(300))
				var err *job.Error
				if rng.IntN(2) == 0 {
					err = c.Do(t.Context(), &job.Push{Spec: job.Spec{
						Namespace: "ns", Queue: "q", Key: key,
						Unique: true,
					}})[0].Err
					if (err != nil) != inUse[key] {
						t.Fatalf("push of key %s, in use: %v: %v", key, inUse[key], err)
					}
					inUse[key] = true
				} else {
					err = c.Do(t.Context(), &job.Delete{Ref: job.ByKey("ns", key), Need: job.NeedAny})[0].Err
					if (err == nil) != inUse[key] {
						t.Fatalf("delete of key %s, in use: %v: %v", key, inUse[key], err)
					}
					inUse[key] = false
				}
				e.mu.Lock()
				f := &e.core.filter
				switch {
				case len(f.now) > len(before):
					grown++
				case len(f.now) > 0 && f.now[0] != before[0]:
					made++
				}
				before = f.now
				if last := f.last(); last != nil && last.added > 50 {
					last.capacity = 50 // worn out; half of the keys are in use
				}
				e.mu.Unlock()
			}
			synctest.Wait()
			if made < 2 || grown < 4 {
				t.Errorf("the filter was rebuilt %d times and has grown %d times", made, grown)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// scanned is a store that tells when a snapshot is about to be read.
type scanned struct {
	store.Store
	scan func(store.Range)
}

func (s *scanned) Snapshot() (store.Snapshot, error) {
	snap, err := s.Store.Snapshot()
	return &scannedSnapshot{snap, s.scan}, err
}

type scannedSnapshot struct {
	store.Snapshot
	scan func(store.Range)
}

func (s *scannedSnapshot) Scan(r store.Range, visit func(key, value []byte) bool) error {
	s.scan(r)
	return s.Snapshot.Scan(r, visit)
}

// A key that is set while the filter is made, after the snapshot from which it is made, is not forgotten.
func TestFilterKeepsWhatComesMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, _ := record.KeysSpan()
		var scans atomic.Int32
		gate := make(chan struct{})
		s := &scanned{Store: memstore.New(), scan: func(r store.Range) {
			// The first scan counts the keys, the second one reads them.
			if bytes.Equal(r.Lo, keys) && scans.Add(1) == 2 {
				<-gate
			}
		}}
		e, err := Open(Options{Store: s, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		push := func(key string) {
			e.NewCaller().Do(t.Context(), &job.Push{Spec: job.Spec{
				Namespace: "ns", Queue: "q",
				Key: key, Unique: true,
			}})
		}
		push("before")
		synctest.Wait()
		e.mu.Lock()
		if e.core.filter.next == nil {
			t.Error("the filter is not being made")
		}
		e.mu.Unlock()
		push("meanwhile")
		close(gate)
		synctest.Wait()
		e.mu.Lock() // the machine has both keys in memory and would not ask the filter
		defer e.mu.Unlock()
		for _, key := range []string{"before", "meanwhile"} {
			if e.core.filter.absent(record.KeyKey(nil, "ns", key)) {
				t.Errorf("the filter takes the key %q for absent, which is in use", key)
			}
		}
		if !e.core.filter.absent(record.KeyKey(nil, "ns", "never")) {
			t.Error("the filter does not answer")
		}
	})
}

// A key that is not in use is not asked of the store.
func TestFilterSparesReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(Options{Store: memstore.New(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		c := e.NewCaller()
		push := func(key string) {
			c.Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Key: key, Unique: true}})
		}
		push("first")
		synctest.Wait()
		e.mu.Lock()
		made := e.core.filter.last()
		e.mu.Unlock()
		if made == nil {
			t.Fatal("no filter was made")
		}
		push("second")
		if made.added != 1 {
			t.Errorf("the filter knows of %d keys set since it was made", made.added)
		}
	})
}
