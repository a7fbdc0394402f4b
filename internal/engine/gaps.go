package engine

import (
	"bytes"
	"slices"
	"sort"
)

// A store keeps what was deleted for a while, and a scan has to pass it. Work that takes the first jobs of a long list
// in many steps would pass all that the steps before have taken, again and again: the last step would do as much as
// all of them. So it is remembered where a scan has passed much and found nothing. Later scans leave that out.

// gaps are spans in which there is no key, in order and apart from each other. The engine's lock
// guards them. They are only a shortcut: forgetting one is harmless, and one that is wrong would
// hide keys.
type gaps struct {
	list   []gap
	turn   int // which one makes room for another
	writes uint64
}

// gap is a span without a key, lo included and hi excluded.
type gap struct{ lo, hi []byte }

const (
	gapKeysMin = 64 // deleted keys that are worth a gap
	gapsMax    = 64
)

// firstBehind returns the first gap that ends behind a key.
func (g *gaps) firstBehind(key []byte) int {
	return sort.Search(len(g.list), func(i int) bool { return bytes.Compare(g.list[i].hi, key) > 0 })
}

// firstOutside returns the first part of a span that is in no gap. It is empty if all of the span is.
func (g *gaps) firstOutside(lo, hi []byte) (from, to []byte) {
	i := g.firstBehind(lo)
	if i < len(g.list) && bytes.Compare(g.list[i].lo, lo) <= 0 {
		lo = g.list[i].hi
		i++ // gaps do not touch each other
	}
	if i < len(g.list) && bytes.Compare(g.list[i].lo, hi) < 0 {
		hi = g.list[i].lo
	}
	return lo, hi
}

// note notes that a span has no key. There are at most gapsMax: one of the others makes room in
// turn.
func (g *gaps) note(lo, hi []byte) {
	if bytes.Compare(lo, hi) >= 0 {
		return
	}
	// Those that overlap or touch it become one with it.
	i := sort.Search(len(g.list), func(i int) bool { return bytes.Compare(g.list[i].hi, lo) >= 0 })
	k := i
	for k < len(g.list) && bytes.Compare(g.list[k].lo, hi) <= 0 {
		k++
	}
	if k > i {
		if bytes.Compare(g.list[i].lo, lo) < 0 {
			lo = g.list[i].lo
		}
		if bytes.Compare(g.list[k-1].hi, hi) > 0 {
			hi = g.list[k-1].hi
		}
	}
	g.list = slices.Replace(g.list, i, k, gap{bytes.Clone(lo), bytes.Clone(hi)})
	if len(g.list) > gapsMax {
		g.turn = (g.turn + 1) % len(g.list)
		g.list = slices.Delete(g.list, g.turn, g.turn+1)
	}
}

// fill is told of every key that is set, and takes it out of the gap that it is in.
func (g *gaps) fill(key []byte) {
	g.writes++
	if len(g.list) == 0 {
		return
	}
	i := g.firstBehind(key)
	if i == len(g.list) || bytes.Compare(g.list[i].lo, key) > 0 {
		return
	}
	old := g.list[i]
	g.list = slices.Delete(g.list, i, i+1)
	g.note(old.lo, key)
	g.note(after(key), old.hi)
}

// after returns the first key behind another.
func after(key []byte) []byte { return append(bytes.Clone(key), 0) }

// watcher notes the gaps that a scan finds. All that it sees are consecutive keys of one moment. If
// a key is set during the scan, as by what the visit of a key does, nothing more is noted: the scan
// may have passed the place before.
type watcher struct {
	gaps   *gaps
	passed int    // deleted keys so far, by the store
	last   int    // the same when the last key was visited
	from   []byte // behind that key
	writes uint64 // when the scan began: a key that was set since may be missing in it
}

// watch begins to watch a scan from a key on.
func (g *gaps) watch(lo []byte) *watcher {
	return &watcher{gaps: g, from: bytes.Clone(lo), writes: g.writes}
}

// reached is called for every key that is visited, and with the end of the span.
func (w *watcher) reached(key []byte) {
	if w.passed-w.last >= gapKeysMin && w.writes == w.gaps.writes {
		w.gaps.note(w.from, key)
	}
	w.last = w.passed
	w.from = append(append(w.from[:0], key...), 0)
}
