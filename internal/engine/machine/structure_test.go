package machine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/job"
	"millrace/internal/record"
)

func byOrder(a, b *entry) int {
	if a.Order.Before(b.Order) {
		return -1
	}
	return 1
}

// A window is the first part of a sorted list, whatever is inserted and removed.
func TestWindowAgainstSortedSlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		w := &window{whole: true}
		var model []*entry
		var id job.ID
		for range 400 {
			switch n := rnd.IntN(10); {
			case n < 5:
				id++
				e := &entry{}
				e.ID = id
				e.Order = job.Order{
					Rank: rnd.Int64N(3) - 1, Priority: rnd.Int64N(3),
					At: job.Time(rnd.Int64N(2)), Seq: uint64(id),
				}
				if !w.covers(e) {
					continue
				}
				w.insert(e)
				i, _ := slices.BinarySearchFunc(model, e, byOrder)
				model = slices.Insert(model, i, e)
			case n < 7 && len(model) > 0: // the first, as a fetch does
				if !w.remove(w.first()) {
					t.Fatalf("seed %d: the first is not in", seed)
				}
				model = model[1:]
			case n < 9 && len(model) > 0:
				i := rnd.IntN(len(model))
				again := &entry{Job: model[i].Job} // the same job, loaded a second time
				if !w.remove(again) {
					t.Fatalf("seed %d: job %d is not in", seed, again.ID)
				}
				if w.remove(again) || w.has(again) {
					t.Fatalf("seed %d: job %d is in twice", seed, again.ID)
				}
				model = slices.Delete(model, i, i+1)
			case len(model) > 4:
				if got, want := w.dropLast(), model[len(model)-1]; got != want {
					t.Fatalf("seed %d: dropped job %d, want %d", seed, got.ID, want.ID)
				}
				model = model[:len(model)-1]
				if w.whole {
					t.Fatalf("seed %d: whole without its last", seed)
				}
			}
			if !slices.Equal(w.items[w.head:], model) || w.len() != len(model) {
				t.Fatalf("seed %d: %d entries differ from %d", seed, w.len(), len(model))
			}
			if len(model) > 0 && (w.first() != model[0] || w.last() != model[len(model)-1]) {
				t.Fatalf("seed %d: first or last are wrong", seed)
			}
			for _, e := range model {
				if !w.has(e) {
					t.Fatalf("seed %d: job %d is not in", seed, e.ID)
				}
			}
		}
	}
}

// A window that is not whole takes only what lies before its last.
func TestWindowCovers(t *testing.T) {
	t.Parallel()
	at := func(seq uint64) *entry {
		e := &entry{}
		e.ID, e.Order.Seq = job.ID(seq), seq
		return e
	}
	w := &window{}
	if w.covers(at(1)) {
		t.Error("an empty window that is not whole knows nothing")
	}
	if w.first() != nil || w.last() != nil {
		t.Error("an empty window has neither first nor last")
	}
	w.insert(at(5))
	for seq, want := range map[uint64]bool{4: true, 6: false} {
		if got := w.covers(at(seq)); got != want {
			t.Errorf("covers %d: %v, want %v", seq, got, want)
		}
	}
	w.whole = true
	if !w.covers(at(6)) {
		t.Error("a whole window takes everything")
	}
}

func TestTimerHeap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var h timerHeap
		var model []timerItem
		for range 2000 {
			if rnd.IntN(3) > 0 || len(model) == 0 {
				item := timerItem{job.Time(rnd.Int64N(20)), record.QueueID(rnd.Int32N(3)), job.ID(rnd.Int64N(50))}
				h.push(item)
				model = append(model, item)
				continue
			}
			first := slices.MinFunc(model, compareTimers)
			if got := h.pop(); got != first {
				t.Fatalf("seed %d: popped %v, want %v", seed, got, first)
			}
			i := slices.Index(model, first)
			model = slices.Delete(model, i, i+1)
		}
		slices.SortFunc(model, compareTimers)
		for _, want := range model {
			if got := h.pop(); got != want {
				t.Fatalf("seed %d: popped %v, want %v", seed, got, want)
			}
		}
	}
}

