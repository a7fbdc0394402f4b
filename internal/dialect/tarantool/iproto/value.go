package iproto

import (
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// Value is one MessagePack value as it arrived, known to be well-formed. An empty
// one stands for an argument that was not given.
type Value []byte

// The first bytes of values; from fixint and the negative ones on, of ranges.
const (
	mpFixintMax  = 0x7f
	mpFixmap     = 0x80
	mpFixarray   = 0x90
	mpFixstr     = 0xa0
	Nil          = 0xc0 // all of a nil
	mpNone       = 0xc1 // no value begins so
	mpFalse      = 0xc2
	mpTrue       = 0xc3
	mpBin8       = 0xc4
	mpBin32      = 0xc6
	mpFloat32    = 0xca
	mpFloat64    = 0xcb
	mpUint8      = 0xcc
	mpUint16     = 0xcd
	mpUint32     = 0xce
	mpUint64     = 0xcf
	mpInt8       = 0xd0
	mpInt64      = 0xd3
	mpStr8       = 0xd9
	mpStr32      = 0xdb
	mpArray16    = 0xdc
	mpArray32    = 0xdd
	mpMap16      = 0xde
	mpMap32      = 0xdf
	mpNegFixints = 0xe0
)

// first returns the first byte, which tells what the value is.
func (v Value) first() byte {
	if len(v) == 0 {
		return mpNone
	}
	return v[0]
}

// IsNil reports whether the value is nil or not there.
func (v Value) IsNil() bool { return len(v) == 0 || v[0] == Nil }

// isUnsigned reports whether the value is a number of an unsigned type.
func (v Value) isUnsigned() bool {
	t := v.first()
	return t <= mpFixintMax || t >= mpUint8 && t <= mpUint64
}

func (v Value) isSigned() bool {
	t := v.first()
	return t >= mpNegFixints || t >= mpInt8 && t <= mpInt64
}

func (v Value) isFloat() bool { return v.first() == mpFloat32 || v.first() == mpFloat64 }

func (v Value) isString() bool {
	t := v.first()
	return t >= mpFixstr && t < Nil || t >= mpStr8 && t <= mpStr32
}

func (v Value) isArray() bool {
	t := v.first()
	return t >= mpFixarray && t < mpFixstr || t == mpArray16 || t == mpArray32
}

func (v Value) isMap() bool {
	t := v.first()
	return t >= mpFixmap && t < mpFixarray || t == mpMap16 || t == mpMap32
}

// Uint returns a whole number from zero up, of whatever width, or a float that is one.
func (v Value) Uint() (n uint64, ok bool) {
	if v.isUnsigned() {
		n, _, err := msgp.ReadUint64Bytes(v)
		return n, err == nil
	}
	i, ok := v.Int()
	return uint64(max(i, 0)), ok && i >= 0
}

// Int returns a whole number of whatever width, or a float that is one.
func (v Value) Int() (n int64, ok bool) {
	switch {
	case v.isUnsigned():
		u, _, err := msgp.ReadUint64Bytes(v)
		return int64(u & math.MaxInt64), err == nil && u <= math.MaxInt64
	case v.isSigned():
		n, _, err := msgp.ReadInt64Bytes(v)
		return n, err == nil
	}
	f, ok := v.Number()
	if !ok || f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// Number returns an integer or a float of whatever width.
func (v Value) Number() (f float64, ok bool) {
	switch {
	case v.isUnsigned():
		u, _, err := msgp.ReadUint64Bytes(v)
		return float64(u), err == nil
	case v.isSigned():
		i, _, err := msgp.ReadInt64Bytes(v)
		return float64(i), err == nil
	case v.isFloat():
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
	switch t := v.first(); {
	case v.isString():
		b, _, err = msgp.ReadStringZC(v)
	case t >= mpBin8 && t <= mpBin32:
		b, _, err = msgp.ReadBytesZC(v)
	default:
		return nil, false
	}
	return b, err == nil
}

// Bool returns a truth value.
func (v Value) Bool() (b, ok bool) {
	t := v.first()
	return t == mpTrue, t == mpTrue || t == mpFalse
}

// Array returns the number of elements and the elements, one after the other.
func (v Value) Array() (n int, elements []byte, ok bool) {
	if !v.isArray() {
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
	case v.isMap():
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
