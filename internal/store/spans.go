package store

import (
	"bytes"
	"slices"
	"sort"
)

// span is a part of the keys, and the offset of the last range delete of a batch that
// has it.
type span struct {
	lo, hi []byte
	offset uint32
}

// spans are the range deletes of a batch. One command can make some hundred thousand, and
// every read of the batch asks for them. So they are kept in runs of spans that are
// sorted and do not overlap: the oldest first, each more than twice as long as the next.
type spans struct{ runs [][]span }

// add adds a range delete; offsets grow.
func (s *spans) add(lo, hi []byte, offset uint32) {
	if bytes.Compare(lo, hi) >= 0 {
		return
	}
	run := []span{{bytes.Clone(lo), bytes.Clone(hi), offset}}
	n := len(s.runs)
	for ; n > 0 && len(s.runs[n-1]) <= 2*len(run); n-- {
		run = overlay(s.runs[n-1], run)
	}
	s.runs = append(s.runs[:n], run)
}

// last returns the offset of the last range delete that has the key; zero if there is
// none.
func (s *spans) last(key []byte) uint32 {
	for _, run := range slices.Backward(s.runs) {
		at := sort.Search(len(run), func(i int) bool { return bytes.Compare(key, run[i].hi) < 0 })
		if at < len(run) && bytes.Compare(run[at].lo, key) <= 0 {
			return run[at].offset
		}
	}
	return 0
}

// overlay returns two runs as one: what the newer has hides the older.
func overlay(older, newer []span) []span {
	out := make([]span, 0, len(older)+len(newer))
	for _, o := range older {
		for len(newer) > 0 && bytes.Compare(newer[0].hi, o.lo) <= 0 {
			out, newer = append(out, newer[0]), newer[1:]
		}
		for len(newer) > 0 && bytes.Compare(newer[0].lo, o.hi) < 0 {
			n := newer[0]
			if bytes.Compare(o.lo, n.lo) < 0 {
				out = append(out, span{o.lo, n.lo, o.offset})
			}
			o.lo = n.hi
			if bytes.Compare(n.hi, o.hi) >= 0 {
				break // it may hide a part of the next as well
			}
			out, newer = append(out, n), newer[1:]
		}
		if bytes.Compare(o.lo, o.hi) < 0 {
			out = append(out, o)
		}
	}
	return append(out, newer...)
}