func compareTimers(a, b timerItem) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.q, b.q), cmp.Compare(a.id, b.id))
}

// What a pile of timers took is given back once they are gone.
func TestTimerHeapShrinks(t *testing.T) {
	t.Parallel()
	var h timerHeap
	for i := range 1 << 16 {
		h.push(timerItem{at: job.Time(i)})
	}
	for i := range 1 << 16 {
		if got := h.pop(); got.at != job.Time(i) {
			t.Fatalf("popped %d, want %d", got.at, i)
		}
	}
	if cap(h) > 1<<14 {
		t.Errorf("an empty heap keeps room for %d", cap(h))
	}
}

func TestAlarmHeap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var h momentHeap[*alarm]
		var model []*alarm
		var seq uint64
		for range 2000 {
			switch n := rnd.IntN(4); {
			case n < 2 || len(model) == 0:
				seq++
				a := &alarm{moment: moment{at: job.Time(rnd.Int64N(20)), seq: seq}}
				h.push(a)
				model = append(model, a)
			case n == 2: // any, as when a wait ends early
				i := rnd.IntN(len(model))
				h.remove(model[i])
				if model[i].index != -1 {
					t.Fatalf("seed %d: a removed alarm has index %d", seed, model[i].index)
				}
				model = slices.Delete(model, i, i+1)
			default:
				first := slices.MinFunc(model, func(a, b *alarm) int {
					return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
				})
				if got := h.pop(); got != first {
					t.Fatalf("seed %d: popped %v, want %v", seed, got, first)
				}
				i := slices.Index(model, first)
				model = slices.Delete(model, i, i+1)
			}
			if len(h) != len(model) {
				t.Fatalf("seed %d: %d alarms, want %d", seed, len(h), len(model))
			}
			for i, a := range h {
				if a.index != i {
					t.Fatalf("seed %d: alarm at %d thinks it is at %d", seed, i, a.index)
				}
			}
		}
	}
}

// A fifo gives out what was added in that order, and keeps nothing of what it gave out.
func TestFifo(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 4))
	var l fifo[*int]
	var model []*int
	for i := range 5000 {
		if rnd.IntN(2) == 0 {
			l.add(&i)
			model = append(model, &i)
		}
		if l.empty() != (len(model) == 0) {
			t.Fatalf("empty is %v with %d in it", l.empty(), len(model))
		}
		if len(model) > 0 && rnd.IntN(2) == 0 {
			if first, got := l.first(), l.take(); got != model[0] || first != got {
				t.Fatalf("took %d after seeing %d, want %d", *got, *first, *model[0])
			}
			model = model[1:]
		}
		for _, p := range l.items[:l.head] {
			if p != nil {
				t.Fatal("what was taken is still held")
			}
		}
	}
}

// The waiting callers of a queue keep their order whoever goes.
func TestWaitList(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 3))
	var l waitList
	var model []*waitNode
	for range 5000 {
		if rnd.IntN(2) == 0 || len(model) == 0 {
			n := &waitNode{w: &waiter{}}
			l.push(n)
			model = append(model, n)
		} else {
			i := rnd.IntN(len(model))
			l.remove(model[i])
			model = slices.Delete(model, i, i+1)
		}
		if l.empty() != (len(model) == 0) {
			t.Fatalf("empty is %v with %d waiting", l.empty(), len(model))
		}
		if len(model) > 0 && l.first() != model[0].w {
			t.Fatal("the first to come is not the first")
		}
		var got []*waitNode
		for n := l.head; n != nil; n = n.next {
			got = append(got, n)
		}
		if !slices.Equal(got, model) {
			t.Fatalf("%d in the list, want %d", len(got), len(model))
		}
	}
}
