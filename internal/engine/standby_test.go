package engine

import (
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

// asked counts how often a store is asked for a client-given key.
type asked struct {
	store.Store
	keys atomic.Int64
}

func (a *asked) Get(dst, key []byte) ([]byte, bool, error) {
	if record.IsKeyKey(key) {
		a.keys.Add(1)
	}
	return a.Store.Get(dst, key)
}

// A filter that is kept beside a store while others write to it knows every key in use, whenever it was made, and
// spares an engine the reads from its first push on.
func TestStandbyFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f, inUse := memstore.New(), &KeyFilter{}, map[string]bool{}
		rng := rand.New(rand.NewPCG(1, 2))
		writer, err := Open(Options{Store: noting{s, f}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		c := writer.NewCaller()
		for i := range 3000 {
			switch i {
			case 500, 1500: // it is made while keys come and go
				if !f.NeedsRebuild() && i == 500 {
					t.Error("a filter that was never made is not worn")
				}
				f.Make(s)
			}
			key := fmt.Sprint(rng.IntN(400))
			if inUse[key] && rng.IntN(2) == 0 {
				if res := c.Do(t.Context(), &job.Delete{
					Ref:  job.Ref{Kind: job.RefKey, Namespace: "ns", Key: key},
					Need: job.NeedAny,
				})[0]; res.Err != nil {
					t.Fatal(res.Err)
				}
				delete(inUse, key)
			} else {
				c.Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Key: key, Unique: true}})
				inUse[key] = true
			}
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		f.ended.Wait()
		a := &asked{Store: s}
		e, err := Open(Options{Store: a, Seed: 2, Keys: f})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		c = e.NewCaller()
		before := a.keys.Load()
		const fresh = 1000
		for i := range fresh {
			if res := c.Do(t.Context(), &job.Push{Spec: job.Spec{
				Namespace: "ns", Queue: "q", Key: fmt.Sprint("new", i),
				Unique: true,
			}})[0]; res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		if n := a.keys.Load() - before; n > fresh/20 {
			t.Errorf("the store was asked %d times about %d keys that are new", n, fresh)
		}
		for key := range inUse {
			if res := c.Do(t.Context(), &job.Push{Spec: job.Spec{
				Namespace: "ns", Queue: "q", Key: key,
				Unique: true,
			}})[0]; res.Err == nil || res.Err.Kind != job.Duplicate {
				t.Fatalf("key %s is in use and was taken again: %v", key, res.Err)
			}
		}
	})
}

// noting is a store whose commits are noted, as a replica does.
type noting struct {
	store.Store
	f *KeyFilter
}

func (n noting) Commit(b *store.Batch, done func(error)) {
	n.Store.Commit(b, func(err error) {
		n.f.Note(b)
		done(err)
	})
}

// A filter that is being made grows with what it gets, and finds all of it.
func TestFilterGrows(t *testing.T) {
	t.Parallel()
	list := []*bloom{newBloom(10)}
	const keys = 1000
	for h := range uint64(keys) {
		list = grown(list, h*0x9e3779b97f4a7c15)
	}
	room := 0
	for _, b := range list {
		room += b.capacity
	}
	if room < keys || room > 4*keys || len(list) > 10 {
		t.Errorf("%d filters for %d keys", len(list), room)
	}
	f := filter{now: list}
	for h := range uint64(keys) {
		found := false
		for _, b := range f.now {
			found = found || b.has(h*0x9e3779b97f4a7c15)
		}
		if !found {
			t.Fatalf("key %d is not found", h)
		}
	}
}

// A filter that gets many times the keys that it was made for still knows which keys are new: it grows until it is
// rebuilt. The engine that it is lent to knows how full it is.
func TestStandbyFilterGrows(t *testing.T) {
	t.Parallel()
	f := &KeyFilter{}
	f.Make(memstore.New())
	f.ended.Wait()
	const keys, fresh = 4 * filterKeysMin, 10_000
	var b store.Batch
	for i := range keys {
		b.Set(record.KeyKey(nil, "ns", fmt.Sprint(i)), nil)
		if b.Len() == 1000 || i == keys-1 {
			f.Note(&b)
			b.Reset()
		}
	}
	if !f.NeedsRebuild() {
		t.Error("it was made for fewer keys, and is not to be rebuilt")
	}
	lent := filter{now: f.lend()}
	if lent.capacity() < keys || lent.capacity() > 4*keys || lent.last().added > lent.last().capacity {
		t.Errorf("%d filters have room for %d keys of %d, and the last has %d", len(lent.now), lent.capacity(), keys,
			lent.last().added)
	}
	for i := range keys {
		if lent.absent(record.KeyKey(nil, "ns", fmt.Sprint(i))) {
			t.Fatalf("key %d is in use and is not found", i)
		}
	}
	taken := 0
	for i := range fresh {
		if !lent.absent(record.KeyKey(nil, "ns", fmt.Sprint("new", i))) {
			taken++
		}
	}
	if taken > fresh/20 {
		t.Errorf("of %d new keys it takes %d for ones in use", fresh, taken)
	}
}

// A filter that nobody rebuilds, as on a node that leads, has a bound. It still finds all keys.
func TestStandbyFilterBounded(t *testing.T) {
	t.Parallel()
	const made, keys = 100, 10_000
	f := &KeyFilter{now: []*bloom{newBloom(made)}, capacity: made}
	var b store.Batch
	for i := range keys {
		b.Set(record.KeyKey(nil, "ns", fmt.Sprint(i)), nil)
	}
	f.Note(&b)
	lent := filter{now: f.lend()}
	if lent.capacity() > 2*growFor*made {
		t.Errorf("it has room for %d keys", lent.capacity())
	}
	for i := range keys {
		if lent.absent(record.KeyKey(nil, "ns", fmt.Sprint(i))) {
			t.Fatalf("key %d is in use and is not found", i)
		}
	}
}

// What is stopped while it is made ends, and answers nothing.
func TestFilterStops(t *testing.T) {
	t.Parallel()
	f := &KeyFilter{}
	f.Make(memstore.New())
	f.Stop()
	f.Make(memstore.New())
	f.ended.Wait()
	if f.next != nil {
		t.Error("it is made although it was stopped")
	}
}
