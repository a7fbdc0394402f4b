package machine

// line is a list that things are added to at its end and taken from at its front,
// however many there are: taking one moves nothing.
type line[T any] struct {
	items []T
	head  int
}

func (l *line[T]) empty() bool { return l.head == len(l.items) }

func (l *line[T]) add(v T) { l.items = append(l.items, v) }

func (l *line[T]) first() T { return l.items[l.head] }

// putBack puts one back to the front, right after take.
func (l *line[T]) putBack(v T) {
	if l.head == 0 { // it was the only one
		l.items = append(l.items, v)
		return
	}
	l.head--
	l.items[l.head] = v
}

// take takes the first out.
func (l *line[T]) take() T {
	v := l.items[l.head]
	clear(l.items[l.head : l.head+1])
	if l.head++; l.empty() {
		l.items, l.head = l.items[:0], 0
	}
	return v
}
