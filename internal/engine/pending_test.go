package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

type pair struct{ key, value string }

// strict is a store that refuses to remove what was not set exactly once since it was
// last gone, which a real store may answer with an old value.
type strict struct {
	*memstore.Store
	sets map[string]int
}

func newStrict() *strict { return &strict{memstore.New(), map[string]int{}} }

func (s *strict) Commit(b *store.Batch, done func(error)) { done(s.commit(b)) }

func (s *strict) commit(b *store.Batch) (err error) {
	b.Each(func(op store.Op, key, value []byte) bool {
		switch op {
		case store.OpSet, store.OpInsert:
			s.sets[string(key)]++
		case store.OpDelete:
			delete(s.sets, string(key))
		case store.OpRemove:
			if n := s.sets[string(key)]; n != 1 {
				err = fmt.Errorf("key %q is removed and was set %d times", key, n)
			}
			delete(s.sets, string(key))
		case store.OpDeleteRange:
			for k := range s.sets {
				if k >= string(key) && k < string(value) {
					delete(s.sets, k)
				}
			}
		case store.OpVoidSet, store.OpVoidDelete:
			err = fmt.Errorf("a void change of %q is visited", key)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return store.CommitNow(s.Store, b)
}

// The store with several batches pending on top reads like one map, whatever was set,
// deleted and range-deleted where.
func TestPendingAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		c := &Core{store: newStrict(), open: &pending{}}
		s := coreStorage{c}
		model := map[string]string{}
		key := func() []byte {
			k := make([]byte, 1+rnd.IntN(3))
			for i := range k {
				k[i] = "abmn"[rnd.IntN(4)]
			}
			return k
		}
		// Keys below m are set and deleted, those above are inserted and removed: an
		// inserted key is not there, a removed one was inserted and not set since.
		inserted := func(k []byte) bool { return k[0] >= 'm' }
		drop := func(lo, hi []byte) {
			s.DeleteRange(lo, hi)
			for k := range model {
				if k >= string(lo) && k < string(hi) {
					delete(model, k)
				}
			}
		}
		for step := range 600 {
			k, v := key(), fmt.Appendf(nil, "%d", step)
			if k[0] == 'n' {
				v = nil // as the entries of lists, which never have a value
			}
			_, there := model[string(k)]
			switch n := rnd.IntN(20); {
			case n < 14 && inserted(k) && !there:
				s.Insert(k, v)
				model[string(k)] = string(v)
			case n < 14 && inserted(k) && n > 0:
				s.Remove(k)
				delete(model, string(k))
			case n < 10 && !inserted(k):
				s.Set(k, v)
				model[string(k)] = string(v)
			case n < 14:
				s.Delete(k)
				delete(model, string(k))
			case n < 15:
				drop(k, key()) // also empty and inverted ranges
			case n < 17: // what the host does when the committer is free
				if len(c.sealed) > rnd.IntN(4) {
					if err := store.CommitNow(c.store, &c.sealed[0].Batch); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					c.Committed()
				}
				c.seal()
			}
			compare(t, seed, s, model, key)
		}
	}
}

// compare reads a few keys and ranges both ways.
func compare(t *testing.T, seed uint64, s coreStorage, model map[string]string, key func() []byte) {
	t.Helper()
	for range 4 {
		k := key()
		want, there := model[string(k)]
		got, _, ok := s.Get([]byte("prefix-"), k)
		if ok != there || (ok && string(got) != "prefix-"+want) {
			t.Fatalf("seed %d: get %q: %q, %v, want %q, %v", seed, k, got, ok, want, there)
		}
	}
	lo, hi := key(), key()
	if bytes.Compare(lo, hi) > 0 {
		lo, hi = hi, lo
	}
	var want []pair
	for k, v := range model {
		if k >= string(lo) && k < string(hi) {
			want = append(want, pair{k, v})
		}
	}
	slices.SortFunc(want, func(a, b pair) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	for _, reverse := range []bool{false, true} {
		if reverse {
			slices.Reverse(want)
		}
		if got := scan(s, lo, hi, reverse, len(want)+1); !slices.Equal(got, want) {
			t.Fatalf("seed %d: scan %q to %q, reverse %v: %q, want %q", seed, lo, hi, reverse, got, want)
		}
		if n := len(want) / 2; n > 0 { // a visit that stops
			if got := scan(s, lo, hi, reverse, n); !slices.Equal(got, want[:n]) {
				t.Fatalf("seed %d: scan %q to %q stopped at %d: %q, want %q", seed, lo, hi, n, got, want[:n])
			}
		}
	}
}

func scan(s coreStorage, lo, hi []byte, reverse bool, limit int) (out []pair) {
	s.Scan(lo, hi, reverse, func(k, v []byte) bool {
		out = append(out, pair{string(k), string(v)})
		return len(out) < limit
	})
	return out
}

// Get tells what is not committed yet, which is how a delivery knows what to wait for.
func TestPendingIsTold(t *testing.T) {
	t.Parallel()
	c := &Core{store: memstore.New(), open: &pending{}}
	s := coreStorage{c}
	want := func(pending, ok bool) {
		t.Helper()
		if _, p, o := s.Get(nil, []byte("k")); p != pending && o || o != ok {
			t.Fatalf("pending %v, there %v, want %v, %v", p, o, pending, ok)
		}
	}
	want(false, false)
	s.Set([]byte("k"), nil)
	want(true, true)
	c.seal()
	want(true, true)
	if err := store.CommitNow(c.store, &c.sealed[0].Batch); err != nil {
		t.Fatal(err)
	}
	c.Committed()
	want(false, true)
	s.Delete([]byte("k"))
	want(true, false)
	s.DeleteRange([]byte("a"), []byte("z"))
	want(true, false)
}

// Seal returns nothing if nothing has changed, and a change of counters alone is one.
func TestSealOnlyChanges(t *testing.T) {
	t.Parallel()
	c, err := OpenCore(memstore.New(), 1e15, CoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(want bool) {
		t.Helper()
		b, _ := c.Seal()
		if (b != nil) != want {
			t.Fatalf("a batch: %v, want %v", b != nil, want)
		}
		if b == nil {
			return
		}
		if err := store.CommitNow(c.store, b); err != nil {
			t.Fatal(err)
		}
		c.Committed()
		if d := c.Dirty(); d != 0 {
			t.Fatalf("still dirty at step %d", d)
		}
	}
	apply := func(cmd job.Command) {
		var res job.Result
		c.Apply(1e15, 0, 0, cmd, &res)
	}
	commit(false)
	apply(&job.Pause{Namespace: "n", Queue: "nowhere"})
	commit(false)
	apply(&job.Push{Spec: job.Spec{Namespace: "n", Queue: "q"}})
	commit(true)
	commit(false)
	apply(&job.Pause{Namespace: "n", Queue: "q"})
	commit(true)
	apply(&job.Ack{Ref: job.ByID("n", "q", 9), Need: job.NeedAny})
	commit(false)
	apply(&job.Configure{Namespace: "n", Queue: "r"})
	commit(true)
}
