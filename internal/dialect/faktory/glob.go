package faktory

// globMax is the longest pattern. Matching takes time in proportion to pattern and text.
const globMax = 1024

// glob reports whether all of text matches the pattern, in which * stands for any bytes,
// ? for one, [abc], [a-z] and [^a] for one of a set, and a backslash takes the byte
// behind it as it is. After a mismatch it goes back to the last star only: an earlier
// one could not do better.
func glob(pattern, text []byte) bool {
	p, t := 0, 0
	starP, starT := -1, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			starP, starT = p, t
			continue
		}
		if p < len(pattern) {
			if next, ok := globOne(pattern, p, text[t]); ok {
				p, t = next, t+1
				continue
			}
		}
		if starP < 0 {
			return false
		}
		starT++
		p, t = starP, starT
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches one byte against the element of the pattern at p and returns the
// position behind that element.
func globOne(pattern []byte, p int, c byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return globSet(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// globSet matches a byte against the set whose first byte is at p. A set without an end
// goes to the end of the pattern.
func globSet(pattern []byte, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for p < len(pattern) && pattern[p] != ']' {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == c
			p++
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			ok = ok || low <= c && c <= high
			p += 3
		default:
			ok = ok || pattern[p] == c
			p++
		}
	}
	if p < len(pattern) {
		p++
	}
	return p, ok != not
}
