package record

// ValueKey appends the key of a named value. Its value is the value, raw.
func ValueKey(dst []byte, space, name string) []byte {
	return append(appendText(append(dst, spaceValue), space), name...)
}

// ValuesSpan returns the range of the values of a space, in order of their names.
func ValuesSpan(space string) (lo, hi []byte) { return textSpan(spaceValue, space) }

// ParseValueKey splits the key of a named value.
func ParseValueKey(key []byte) (space, name string, ok bool) { return parseNamed(key, spaceValue) }
