package machine

import "millrace/internal/job"

// moment is a time at which something is to happen: an alarm, the end of a lease, the age of a
// slot. It is part of a value in a heap and knows its place there, so that the value can be taken
// out again without a search. timerHeap, which never has to take one out, does without.
type moment struct {
	at    job.Time
	seq   uint64 // the order among those of the same time
	index int    // in the heap; -1 if it is in none
}

func (m *moment) when() *moment { return m }

// momentHeap is a binary heap of values that have a moment, the earliest first. Equal times are sorted
// by seq.
type momentHeap[T interface{ when() *moment }] []T

func (h momentHeap[T]) less(i, j int) bool {
	a, b := h[i].when(), h[j].when()
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}

func (h momentHeap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].when().index, h[j].when().index = i, j
}

// up and down restore the order after the value at i came to be too late or too early for its
// place.
func (h momentHeap[T]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(i, p) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h momentHeap[T]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *momentHeap[T]) push(v T) {
	v.when().index = len(*h)
	*h = append(*h, v)
	h.up(v.when().index)
}

// remove takes out a value, which must be in the heap. The last one takes its place, and may belong
// further up as well as further down.
func (h *momentHeap[T]) remove(v T) {
	var none T
	i, last := v.when().index, len(*h)-1
	h.swap(i, last)
	(*h)[last] = none
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	v.when().index = -1
}

func (h *momentHeap[T]) pop() T {
	v := (*h)[0]
	h.remove(v)
	return v
}
