package api

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// MessagePack values are shown as text that is like JSON. Where JSON has no form for them, bytes are bin"..." and
// extensions ext<number>"...", in hexadecimal digits, and keys of maps are whatever they are.

// unpacker writes MessagePack as text. It does not recurse, and stops when the text is long enough. It reads the bytes
// itself because a library that does reads whole values: of a body that was cut off anywhere, such as in its one long
// text, the beginning is to be shown, and lengths that lie must cost nothing.
type unpacker struct {
	in     []byte
	out    strings.Builder
	most   int  // bytes of text
	layout bool // a line for each value
	open   []container
	failed bool
	cut    bool
}

// container is an array or a map that is not complete.
type container struct {
	left  uint64 // values to come; a map has two for each entry
	isMap bool
	empty bool // nothing has come yet
}

// unpack shows MessagePack values, one after the other. It reports whether that is what the bytes are, and whether the
// text, or the input, ends before they do.
func unpack(in []byte, most int, layout bool) (text string, cut, ok bool) {
	u := &unpacker{in: in, most: most, layout: layout}
	for first := true; len(u.in) > 0 && !u.failed && !u.cut; first = false {
		if !first {
			u.out.WriteByte('\n')
		}
		u.value()
		for len(u.open) > 0 && !u.failed && !u.cut {
			u.next()
		}
	}
	return u.out.String(), u.cut, !u.failed && len(in) > 0
}

// next writes what comes next in the innermost container.
func (u *unpacker) next() {
	c := &u.open[len(u.open)-1]
	if c.left == 0 {
		u.end(c)
		return
	}
	switch isValue := c.isMap && c.left%2 == 1; {
	case isValue:
		u.out.WriteString(": ")
	case c.empty:
		u.line(len(u.open))
	default:
		u.out.WriteByte(',')
		if !u.layout {
			u.out.WriteByte(' ')
		}
		u.line(len(u.open))
	}
	c.left--
	c.empty = false
	u.value()
}

func (u *unpacker) end(c *container) {
	closing := byte(']')
	if c.isMap {
		closing = '}'
	}
	if !c.empty {
		u.line(len(u.open) - 1)
	}
	u.out.WriteByte(closing)
	u.open = u.open[:len(u.open)-1]
}

func (u *unpacker) line(depth int) {
	if u.layout {
		u.out.WriteByte('\n')
		for range depth {
			u.out.WriteString("  ")
		}
	}
}

// begin opens a container.
func (u *unpacker) begin(count uint64, isMap bool) {
	if len(u.open) >= nestingMax {
		u.failed = true
		return
	}
	opening := byte('[')
	if isMap {
		opening = '{'
		count *= 2 // of 32 bits at most
	}
	u.out.WriteByte(opening)
	u.open = append(u.open, container{left: count, isMap: isMap, empty: true})
}

// take returns the next bytes of the input. If it ends before, that is a cut, and there are fewer.
func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.in)) {
		u.cut = true
		n = uint64(len(u.in))
	}
	b := u.in[:n]
	u.in = u.in[n:]
	return b
}

// number reads a number of n bytes.
func (u *unpacker) number(size int) uint64 {
	var b [8]byte
	copy(b[8-size:], u.take(uint64(size))) //nolint:gosec // a small number
	return binary.BigEndian.Uint64(b[:])
}

// The ranges of first bytes that hold a small number or length.
const (
	packMap      = 0x80
	packArray    = 0x90
	packText     = 0xa0
	packNil      = 0xc0
	packNever    = 0xc1
	packFalse    = 0xc2
	packTrue     = 0xc3
	packBin      = 0xc4
	packExt      = 0xc7
	packFloat    = 0xca
	packUint     = 0xcc
	packInt      = 0xd0
	packFixExt   = 0xd4
	packLongText = 0xd9
	packLongSeq  = 0xdc
	packLongMap  = 0xde
	packMinus    = 0xe0
)

// value writes one value, or the beginning of a container.
func (u *unpacker) value() {
	if u.out.Len() > u.most {
		u.cut = true
		return
	}
	first := u.take(1)
	if len(first) == 0 {
		return
	}
	switch c := first[0]; {
	case c < packMap:
		u.out.WriteString(strconv.Itoa(int(c)))
	case c < packArray:
		u.begin(uint64(c&0x0f), true)
	case c < packText:
		u.begin(uint64(c&0x0f), false)
	case c < packNil:
		u.text(uint64(c & 0x1f))
	case c >= packMinus:
		u.out.WriteString(strconv.Itoa(int(int8(c)))) //nolint:gosec // a byte that is meant as one with a sign
	default:
		u.long(c)
	}
}

// long writes a value whose first byte is c and says nothing but its kind.
func (u *unpacker) long(c byte) {
	switch {
	case c == packNil:
		u.out.WriteString("null")
	case c == packNever:
		u.failed = true
	case c <= packTrue:
		u.out.WriteString(strconv.FormatBool(c == packTrue))
	case c < packExt:
		u.bytes("bin", u.number(1<<(c-packBin)))
	case c < packFloat:
		n := u.number(1 << (c - packExt))
		u.extension(n)
	case c == packFloat:
		u.float(float64(math.Float32frombits(uint32(u.number(4)))), 32) //nolint:gosec // four bytes
	case c < packUint:
		u.float(math.Float64frombits(u.number(8)), 64)
	case c < packInt:
		u.out.WriteString(strconv.FormatUint(u.number(1<<(c-packUint)), 10))
	case c < packFixExt:
		size := 1 << (c - packInt)
		shift := 64 - 8*size
		u.out.WriteString(strconv.FormatInt(int64(u.number(size)<<shift)>>shift, 10)) //nolint:gosec // the sign is spread
	case c < packLongText:
		u.extension(1 << (c - packFixExt))
	case c < packLongSeq:
		u.text(u.number(1 << (c - packLongText)))
	case c < packLongMap:
		u.begin(u.number(2<<(c-packLongSeq)), false)
	default:
		u.begin(u.number(2<<(c-packLongMap)), true)
	}
}

func (u *unpacker) float(f float64, bits int) {
	u.out.WriteString(strconv.FormatFloat(f, 'g', -1, bits))
}

func (u *unpacker) extension(n uint64) {
	kind := int8(u.number(1)) //nolint:gosec // one byte, with a sign
	u.bytes("ext"+strconv.Itoa(int(kind)), n)
}

// bytes writes bytes that are no text.
func (u *unpacker) bytes(name string, n uint64) {
	u.out.WriteString(name + `"` + hex.EncodeToString(u.bounded(n, 2)) + `"`)
}

// text writes a text.
func (u *unpacker) text(n uint64) {
	u.out.WriteByte('"')
	for _, r := range strings.ToValidUTF8(string(u.bounded(n, 1)), "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			u.out.WriteByte('\\')
			u.out.WriteRune(r)
		case r == '\n':
			u.out.WriteString(`\n`)
		case r == '\t':
			u.out.WriteString(`\t`)
		case strconv.IsPrint(r):
			u.out.WriteRune(r)
		default:
			u.out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	u.out.WriteByte('"')
}

// bounded takes the next n bytes, and returns no more of them than may still be shown at so many characters each.
func (u *unpacker) bounded(n uint64, each int) []byte {
	b := u.take(n)
	if room := max(0, u.most-u.out.Len()) / each; len(b) > room {
		u.cut = true
		b = b[:room]
	}
	return b
}
