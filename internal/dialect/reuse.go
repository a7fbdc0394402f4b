package dialect

// Freelist hands out values of T and takes them all back at once: the commands of a
// unit are used again for the next one.
type Freelist[T any] struct {
	all  []*T
	used int
}

// Get returns an empty value.
func (f *Freelist[T]) Get() *T {
	if f.used == len(f.all) {
		f.all = append(f.all, new(T))
	}
	f.used++
	return f.all[f.used-1]
}

// Undo takes back the last value that was handed out.
func (f *Freelist[T]) Undo() {
	f.used--
	var zero T
	*f.all[f.used] = zero
}

// Release takes back and empties what was handed out, so that no body is kept alive.
func (f *Freelist[T]) Release() {
	var zero T
	for _, p := range f.all[:f.used] {
		*p = zero
	}
	f.used = 0
}

// Names makes strings of names. A connection uses few different ones, so the last ones
// are kept and cost nothing.
type Names struct {
	kept [8]string
	next uint8
}

// nameKept is the longest name that is kept.
const nameKept = 255

// String returns b as a string.
func (n *Names) String(b []byte) string {
	for _, s := range n.kept {
		if s == string(b) {
			return s
		}
	}
	s := string(b)
	if len(s) <= nameKept {
		n.kept[n.next%uint8(len(n.kept))] = s
		n.next++
	}
	return s
}
