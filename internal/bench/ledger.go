package bench

import (
	"math/bits"
	"sync/atomic"
)

// ledger notes of every numbered job whether the server has taken it and whether it has delivered it.
// All its methods may be called at the same time.
type ledger struct {
	next      atomic.Uint64 // the number of the next job
	taken     bitmap
	delivered bitmap
	pushed    atomic.Uint64 // jobs that were taken
	acked     atomic.Uint64 // jobs that were delivered and acked, each once
	again     atomic.Uint64 // deliveries of a job delivered before
}

// draw returns n numbers in a row that no other job has, the first of them; fewer if there would
// be more than limit, which is zero if there is none.
func (l *ledger) draw(n, limit uint64) (first, count uint64) {
	first = l.next.Add(n) - n
	if limit == 0 {
		return first, n
	}
	return first, min(n, max(limit, first)-first)
}

// take notes jobs that the server has acknowledged.
func (l *ledger) take(first, count uint64) {
	for i := range count {
		l.taken.set(first + i)
	}
	l.pushed.Add(count)
}

// deliver notes a delivery and tells whether it is the job's first. No such number was ever drawn: not ok.
func (l *ledger) deliver(number uint64) (first, ok bool) {
	if number >= l.next.Load() {
		return false, false
	}
	if first = l.delivered.set(number); !first {
		l.again.Add(1)
	}
	return first, true
}

// settled tells whether every job that the server has taken has been delivered and acked. It is right once
// no more are pushed: a job can be delivered before its push is answered.
func (l *ledger) settled() bool { return l.acked.Load() >= l.pushed.Load() }

// lost counts the jobs that were taken and not delivered.
func (l *ledger) lost() (n int) {
	for i := range l.taken.pages {
		page := l.taken.pages[i].Load()
		if page == nil {
			break // numbers are drawn in order
		}
		delivered := l.delivered.page(uint64(i))
		for w := range page {
			n += bits.OnesCount64(page[w].Load() &^ delivered[w].Load())
		}
	}
	return n
}

const (
	pageWords = 1 << 12
	pageBits  = pageWords * 64
	pageCount = 1 << 16 // enough for 17,000 million jobs
)

// bitmap is a set of numbers that grows page by page.
type bitmap struct {
	pages [pageCount]atomic.Pointer[bitPage]
}

type bitPage [pageWords]atomic.Uint64

func (b *bitmap) page(i uint64) *bitPage {
	p := b.pages[i].Load()
	if p != nil {
		return p
	}
	b.pages[i].CompareAndSwap(nil, new(bitPage))
	return b.pages[i].Load()
}

// set adds a number and tells whether it was not there.
func (b *bitmap) set(n uint64) bool {
	n %= pageCount * pageBits
	bit := uint64(1) << (n % 64)
	return b.page(n / pageBits)[n%pageBits/64].Or(bit)&bit == 0
}
