package iproto

// Args are the arguments of a call.
type Args struct {
	n    int                // how many were sent, trailing nils included
	raw  []byte             // all of them, one after the other
	ends [argsIndexed]int32 // where the first ones end in raw
}

// argsIndexed is how many arguments are found without a walk.
const argsIndexed = 8

// Set takes the elements of a well-formed array, or none.
func (a *Args) Set(v Value) {
	n, elements, _ := v.Array()
	a.Index(n, elements)
}

// Index takes n well-formed values.
func (a *Args) Index(n int, values []byte) {
	*a = Args{n: n, raw: values}
	at := 0
	for i := range min(n, argsIndexed) {
		v, _ := Cut(values[at:])
		at += len(v)
		a.ends[i] = int32(at) //nolint:gosec // packets are far smaller
	}
}

// Count returns how many arguments were sent, nils included.
func (a *Args) Count() int { return a.n }

// At returns the i-th argument, from zero; empty if it was not sent.
func (a *Args) At(i int) Value {
	if i < 0 || i >= a.n {
		return nil
	}
	if i < argsIndexed {
		start := 0
		if i > 0 {
			start = int(a.ends[i-1])
		}
		return Value(a.raw[start:a.ends[i]:a.ends[i]])
	}
	first, _ := Cut(a.From(i))
	return first
}

// From returns the i-th argument and all behind it, one after the other.
func (a *Args) From(i int) []byte {
	switch {
	case i >= a.n:
		return nil
	case i <= 0:
		return a.raw
	case i <= argsIndexed:
		return a.raw[a.ends[i-1]:]
	}
	rest := a.raw[a.ends[argsIndexed-1]:]
	for range i - argsIndexed {
		_, rest = Cut(rest)
	}
	return rest
}
