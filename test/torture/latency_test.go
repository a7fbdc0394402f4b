package torture

import (
	"math/bits"
	"sync"
	"time"
)

// latency counts durations in classes that are an eighth of their size wide.
type latency struct {
	mu    sync.Mutex // guards everything
	class [64 * 8]int
	total int
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.class[classOf(uint64(max(d, 1)))]++
	l.total++
}

// classOf numbers the classes: eight for each power of two.
func classOf(n uint64) int {
	exp := bits.Len64(n)
	if exp <= 4 {
		return int(n)
	}
	return exp*8 + int(n>>(exp-4)&7)
}

// endOf is the upper end of a class.
func endOf(class int) uint64 {
	if class < 16 {
		return uint64(class)
	}
	exp := class / 8
	return uint64(class%8+9)<<(exp-4) - 1
}

// quantile returns the smallest duration that at least q of all do not exceed, and
// how many there are; then it begins again.
func (l *latency) quantile(q float64) (time.Duration, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total, below := l.total, 0
	var out time.Duration
	for i, n := range l.class {
		if below += n; total > 0 && float64(below) >= q*float64(total) {
			out = time.Duration(endOf(i))
			break
		}
	}
	l.class, l.total = [64 * 8]int{}, 0
	return out, total
}
