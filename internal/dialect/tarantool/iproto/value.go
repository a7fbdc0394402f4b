package iproto

import (
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// Value is one MessagePack value as it arrived, known to be well-formed. An empty
// one stands for an argument that was not given.
type Value []byte

// Nil is all of the value nil.
const Nil = 0xc0

// is reports what the value is.
func (v Value) is(t msgp.Type) bool { return msgp.NextType(v) == t }

// IsNil reports whether the value is nil or not there.
func (v Value) IsNil() bool { return len(v) == 0 || v[0] == Nil }

// isUnsigned reports whether the value is a number of an unsigned type.
func (v Value) isUnsigned() bool { return len(v) > 0 && sizeOfSize(v[0]) > 0 }

// isInteger reports whether the value is a number of an integer type.
func (v Value) isInteger() bool { return v.is(msgp.IntType) || v.is(msgp.UintType) }

// Uint returns a whole number from zero up, of any width, or a float that is one.
func (v Value) Uint() (n uint64, ok bool) {
	if v.isInteger() {
		n, _, err := msgp.ReadUint64Bytes(v)
		return n, err == nil
	}
	i, ok := v.Int()
	return uint64(max(i, 0)), ok && i >= 0
}

// Int returns a whole number of any width, or a float that is one.
func (v Value) Int() (n int64, ok bool) {
	if v.isInteger() {
		n, _, err := msgp.ReadInt64Bytes(v)
		return n, err == nil
	}
	f, ok := v.Number()
	if !ok || f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// Number returns an integer or a float of any width.
func (v Value) Number() (f float64, ok bool) {
	switch {
	case v.is(msgp.UintType):
		u, _, err := msgp.ReadUint64Bytes(v)
		return float64(u), err == nil
	case v.is(msgp.IntType):
		i, _, err := msgp.ReadInt64Bytes(v)
		return float64(i), err == nil
	case v.is(msgp.Float32Type), v.is(msgp.Float64Type):
		f, _, err := msgp.ReadFloat64Bytes(v) // of either width
		return f, err == nil && !math.IsNaN(f)
	default:
		return 0, false
	}
}

// NumberOrText is Number, and a decimal number in a string as well: some clients
// of old send every number so.
func (v Value) NumberOrText() (f float64, ok bool) {
	if f, ok = v.Number(); ok {
		return f, true
	}
	text, ok := v.Bytes()
	if !ok || len(text) > numberLen {
		return 0, false
	}
	for _, c := range text {
		// ParseFloat also reads names, underscores and hexadecimal.
		if (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}

// numberLen is the longest text that is taken for a number.
const numberLen = 64

// Bytes returns the content of a string or of binary data. It is a part of v.
func (v Value) Bytes() (b []byte, ok bool) {
	var err error
	switch {
	case v.is(msgp.StrType):
		b, _, err = msgp.ReadStringZC(v)
	case v.is(msgp.BinType):
		b, _, err = msgp.ReadBytesZC(v)
	default:
		return nil, false
	}
	return b, err == nil
}

// Bool returns a truth value.
func (v Value) Bool() (b, ok bool) {
	b, _, err := msgp.ReadBoolBytes(v)
	return b, err == nil
}

// Array returns the number of elements and the elements, one after the other.
func (v Value) Array() (n int, elements []byte, ok bool) {
	if !v.is(msgp.ArrayType) {
		return 0, nil, false
	}
	size, rest, err := msgp.ReadArrayHeaderBytes(v)
	return int(size), rest, err == nil
}

// Fields returns the entries of a map. Nil is an empty map, and so is an empty
// Array: Lua and PHP clients cannot tell them apart.
func (v Value) Fields() (f Fields, ok bool) {
	switch {
	case v.IsNil():
		return Fields{}, true
	case v.is(msgp.MapType):
		size, rest, err := msgp.ReadMapHeaderBytes(v)
		return Fields{left: int(size), rest: rest}, err == nil
	default:
		n, _, ok := v.Array()
		return Fields{}, ok && n == 0
	}
}

// Fields walks the entries of a map.
type Fields struct {
	left int
	rest []byte
}

// Next returns the next entry; not ok after the last.
func (f *Fields) Next() (key, val Value, ok bool) {
	if f.left == 0 {
		return nil, nil, false
	}
	f.left--
	key, f.rest = Cut(f.rest)
	val, f.rest = Cut(f.rest)
	return key, val, true
}

// Cut splits the first Value off what is known to be well-formed.
func Cut(b []byte) (first Value, rest []byte) {
	n, err := Skip(b)
	if err != nil {
		return nil, nil
	}
	return Value(b[:n:n]), b[n:]
}
