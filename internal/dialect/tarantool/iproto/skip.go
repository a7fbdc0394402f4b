package iproto

import (
	"encoding/binary"
	"errors"
)

// nestingMax is how deep arrays and maps may be nested: what the original encodes
// by default.
const nestingMax = 128

var (
	errShort   = errors.New("the value is cut off")
	errInvalid = errors.New("not MessagePack")
	errDeep    = errors.New("nested too deeply")
)

// Skip returns the length of the first MessagePack value of b. It does not recurse,
// allocates nothing and looks at every byte once, whatever lengths are announced.
func Skip(b []byte) (int, error) {
	size, inner, err := measure(b)
	if err != nil || inner == 0 {
		return size, err
	}
	return skipNested(b, size, inner)
}

// skipNested is Skip for a value of which the first bytes have been looked at.
func skipNested(b []byte, at int, inner uint64) (int, error) {
	var left [nestingMax]uint64 // values still to come at each level
	depth := 0
	left[0] = inner
	for {
		size, inner, err := measure(b[at:])
		if err != nil {
			return 0, err
		}
		at += size
		left[depth]--
		if inner > 0 {
			if depth++; depth == nestingMax {
				return 0, errDeep
			}
			left[depth] = inner
		}
		for left[depth] == 0 {
			if depth == 0 {
				return at, nil
			}
			depth--
		}
	}
}

// CountValues returns how many values b holds, which is known to be well-formed.
func CountValues(b []byte) (n int) {
	for ; len(b) > 0; n++ {
		_, b = Cut(b)
	}
	return n
}

// measure returns the length of the value at the start of b without what is nested
// in it, and how many values that are.
func measure(b []byte) (size int, inner uint64, err error) {
	if len(b) == 0 {
		return 0, 0, errShort
	}
	switch t := b[0]; {
	case t <= 0x7f, t >= 0xe0:
		return 1, 0, nil
	case t <= 0x8f:
		return 1, 2 * uint64(t&0x0f), nil
	case t <= 0x9f:
		return 1, uint64(t & 0x0f), nil
	case t <= 0xbf:
		size = 1 + int(t&0x1f)
	default:
		f := forms[t-0xc0]
		if f.size == 0 {
			return 0, 0, errInvalid
		}
		size = int(f.size)
		if f.length > 0 {
			if len(b) < size {
				return 0, 0, errShort
			}
			n := length(b[1:], f.length)
			if f.inner > 0 {
				return size, n * uint64(f.inner), nil
			}
			if n > uint64(len(b)) {
				return 0, 0, errShort
			}
			size += int(n) //nolint:gosec // not longer than b
		}
	}
	if len(b) < size {
		return 0, 0, errShort
	}
	return size, 0, nil
}

// length reads the length in the first n bytes.
func length(b []byte, n uint8) uint64 {
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	default:
		return uint64(binary.BigEndian.Uint32(b))
	}
}

// form says how a value begins whose first byte is from 0xc0 to 0xdf.
type form struct {
	size   uint8 // bytes before the content, all of them if the size is fixed; zero: no such value
	length uint8 // bytes of the length behind the first byte
	inner  uint8 // values per unit of the length, for arrays and maps
}

var forms = [32]form{
	0x00: {size: 1},            // nil
	0x02: {size: 1},            // false
	0x03: {size: 1},            // true
	0x04: {size: 2, length: 1}, // bin
	0x05: {size: 3, length: 2},
	0x06: {size: 5, length: 4},
	0x07: {size: 3, length: 1}, // ext: a type byte is before the content
	0x08: {size: 4, length: 2},
	0x09: {size: 6, length: 4},
	0x0a: {size: 5}, // float
	0x0b: {size: 9},
	0x0c: {size: 2}, // uint
	0x0d: {size: 3},
	0x0e: {size: 5},
	0x0f: {size: 9},
	0x10: {size: 2}, // int
	0x11: {size: 3},
	0x12: {size: 5},
	0x13: {size: 9},
	0x14: {size: 3}, // ext of a fixed length
	0x15: {size: 4},
	0x16: {size: 6},
	0x17: {size: 10},
	0x18: {size: 18},
	0x19: {size: 2, length: 1}, // str
	0x1a: {size: 3, length: 2},
	0x1b: {size: 5, length: 4},
	0x1c: {size: 3, length: 2, inner: 1}, // array
	0x1d: {size: 5, length: 4, inner: 1},
	0x1e: {size: 3, length: 2, inner: 2}, // map
	0x1f: {size: 5, length: 4, inner: 2},
}
