package tarantool

import (
	"math"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// value is one MessagePack value as it arrived, known to be well-formed. An empty
// one stands for an argument that was not given.
type value []byte

// The first bytes of values; from fixint and the negative ones on, of ranges.
const (
	mpFixintMax  = 0x7f
	mpFixmap     = 0x80
	mpFixarray   = 0x90
	mpFixstr     = 0xa0
	mpNil        = 0xc0
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
func (v value) first() byte {
	if len(v) == 0 {
		return mpNone
	}
	return v[0]
}

// isNil reports whether the value is nil or not there.
func (v value) isNil() bool { return len(v) == 0 || v[0] == mpNil }

// isUnsigned reports whether the value is a number of an unsigned type.
func (v value) isUnsigned() bool {
	t := v.first()
	return t <= mpFixintMax || t >= mpUint8 && t <= mpUint64
}

func (v value) isSigned() bool {
	t := v.first()
	return t >= mpNegFixints || t >= mpInt8 && t <= mpInt64
}

func (v value) isFloat() bool { return v.first() == mpFloat32 || v.first() == mpFloat64 }

func (v value) isString() bool {
	t := v.first()
	return t >= mpFixstr && t < mpNil || t >= mpStr8 && t <= mpStr32
}

func (v value) isArray() bool {
	t := v.first()
	return t >= mpFixarray && t < mpFixstr || t == mpArray16 || t == mpArray32
}

func (v value) isMap() bool {
	t := v.first()
	return t >= mpFixmap && t < mpFixarray || t == mpMap16 || t == mpMap32
}

// uint returns a whole number from zero up, of whatever width, or a float that is one.
func (v value) uint() (n uint64, ok bool) {
	if v.isUnsigned() {
		n, _, err := msgp.ReadUint64Bytes(v)
		return n, err == nil
	}
	i, ok := v.int()
	return uint64(max(i, 0)), ok && i >= 0
}

// int returns a whole number of whatever width, or a float that is one.
func (v value) int() (n int64, ok bool) {
	switch {
	case v.isUnsigned():
		u, _, err := msgp.ReadUint64Bytes(v)
		return int64(u & math.MaxInt64), err == nil && u <= math.MaxInt64
	case v.isSigned():
		n, _, err := msgp.ReadInt64Bytes(v)
		return n, err == nil
	}
	f, ok := v.number()
	if !ok || f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// number returns an integer or a float of whatever width.
func (v value) number() (f float64, ok bool) {
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

// numberOrText is number, and a decimal number in a string as well: some clients
// of old send every number so.
func (v value) numberOrText() (f float64, ok bool) {
	if f, ok = v.number(); ok {
		return f, true
	}
	text, ok := v.bytes()
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

// bytes returns the content of a string or of binary data. It is a part of v.
func (v value) bytes() (b []byte, ok bool) {
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

func (v value) bool() (b, ok bool) {
	t := v.first()
	return t == mpTrue, t == mpTrue || t == mpFalse
}

// array returns the number of elements and the elements, one after the other.
func (v value) array() (n int, elements []byte, ok bool) {
	if !v.isArray() {
		return 0, nil, false
	}
	size, rest, err := msgp.ReadArrayHeaderBytes(v)
	return int(size), rest, err == nil
}

// fields returns the entries of a map. Nil is an empty map, and so is an empty
// array: Lua and PHP clients cannot tell them apart.
func (v value) fields() (f fields, ok bool) {
	switch {
	case v.isNil():
		return fields{}, true
	case v.isMap():
		size, rest, err := msgp.ReadMapHeaderBytes(v)
		return fields{left: int(size), rest: rest}, err == nil
	default:
		n, _, ok := v.array()
		return fields{}, ok && n == 0
	}
}

// fields walks the entries of a map.
type fields struct {
	left int
	rest []byte
}

// next returns the next entry; not ok after the last.
func (f *fields) next() (key, val value, ok bool) {
	if f.left == 0 {
		return nil, nil, false
	}
	f.left--
	key, f.rest = cut(f.rest)
	val, f.rest = cut(f.rest)
	return key, val, true
}

// cut splits the first value off what is known to be well-formed.
func cut(b []byte) (first value, rest []byte) {
	n, err := skip(b)
	if err != nil {
		return nil, nil
	}
	return value(b[:n:n]), b[n:]
}

// args are the arguments of a call.
type args struct {
	n    int                // how many were sent, trailing nils included
	raw  []byte             // all of them, one after the other
	ends [argsIndexed]int32 // where the first ones end in raw
}

// argsIndexed is how many arguments are found without a walk.
const argsIndexed = 8

// set takes the elements of a well-formed array, or none.
func (a *args) set(v value) {
	n, elements, _ := v.array()
	a.index(n, elements)
}

// index takes n well-formed values.
func (a *args) index(n int, values []byte) {
	*a = args{n: n, raw: values}
	at := 0
	for i := range min(n, argsIndexed) {
		v, _ := cut(values[at:])
		at += len(v)
		a.ends[i] = int32(at) //nolint:gosec // packets are far smaller
	}
}

// count returns how many arguments were sent, nils included.
func (a *args) count() int { return a.n }

// at returns the i-th argument, from zero; empty if it was not sent.
func (a *args) at(i int) value {
	if i < 0 || i >= a.n {
		return nil
	}
	if i < argsIndexed {
		start := 0
		if i > 0 {
			start = int(a.ends[i-1])
		}
		return value(a.raw[start:a.ends[i]:a.ends[i]])
	}
	first, _ := cut(a.from(i))
	return first
}

// from returns the i-th argument and all behind it, one after the other.
func (a *args) from(i int) []byte {
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
		_, rest = cut(rest)
	}
	return rest
}

// century is what the queue module takes for ever: 100 years.
const century = 100 * 365 * 24 * time.Hour

// seconds converts a number of seconds, and reports the century and more as century.
func seconds(f float64) time.Duration {
	switch {
	case f >= century.Seconds():
		return century
	case f <= -century.Seconds():
		return -century
	default:
		return time.Duration(f * float64(time.Second))
	}
}
