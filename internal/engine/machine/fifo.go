package machine

// fifo is a queue: add puts a value at its end, and take removes the one at its front. Both are O(1), because take
// moves nothing; a step with a bounded amount of work may take from a list of any length.
type fifo[T any] struct {
	items []T
	head  int // index of the front; what lies before it was taken
}

func (l *fifo[T]) empty() bool { return l.head == len(l.items) }

func (l *fifo[T]) add(v T) { l.items = append(l.items, v) }

func (l *fifo[T]) first() T { return l.items[l.head] }

// putBack puts a value back to the front. It may be called right after take only, because it uses the place that take
// has freed.
func (l *fifo[T]) putBack(v T) {
	if l.head == 0 { // take removed the last value and began from the start
		l.items = append(l.items, v)
		return
	}
	l.head--
	l.items[l.head] = v
}

// take removes and returns the value at the front. Its place is cleared, so that memory keeps nothing that was taken
// (INV-12).
func (l *fifo[T]) take() T {
	v := l.items[l.head]
	clear(l.items[l.head : l.head+1])
	if l.head++; l.empty() {
		l.items, l.head = l.items[:0], 0
	}
	return v
}
