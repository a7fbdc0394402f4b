package machine

import (
	"slices"

	"millrace/internal/plant"
)

// window is the first part of an ordered list of ready jobs, the rest of which is in the store
// (INV-6). If whole, there is no rest. A window that is empty and not whole says nothing about the
// list: refill reads the next part. Entries are taken from the front and mostly added at the end.
// So taking one only moves head, and compact brings the rest back to the start of the slice.
type window struct {
	items []*entry // those from head on
	head  int
	whole bool
	// byTurn says that the list is sorted by turns, not by the order of the jobs.
	byTurn bool
	// floor is a key at or below which the list has no entry: where a refill
	// starts, past what has been taken out.
	floor []byte
}

func (w *window) len() int { return len(w.items) - w.head }

// first returns the first entry in memory, or nil. Nil does not mean that the list is empty, unless the
// window is whole.
func (w *window) first() *entry {
	if w.len() == 0 {
		return nil
	}
	return w.items[w.head]
}

func (w *window) last() *entry {
	if w.len() == 0 {
		return nil
	}
	return w.items[len(w.items)-1]
}

// before is the order of the list that the window is the first part of.
func (w *window) before(a, b *entry) bool {
	if w.byTurn {
		return a.turnBefore(b)
	}
	return a.Order.Before(b.Order)
}

// search returns the place of an entry, or the one where it would be.
func (w *window) search(e *entry) int {
	i, _ := slices.BinarySearchFunc(w.items[w.head:], e, func(a, b *entry) int {
		if w.before(a, b) {
			return -1
		}
		return 1 // the first that is not before e
	})
	return w.head + i
}

// covers reports whether an entry of this order belongs into the window. Behind the last one it
// belongs only if the list has no rest: otherwise jobs that are only in the store come before it,
// and it would overtake them.
func (w *window) covers(e *entry) bool {
	return w.whole || (w.len() > 0 && (w.before(e, w.last()) || plant.JobOvertakes.On()))
}

// insert adds an entry that the window covers, or the next one of a refill.
func (w *window) insert(e *entry) {
	if l := w.last(); l == nil || w.before(l, e) {
		if w.head > 0 && len(w.items) == cap(w.items) {
			w.compact()
		}
		w.items = append(w.items, e)
		return
	}
	i := w.search(e)
	if w.head > 0 && i-w.head <= len(w.items)-i { // shift the shorter side
		copy(w.items[w.head-1:], w.items[w.head:i])
		w.head--
		w.items[i-1] = e
		return
	}
	w.items = slices.Insert(w.items, i, e)
}

// remove takes e out and reports whether it was in. The same job may have been loaded a second
// time, so that the id counts and not the pointer. Mostly it is the first one that goes, by a
// fetch.
func (w *window) remove(e *entry) bool {
	if f := w.first(); f != nil && f.ID == e.ID {
		w.items[w.head] = nil
		w.head++
		w.compactEmpty()
		return true
	}
	i := w.search(e)
	if i >= len(w.items) || w.items[i].ID != e.ID {
		return false
	}
	w.items = slices.Delete(w.items, i, i+1)
	w.compactEmpty()
	return true
}

// dropLast takes out the last entry: from now on the list goes on in the store from there.
func (w *window) dropLast() *entry {
	e := w.last()
	w.items[len(w.items)-1] = nil
	w.items = w.items[:len(w.items)-1]
	w.whole = false
	w.compactEmpty()
	return e
}

// compactEmpty begins at the start again when nothing is left, and lets go of a large slice: a
// queue that was long once should not cost memory for ever.
func (w *window) compactEmpty() {
	if w.len() == 0 {
		w.items, w.head = w.items[:0], 0
		if cap(w.items) > 256 {
			w.items = nil
		}
	}
}

// compact moves the entries to the start of the slice, before it would have to grow.
func (w *window) compact() {
	n := copy(w.items, w.items[w.head:])
	clear(w.items[n:])
	w.items, w.head = w.items[:n], 0
}
