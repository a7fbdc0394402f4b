package tarantool

import (
	"encoding/binary"
	"errors"
)

// The packets of the 1.5 protocol. All integers are little-endian; a packet is a
// header of three and a body. A field is its length, in base 128 with the most
// significant group first, and its bytes; a tuple is the number of its fields and
// the fields.

// The types of requests. A reply repeats the type. Only a call and a ping mean something here.
const (
	box15Insert = 13
	box15Select = 17
	box15Update = 19
	box15Delete = 21
	box15Call   = 22
	box15Ping   = 0xff00
)

// The return codes of replies: the number of an error shifted by eight, and in the
// low byte the kind of outcome, 2 for an error.
const (
	box15OK          = 0
	box15BadParams   = 0x0202
	box15Unsupported = 0x0a02
	box15NoProcedure = 0x3202
	box15LuaError    = 0x3302
)

const (
	box15HeaderSize = 12
	// box15LengthMax is the most bytes that the length of a field takes.
	box15LengthMax = 5
)

// box15Header is the head of a packet.
type box15Header struct {
	kind uint32
	size uint32 // of the body
	sync uint32 // chosen by the client; the reply repeats it
}

// parseBox15Header reads a header, of which b holds all bytes.
func parseBox15Header(b []byte) box15Header {
	return box15Header{
		kind: binary.LittleEndian.Uint32(b),
		size: binary.LittleEndian.Uint32(b[4:]),
		sync: binary.LittleEndian.Uint32(b[8:]),
	}
}

// known reports whether the protocol has packets of this type.
func (h box15Header) known() bool {
	switch h.kind {
	case box15Insert, box15Select, box15Update, box15Delete, box15Call, box15Ping:
		return true
	}
	return false
}

// errBox15Body means that the body of a packet is not what its type wants.
var errBox15Body = errors.New("malformed packet body")

// box15Fields is a tuple that has been checked and is read field by field.
type box15Fields struct {
	rest []byte
	left int
}

// parseBox15Call reads the body of a CALL: flags, the name of the procedure and the
// tuple of its arguments. What it returns are parts of the body.
func parseBox15Call(body []byte) (name []byte, fields box15Fields, err error) {
	if len(body) < 4 {
		return nil, fields, errBox15Body
	}
	name, rest, ok := cutBox15Field(body[4:]) // no flag means anything here
	if !ok {
		return nil, fields, errBox15Body
	}
	fields, err = parseBox15Tuple(rest)
	return name, fields, err
}

// parseBox15Tuple checks a tuple, which must be all of b. Its cardinality is only
// believed as far as there are fields.
func parseBox15Tuple(b []byte) (box15Fields, error) {
	if len(b) < 4 {
		return box15Fields{}, errBox15Body
	}
	count, rest := binary.LittleEndian.Uint32(b), b[4:]
	fields := box15Fields{rest: rest, left: int(count)}
	for range count {
		var ok bool
		if _, rest, ok = cutBox15Field(rest); !ok {
			return box15Fields{}, errBox15Body
		}
	}
	if len(rest) > 0 {
		return box15Fields{}, errBox15Body
	}
	return fields, nil
}

// next returns the next field; not ok if there is none.
func (f *box15Fields) next() (field []byte, ok bool) {
	if f.left == 0 {
		return nil, false
	}
	f.left--
	field, f.rest, ok = cutBox15Field(f.rest)
	return field, ok
}

// cutBox15Field splits off the first field.
func cutBox15Field(b []byte) (field, rest []byte, ok bool) {
	var size uint64
	for i, c := range b[:min(len(b), box15LengthMax)] {
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

// appendBox15Length appends the length of a field.
func appendBox15Length(b []byte, n int) []byte {
	for shift := 7 * (box15LengthMax - 1); shift > 0; shift -= 7 {
		if n>>shift > 0 {
			b = append(b, byte(n>>shift&0x7f)|0x80)
		}
	}
	return append(b, byte(n&0x7f))
}

// appendBox15Field appends a field.
func appendBox15Field[T string | []byte](b []byte, field T) []byte {
	return append(appendBox15Length(b, len(field)), field...)
}

// appendBox15Uint32 appends a field that is a number of four bytes.
func appendBox15Uint32(b []byte, n uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, 4), n)
}

// appendBox15Uint64 appends a field that is a number of eight bytes.
func appendBox15Uint64(b []byte, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, 8), n)
}

// beginBox15 appends the head of a reply; endBox15 fills in the size of what has
// been appended behind it. A reply to PING is a head alone.
func beginBox15(b []byte, h box15Header) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.kind)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, h.sync)
}

// endBox15 ends the reply that begins at start.
func endBox15(b []byte, start int) []byte {
	size := len(b) - start - box15HeaderSize
	binary.LittleEndian.PutUint32(b[start+4:], uint32(size)) //nolint:gosec // bounded by the size of a packet
	return b
}

// appendBox15Error appends a reply that tells an error. The text ends in a zero byte.
func appendBox15Error(b []byte, h box15Header, code uint32, text string) []byte {
	start := len(b)
	b = beginBox15(b, h)
	b = binary.LittleEndian.AppendUint32(b, code)
	b = append(append(b, text...), 0)
	return endBox15(b, start)
}

// beginBox15Rows appends the head of a successful reply with so many rows.
func beginBox15Rows(b []byte, h box15Header, count uint32) []byte {
	b = beginBox15(b, h)
	b = binary.LittleEndian.AppendUint32(b, box15OK)
	return binary.LittleEndian.AppendUint32(b, count)
}

// beginBox15Row appends the head of a row; endBox15Row fills in the number and the
// size of the fields that have been appended behind it.
func beginBox15Row(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 0) }

// endBox15Row ends the row that begins at start. Its size counts the fields only.
func endBox15Row(b []byte, start int, fields uint32) []byte {
	size := len(b) - start - 8
	binary.LittleEndian.PutUint32(b[start:], uint32(size)) //nolint:gosec // bounded by the size of a packet
	binary.LittleEndian.PutUint32(b[start+4:], fields)
	return b
}
