// Package box15 reads and writes the packets of the binary protocol of Tarantool 1.5. All integers are little-endian; a
// packet is a header of three and a body. A field is its length, in base 128 with the most significant group first, and
// its bytes; a tuple is the number of its fields and the fields.
package box15

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// The types of requests. A reply repeats the type. Only a call and a ping mean something here.
const (
	kindInsert = 13
	kindSelect = 17
	kindUpdate = 19
	kindDelete = 21
	KindCall   = 22
	KindPing   = 0xff00
)

// The return codes of replies: the number of an error shifted by eight, and in the
// low byte the kind of outcome, 2 for an error.
const (
	codeOK          = 0
	CodeBadParams   = 0x0202
	CodeUnsupported = 0x0a02
	CodeNoProcedure = 0x3202
	CodeRaised      = 0x3302
)

const (
	// HeaderSize is the length of a header.
	HeaderSize = 12
	// lengthMax is the most bytes that the length of a field takes.
	lengthMax = 5
)

// Header is the head of a packet.
type Header struct {
	Kind uint32
	Size uint32 // of the body
	Sync uint32 // chosen by the client; the reply repeats it
}

// ParseHeader reads a header, of which b holds all bytes.
func ParseHeader(b []byte) Header {
	return Header{
		Kind: binary.LittleEndian.Uint32(b),
		Size: binary.LittleEndian.Uint32(b[4:]),
		Sync: binary.LittleEndian.Uint32(b[8:]),
	}
}

// Known reports whether the protocol has packets of this type.
func (h Header) Known() bool {
	switch h.Kind {
	case kindInsert, kindSelect, kindUpdate, kindDelete, KindCall, KindPing:
		return true
	}
	return false
}

// errBody means that the body of a packet is not what its type wants.
var errBody = errors.New("malformed packet body")

// Fields is a tuple that has been checked and is read field by field.
type Fields struct {
	rest []byte
	left int
}

// ParseCall reads the body of a CALL: flags, the name of the procedure and the
// tuple of its arguments. What it returns are parts of the body.
func ParseCall(body []byte) (name []byte, fields Fields, err error) {
	if len(body) < 4 {
		return nil, fields, errBody
	}
	name, rest, ok := cutField(body[4:]) // no flag means anything here
	if !ok {
		return nil, fields, errBody
	}
	fields, err = parseTuple(rest)
	return name, fields, err
}

// parseTuple checks a tuple, which must be all of b. Its cardinality is only
// believed as far as there are fields.
func parseTuple(b []byte) (Fields, error) {
	if len(b) < 4 {
		return Fields{}, errBody
	}
	count, rest := binary.LittleEndian.Uint32(b), b[4:]
	fields := Fields{rest: rest, left: int(count)}
	for range count {
		var ok bool
		if _, rest, ok = cutField(rest); !ok {
			return Fields{}, errBody
		}
	}
	if len(rest) > 0 {
		return Fields{}, errBody
	}
	return fields, nil
}

// Next returns the next field; not ok if there is none.
func (f *Fields) Next() (field []byte, ok bool) {
	if f.left == 0 {
		return nil, false
	}
	f.left--
	field, f.rest, ok = cutField(f.rest)
	return field, ok
}

// AppendMsgPack appends the fields that are left as MessagePack: strings, or binary data if they are no text. It
// returns how many they are.
func (f *Fields) AppendMsgPack(b []byte) (out []byte, n int) {
	for field, ok := f.Next(); ok; field, ok = f.Next() {
		if utf8.Valid(field) {
			b = msgp.AppendStringFromBytes(b, field)
		} else {
			b = msgp.AppendBytes(b, field)
		}
		n++
	}
	return b, n
}

// cutField splits off the first field.
func cutField(b []byte) (field, rest []byte, ok bool) {
	var size uint64
	for i, c := range b[:min(len(b), lengthMax)] {
		size = size<<7 | uint64(c&0x7f)
		if c < 0x80 {
			b = b[i+1:]
			if size > uint64(len(b)) {
				return nil, nil, false
			}
			return b[:size:size], b[size:], true
		}
	}
	return nil, nil, false
}

// appendLength appends the length of a field.
func appendLength(b []byte, n int) []byte {
	for shift := 7 * (lengthMax - 1); shift > 0; shift -= 7 {
		if n>>shift > 0 {
			b = append(b, byte(n>>shift&0x7f)|0x80)
		}
	}
	return append(b, byte(n&0x7f))
}

// AppendField appends a field.
func AppendField[T string | []byte](b []byte, field T) []byte {
	return append(appendLength(b, len(field)), field...)
}

// AppendUint32 appends a field that is a number of four bytes.
func AppendUint32(b []byte, n uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, 4), n)
}

// AppendUint64 appends a field that is a number of eight bytes.
func AppendUint64(b []byte, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, 8), n)
}

// Begin appends the head of a reply; end fills in the size of what has
// been appended behind it. A reply to PING is a head alone.
func Begin(b []byte, h Header) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.Kind)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, h.Sync)
}

// end ends the reply that begins at start.
func end(b []byte, start int) []byte {
	size := len(b) - start - HeaderSize
	binary.LittleEndian.PutUint32(b[start+4:], uint32(size)) //nolint:gosec // bounded by the size of a packet
	return b
}

// AppendError appends a reply that tells an error. The text ends in a zero byte.
func AppendError(b []byte, h Header, code uint32, text string) []byte {
	start := len(b)
	b = Begin(b, h)
	b = binary.LittleEndian.AppendUint32(b, code)
	b = append(append(b, text...), 0)
	return end(b, start)
}

// BeginRows appends the head of a successful reply; EndRows fills in the number and the size of the rows that have been
// appended behind it.
func BeginRows(b []byte, h Header) []byte {
	b = binary.LittleEndian.AppendUint32(Begin(b, h), codeOK)
	return append(b, 0, 0, 0, 0)
}

// EndRows ends the reply that begins at start.
func EndRows(b []byte, start int, count uint32) []byte {
	binary.LittleEndian.PutUint32(b[start+HeaderSize+4:], count)
	return end(b, start)
}

// BeginRow appends the head of a row; EndRow fills in the number and the
// size of the fields that have been appended behind it.
func BeginRow(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 0) }

// EndRow ends the row that begins at start. Its size counts the fields only.
func EndRow(b []byte, start int, fields uint32) []byte {
	size := len(b) - start - 8
	binary.LittleEndian.PutUint32(b[start:], uint32(size)) //nolint:gosec // bounded by the size of a packet
	binary.LittleEndian.PutUint32(b[start+4:], fields)
	return b
}
